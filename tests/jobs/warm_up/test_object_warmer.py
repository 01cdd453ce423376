"""The object warmer: stores an object that a rule accelerates, and says why it can't be stored."""

from dataclasses import replace

import pytest

from forebay.core.errors import OriginUnreachable, PeerUnavailable
from forebay.core.events import BytesWarmed
from forebay.core.names import ObjectName
from forebay.jobs.warm_up.object_warmer import ObjectWarmer
from forebay.jobs.warm_up.owner_warm_up import WarmUpProgress
from forebay.origin.turns.request_turns import RequestTurns
from forebay.peers.owners import Peers
from forebay.policy.rules import Rules
from harness.fetch_rig import BLOCK, DECISION, NAME, FetchRig, fetch_rig
from harness.warming_peer import WarmingPeer


def object_warmer(rig: FetchRig, *, accelerate: bool = True, peers: Peers | None = None) -> ObjectWarmer:
    rules = Rules([], replace(DECISION, accelerate=accelerate))
    turns = RequestTurns(8, "reads", rig.timers).background
    return ObjectWarmer(
        rig.resolver, rig.openings, rig.block_source(deadline=5.0), lambda _: turns, lambda: rules, peers or Peers()
    )


async def test_only_blocks_not_yet_stored_count_as_warmed() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, BLOCK + 5)
        warmer = object_warmer(rig)
        for fetched in (BLOCK + 5, 0):
            before = sum(event.size for event in rig.heard.of(BytesWarmed))
            progresses: list[WarmUpProgress] = []
            await warmer.warm(NAME, "job", progresses.append)
            assert [(each.kind, each.size) for each in progresses] == [
                ("size", BLOCK + 5),
                ("arrived", BLOCK),
                ("arrived", 5),
            ]
            assert sum(event.size for event in rig.heard.of(BytesWarmed)) - before == fetched


async def test_a_small_object_comes_with_its_head() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, 5)
        warmer = object_warmer(rig)
        for expected in ([("whole", 5)], [("size", 5), ("arrived", 5)]):
            progresses: list[WarmUpProgress] = []
            await warmer.warm(NAME, "job", progresses.append)
            assert [(each.kind, each.size) for each in progresses] == expected
        assert [event.size for event in rig.heard.of(BytesWarmed)] == [5]
        assert len(rig.origin.log.requests) == 1
        assert rig.budget.in_use == 0


async def test_an_object_without_acceleration_is_not_fetched() -> None:
    async with fetch_rig() as rig:
        progresses: list[WarmUpProgress] = []
        await object_warmer(rig, accelerate=False).warm(NAME, "job", progresses.append)
        assert [progress.kind for progress in progresses] == ["problem"]
        assert rig.origin.log.requests == []


async def test_the_owner_warms_its_objects_unless_it_is_gone() -> None:
    async with fetch_rig() as rig:
        peer = WarmingPeer(object_warmer(rig))
        warmer = object_warmer(rig, peers=peer.peers)
        name = ObjectName("bucket", peer.key(0))
        rig.origin.store.put_synthetic(*name, 5)
        progresses: list[WarmUpProgress] = []
        await warmer.warm(name, "job", progresses.append)
        assert len(peer.calls) == 1
        peer.failure = PeerUnavailable("gone")
        await warmer.warm(name, "job", progresses.append)
        assert [each.kind for each in progresses] == ["whole", "size", "arrived"]
        peer.failure = OriginUnreachable("away")
        with pytest.raises(OriginUnreachable):
            await warmer.warm(name, "job", progresses.append)

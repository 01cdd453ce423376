"""The object warmer: stores an object that a rule accelerates, and says why it can't be stored."""

from dataclasses import replace

import pytest

from forebay.core.events import BytesWarmed
from forebay.jobs.object_warmer import ObjectWarmer, WarmUpProgress, decode_progress
from forebay.origin.request_turns import RequestTurns
from forebay.peers.owners import Peers
from forebay.policy.rules import Rules
from harness.fetch_rig import BLOCK, DECISION, NAME, FetchRig, fetch_rig


def object_warmer(rig: FetchRig, *, accelerate: bool = True) -> ObjectWarmer:
    rules = Rules([], replace(DECISION, accelerate=accelerate))
    turns = RequestTurns(8, "reads", rig.timers).background
    return ObjectWarmer(rig.resolver, rig.block_source(deadline=5.0), lambda _: turns, lambda: rules, Peers())


async def test_only_blocks_not_yet_stored_count_as_warmed() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, BLOCK + 5)
        warmer = object_warmer(rig)
        for fetched in (BLOCK + 5, 0):
            before = sum(event.size for event in rig.heard.of(BytesWarmed))
            progresses = [progress async for progress in warmer.warm(NAME, "job")]
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
        for _ in range(2):
            progresses = [progress async for progress in warmer.warm(NAME, "job")]
            assert [(each.kind, each.size) for each in progresses] == [("size", 5), ("arrived", 5)]
        assert [event.size for event in rig.heard.of(BytesWarmed)] == [5]
        assert len(rig.origin.log.requests) == 1
        assert rig.budget.in_use == 0


async def test_an_object_without_acceleration_is_not_fetched() -> None:
    async with fetch_rig() as rig:
        progresses = [progress async for progress in object_warmer(rig, accelerate=False).warm(NAME, "job")]
        assert [progress.kind for progress in progresses] == ["problem"]
        assert rig.origin.log.requests == []


def test_progress_decodes_to_what_was_encoded() -> None:
    for progress in (WarmUpProgress("size", 5), WarmUpProgress("problem", problem="why")):
        assert decode_progress(progress.encode()) == progress
    with pytest.raises(ValueError, match="no progress"):
        decode_progress({"kind": "other"})

"""The fetch of a version: what of a response is stored, and what it brings along."""

import asyncio

from forebay.core.byte_ranges import Span
from forebay.core.names import BlockId
from forebay.metadata.lookup_request import LookupRequest
from forebay.metadata.shared_lookup import ResolvedVersion
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fetch_rig import BLOCK, DECISION, NAME, fetch_rig
from harness.held_ssd import HeldSsd

READ = LookupRequest(NAME, DECISION, Span(0, BLOCK))


def test_a_request_with_a_span_is_a_get() -> None:
    assert (READ.method, READ._replace(span=None).method) == ("GET", "HEAD")


async def test_a_small_object_is_stored_with_its_head() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, b"all of it")
        found = await rig.versions.fetch(READ, None, strict=False)
        assert isinstance(found, ResolvedVersion)
        assert found.status == "fetched"
        assert rig.heads.current(NAME) == found.head
        assert bytes(found.flights[0].buffer) == b"all of it"
        assert rig.tiers.memory.has(BlockId(NAME, found.head.generation, 0))
        found.release_flights()


async def test_what_a_fence_forbids_is_answered_and_not_stored() -> None:
    async with fetch_rig() as rig, asyncio.TaskGroup() as group:
        rig.origin.store.put(*NAME, b"all of it")
        rig.origin.faults.add(actions.HoldHead(gate := Gate()))
        fetching = group.create_task(rig.versions.fetch(READ, None, strict=False))
        await gate.reached()
        rig.fences.raise_object(NAME)
        gate.open()
        found = await fetching
        assert isinstance(found, ResolvedVersion)
        assert rig.heads.current(NAME) is None
        found.release_flights()


class FullSsd(HeldSsd):
    """Has every block."""

    def has(self, block: BlockId) -> bool:
        return True


async def test_a_body_that_is_here_lands_though_the_ssd_has_the_block() -> None:
    async with fetch_rig(ssd=FullSsd()) as rig:
        rig.origin.store.put(*NAME, b"all of it")
        found = await rig.versions.fetch(READ, None, strict=False)
        assert isinstance(found, ResolvedVersion)
        assert bytes(found.flights[0].buffer) == b"all of it"
        found.release_flights()

"""Object checksums: one HEAD per version for all readers, and no longer wait than the timeout."""

import asyncio

from forebay.core.byte_ranges import Span
from forebay.core.heads import Head
from forebay.metadata.lookup_request import LookupRequest
from forebay.metadata.resolution import ResolvedVersion
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fetch_rig import BLOCK, DECISION, NAME, FetchRig, fetch_rig


async def opened(rig: FetchRig) -> Head:
    """Returns the head of a range response, which has no checksums."""
    rig.origin.store.put_synthetic(*NAME, BLOCK)
    found = await rig.resolver.resolve(LookupRequest(NAME, DECISION, Span(0, BLOCK)))
    assert isinstance(found, ResolvedVersion)
    await rig.tasks.wait_idle()
    rig.origin.log.reset()
    return found.head


async def test_readers_share_one_head_request_per_version() -> None:
    async with fetch_rig() as rig:
        head = await opened(rig)
        await asyncio.gather(*(rig.checksums.lookup(NAME, head) for _ in range(3)))
        await rig.checksums.lookup(NAME, head)
        assert rig.origin.log.count("HEAD") == 1


async def test_a_late_response_is_not_waited_for_nor_repeated() -> None:
    async with fetch_rig() as rig:
        head = await opened(rig)
        rig.checksums.timeout = 0.0
        rig.origin.faults.add(actions.HoldHead(gate := Gate()), method="HEAD")
        assert await rig.checksums.lookup(NAME, head) == head
        assert await rig.checksums.lookup(NAME, head) == head
        gate.open()
        await rig.tasks.wait_idle()
        assert rig.origin.log.count("HEAD") == 1


async def test_a_refused_head_request_pauses_the_next() -> None:
    async with fetch_rig() as rig:
        head = await opened(rig)
        rig.origin.faults.add(actions.FORBIDDEN, method="HEAD")
        for _ in range(2):
            assert await rig.checksums.lookup(NAME, head) == head
        assert rig.origin.log.count("HEAD") == 1


async def test_checksums_are_prefetched_once_an_origin_left_them_out() -> None:
    async with fetch_rig() as rig:
        head = await opened(rig)
        rig.checksums.prefetch(NAME, None)
        assert len(rig.tasks) == 0, "nothing is known of the origin"
        await rig.checksums.lookup(NAME, head)
        rig.origin.log.reset()
        rig.checksums.prefetch(NAME, None)
        await rig.tasks.wait_idle()
        assert rig.origin.log.count("HEAD") == 1

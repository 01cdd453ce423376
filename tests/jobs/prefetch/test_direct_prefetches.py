"""Direct prefetches: objects of one block fetched ahead without a task, and what becomes of all others."""

import asyncio

import pytest

from forebay.core.byte_ranges import Span
from forebay.jobs.prefetch.prefetch_request import PrefetchOutcome, PrefetchRequest
from forebay.metadata.lookup_request import LookupRequest
from forebay.metadata.resolution import ResolvedVersion
from harness.ahead_rig import AheadRig, ahead_rig
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fetch_rig import BLOCK, DECISION, NAME
from harness.inspection import run_loop_until


async def begun(test: AheadRig) -> "asyncio.Future[PrefetchOutcome]":
    """A fetch without a task that is under way."""
    await test.open_at_origin()
    ended: asyncio.Future[PrefetchOutcome] = asyncio.get_running_loop().create_future()
    assert test.prefetcher.begin(PrefetchRequest(NAME, 0, None, "plan"), ended.set_result)
    return ended


@pytest.mark.parametrize("size", [1, BLOCK])
async def test_an_object_of_one_block_takes_no_task(size: int) -> None:
    async with ahead_rig() as test:
        content = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
        test.rig.origin.store.put(*NAME, content)
        ended, turns = await begun(test), test.rig.reads.client.reads.background
        assert turns.in_use == 1
        outcome = await ended
        assert (outcome[:4], outcome.fetched_blocks, outcome.fetched_bytes) == (("fetched", size, size, size), 1, size)
        assert (turns.in_use, test.counted) == (0, {"fetched": size})
        assert await test.read(Span(0, size)) == content
        test.prefetcher.finish([outcome.ticket])
        assert (test.counted, test.origin_reads) == ({"fetched": size, "used": size}, 1)


@pytest.mark.parametrize("case", ["known", "ranged", "rest", "no room", "not accelerated", "no turn", "no connection"])
async def test_what_is_not_plain_is_for_a_task(case: str) -> None:
    async with ahead_rig(accelerate=case != "not accelerated", ahead=0 if case == "no room" else 1 << 24) as test:
        test.rig.origin.store.put_synthetic(*NAME, BLOCK)
        request = PrefetchRequest(NAME, BLOCK if case == "rest" else 0, 10 if case == "ranged" else None, "plan")
        if case != "no connection":
            await test.open_at_origin()
        if case == "known":
            test.prefetcher.drop([(await test.prefetcher.fetch(request)).ticket])
        turns, others = test.rig.reads.client.reads.background, 0
        while case == "no turn" and turns.try_acquire("other"):
            others += 1
        reads = test.origin_reads
        assert not test.prefetcher.begin(request, lambda outcome: pytest.fail(f"{outcome}"))
        for _ in range(others):
            turns.release("other")
        assert (test.origin_reads, turns.in_use, test.rig.tiers.memory.ahead.budget.in_use) == (reads, 0, 0)


async def test_a_reader_that_comes_meanwhile_shares_the_fetch() -> None:
    async with ahead_rig() as test:
        test.rig.origin.store.put(*NAME, content := bytes(range(256)) * 64)
        test.rig.origin.faults.add(actions.HoldHead(gate := Gate()), key=NAME.key)
        ended = await begun(test)
        await gate.reached()
        lookup = LookupRequest(NAME, DECISION, Span(0, BLOCK))
        reading = test.rig.tasks.spawn(test.rig.resolver.resolve(lookup, leads=True), "a reader")
        await asyncio.sleep(0)
        gate.open()
        found, outcome = await reading, await ended
        assert isinstance(found, ResolvedVersion)
        found.release_flights()
        assert (outcome.status, outcome.size, test.origin_reads) == ("fetched", len(content), 1)
        test.prefetcher.finish([outcome.ticket], late=True)
        assert await test.read(Span(0, len(content))) == content
        assert test.origin_reads == 1


async def test_an_end_in_the_middle_of_a_fetch_leaves_nothing() -> None:
    async with ahead_rig() as test:
        test.rig.origin.store.put_synthetic(*NAME, BLOCK)
        test.rig.origin.faults.add(actions.HoldHead(gate := Gate()), key=NAME.key)
        ended = await begun(test)
        await gate.reached()
        await test.prefetcher.close()
        gate.open()
        assert not ended.done()
        assert (test.prefetcher.tickets, len(test.rig.tiers.memory.ahead)) == (0, 0)
        assert test.rig.reads.client.reads.in_use == 0


@pytest.mark.parametrize("size", [BLOCK, 2 * BLOCK])
async def test_a_fetch_that_everybody_has_left_is_not_begun_again(size: int) -> None:
    async with ahead_rig() as test:
        test.rig.origin.store.put_synthetic(*NAME, size)
        test.rig.origin.faults.add(actions.HoldHead(gate := Gate()), key=NAME.key, times=1)
        ended = await begun(test)
        await gate.reached()
        test.prefetcher.drop_all()
        gate.open()
        assert (await ended).status == "unavailable"
        assert (test.prefetcher.tickets, test.rig.tiers.memory.ahead.budget.in_use, test.origin_reads) == (0, 0, 1)


async def test_what_comes_for_a_caller_that_has_left_is_dropped() -> None:
    async with ahead_rig() as test:
        test.rig.origin.store.put_synthetic(*NAME, BLOCK)
        test.rig.origin.faults.add(actions.HoldHead(gate := Gate()), key=NAME.key)
        await test.open_at_origin()
        fetching = test.rig.tasks.spawn(test.prefetcher.fetch(PrefetchRequest(NAME, 0, None, "plan")), "fetch ahead")
        await gate.reached()
        fetching.cancel()
        gate.open()
        await run_loop_until(lambda: "useless" in test.counted)
        assert (test.prefetcher.tickets, test.rig.tiers.memory.ahead.budget.in_use) == (0, 0)

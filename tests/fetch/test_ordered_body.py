"""The ordered body: in order, no further ahead than the window, and no memory held while it waits for memory."""

import asyncio
from contextlib import aclosing
from dataclasses import replace
from random import Random

import pytest

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span, block_span, blocks_touching
from forebay.core.errors import Throttled
from forebay.core.names import BlockId
from forebay.fetch.fetch_request import ObjectView
from forebay.fetch.fetcher import Fetcher
from forebay.fetch.ordered_body import OrderedBody
from forebay.fetch.paused_readers import PATIENCE
from forebay.fetch.run_source import ThroughputFloor
from forebay.metadata.lookup_request import LookupRequest
from forebay.metadata.resolution import ResolvedVersion
from forebay.peers.owners import Peers
from forebay.policy.coalescing import BlockState
from forebay.storage.tiers import Tiers
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fetch_rig import BLOCK, DECISION, NAME, FetchRig, fetch_rig
from harness.inspection import run_loop_until


async def read(body: OrderedBody) -> tuple[bytes, list[str]]:
    """Returns all bytes, and the source of each piece."""
    found = bytearray()
    sources: list[str] = []
    try:
        await body.plan()
        async with aclosing(body.pieces()) as pieces:
            async for source, buffer in pieces:
                found += buffer
                sources.append(source)
    finally:
        body.close()
    return bytes(found), sources


def asked_for(rig: FetchRig) -> list[range]:
    """Returns the blocks of each ranged GET so far."""
    spans = (str(fetched).removeprefix("bytes=").split("-") for fetched in rig.origin.log.ranges())
    return [blocks_touching(Span(int(first), int(last) + 1), BLOCK) for first, last in spans]


def started(rig: FetchRig) -> int:
    """Returns how many blocks have been requested."""
    return sum(len(blocks) for blocks in asked_for(rig))


async def test_bytes_come_in_order_from_memory_and_from_the_origin() -> None:
    async with fetch_rig() as rig:
        content = rig.origin.store.put_synthetic(*NAME, 6 * BLOCK)
        head = await rig.head()
        for number in (0, 3):
            view = memoryview(content.expected(Span(number * BLOCK, (number + 1) * BLOCK)))
            rig.tiers.admit(rig.block(head, number), view)
        span = Span(100, 6 * BLOCK - 100)
        body = rig.body(head, span)
        found, sources = await read(body)
        assert found == content.expected(span)
        assert [location is BlockState.MEMORY for location in body.locations] == [
            True,
            False,
            False,
            True,
            False,
            False,
        ]
        assert (sources[0], sources.count("memory"), set(sources)) == ("memory", 2, {"memory", "flight"})
        fetched = rig.origin.log.ranges()  # over two connections, in any order
        assert sorted(map(str, fetched)) == [f"bytes={4 * BLOCK}-{6 * BLOCK - 1}", f"bytes={BLOCK}-{3 * BLOCK - 1}"]


async def test_each_byte_comes_once_and_only_missing_blocks_are_fetched() -> None:
    dice, size = Random(7), 20 * BLOCK - 100
    async with fetch_rig() as rig:
        content = rig.origin.store.put_synthetic(*NAME, size)
        head = await rig.head()
        for _ in range(30):
            start = dice.randrange(size)
            span = Span(start, dice.randint(start + 1, size))
            stored = {number for number in range(20) if dice.random() < 0.4}
            for number in stored:
                view = memoryview(content.expected(block_span(number, BLOCK, size)))
                rig.tiers.admit(rig.block(head, number), view)
            rig.origin.log.reset()
            source = rig.block_source(runs_of=dice.randint(1, 5), parallel=dice.randint(1, 4))
            found, _ = await read(rig.body(head, span, source))
            assert found == content.expected(span)
            await rig.tasks.wait_idle()
            fetched = sorted(number for blocks in asked_for(rig) for number in blocks)
            assert fetched == [number for number in blocks_touching(span, BLOCK) if number not in stored]
            await rig.tiers.forget(NAME)
            while rig.tiers.memory.evict_some():
                pass


async def test_a_second_body_joins_the_flights_of_the_first() -> None:
    async with fetch_rig() as rig:
        content = rig.origin.store.put_synthetic(*NAME, 2 * BLOCK)
        head = await rig.head()
        rig.origin.faults.add(actions.HoldHead(gate := Gate()), method="GET")
        async with asyncio.TaskGroup() as group:
            readers = [group.create_task(read(rig.body(head, Span(0, 2 * BLOCK)))) for _ in range(2)]
            await gate.reached()
            await run_loop_until(lambda: rig.registry.followers == 4)
            gate.open()
        assert [reader.result()[0] for reader in readers] == [content.expected(Span(0, 2 * BLOCK))] * 2
        assert [set(reader.result()[1]) for reader in readers] == [{"flight"}, {"joined"}]
        assert rig.origin.log.count("GET") == 1


async def test_the_window_grows_while_waiting_and_once_per_half_run() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, 64 * BLOCK)
        head = await rig.head()
        body = rig.body(head, Span(0, 64 * BLOCK), rig.block_source(runs_of=4, parallel=8))
        await body.plan()
        ahead = [len(rig.registry)]
        async with aclosing(body.pieces()) as pieces:
            seen = 0
            async for _, buffer in pieces:
                seen += len(buffer)
                if seen >= 2 * BLOCK:
                    break
                ahead.append(len(rig.registry))
        body.close()
        # Two runs at first; a wait doubles them, but not again for each block of a run.
        assert (ahead[0], max(ahead) <= 16) == (8, True)


async def test_runs_are_shorter_at_the_beginning_and_the_end() -> None:
    """A reader waits half as long for the first run, and for the last."""
    async with fetch_rig() as rig:
        content = rig.origin.store.put_synthetic(*NAME, 64 * BLOCK)
        body = rig.body(await rig.head(), Span(0, 64 * BLOCK), rig.block_source(runs_of=4, parallel=4))
        assert (await read(body))[0] == content.expected(Span(0, 64 * BLOCK))
        lengths = [len(blocks) for blocks in sorted(asked_for(rig), key=min)]
        assert [max(lengths[:3]), max(lengths), max(lengths[-3:])] == [2, 4, 2], lengths


async def test_a_stalled_reader_causes_no_further_fetch() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, 64 * BLOCK)
        body = rig.body(await rig.head(), Span(0, 64 * BLOCK), rig.block_source(runs_of=4))
        await body.plan()
        async with aclosing(body.pieces()) as pieces:
            await anext(pieces)
            await rig.tasks.wait_idle()
            assert started(rig) <= 8
            assert rig.budget.in_use <= 8 * BLOCK
            body.close()


async def test_blocks_evicted_before_their_turn_are_fetched() -> None:
    async with fetch_rig() as rig:
        content = rig.origin.store.put_synthetic(*NAME, 3 * BLOCK)
        head = await rig.head()
        await read(rig.body(head, Span(0, 3 * BLOCK)))
        body = rig.body(head, Span(0, 3 * BLOCK))
        await body.plan()
        assert body.locations == [BlockState.MEMORY] * 3
        await rig.tiers.forget(NAME)
        assert (await read(body))[0] == content.expected(Span(0, 3 * BLOCK))


async def test_a_reader_without_memory_is_throttled_and_leaves_nothing() -> None:
    async with fetch_rig(buffers=2 * BLOCK) as rig:
        content = rig.origin.store.put_synthetic(*NAME, 4 * BLOCK)
        head = await rig.head()
        assert rig.budget.try_acquire(2 * BLOCK)
        with pytest.raises(Throttled):
            await read(rig.body(head, Span(0, 4 * BLOCK), rig.block_source(runs_of=1)))
        rig.budget.release(2 * BLOCK)
        assert (await read(rig.body(head, Span(0, 4 * BLOCK), rig.block_source(runs_of=1))))[0] == content.expected(
            Span(0, 4 * BLOCK)
        )


async def test_without_memory_to_read_ahead_a_reader_goes_block_by_block() -> None:
    async with fetch_rig(memory=0, buffers=BLOCK) as rig:
        content = rig.origin.store.put_synthetic(*NAME, 4 * BLOCK)
        body = rig.body(await rig.head(), Span(0, 4 * BLOCK), rig.block_source(runs_of=1, deadline=5.0))
        assert (await read(body))[0] == content.expected(Span(0, 4 * BLOCK))
        assert rig.origin.log.count("GET") == 4


async def test_a_reader_that_waits_for_memory_holds_none() -> None:
    """Otherwise two readers could wait for each other."""
    async with fetch_rig(memory=0, buffers=2 * BLOCK) as rig:
        content = rig.origin.store.put_synthetic(*NAME, 2 * BLOCK)
        head = await rig.head()
        rig.origin.faults.add(actions.HoldHead(gate := Gate()), method="GET", times=1)
        ahead = rig.fetcher.start(rig.fetch(head, 1))[1]
        ahead.follow()
        assert rig.budget.try_acquire(BLOCK)
        async with asyncio.TaskGroup() as group:
            reader = group.create_task(
                read(rig.body(head, Span(0, 2 * BLOCK), rig.block_source(runs_of=1, deadline=5.0)))
            )
            await run_loop_until(lambda: rig.budget.waiting == 1)
            assert ahead.followers == 1  # this test
            gate.open()
            ahead.leave()
            rig.budget.release(BLOCK)
        assert reader.result()[0] == content.expected(Span(0, 2 * BLOCK))


async def test_a_block_stored_during_the_wait_for_memory_is_not_fetched() -> None:
    async with fetch_rig(buffers=BLOCK) as rig:
        content = rig.origin.store.put_synthetic(*NAME, BLOCK)
        head = await rig.head()
        assert rig.budget.try_acquire(BLOCK)
        async with asyncio.TaskGroup() as group:
            reader = group.create_task(read(rig.body(head, Span(0, BLOCK), rig.block_source(deadline=5.0))))
            await run_loop_until(lambda: rig.budget.waiting == 1)
            rig.tiers.admit(rig.block(head, 0), memoryview(content.expected(Span(0, BLOCK))))
            rig.budget.release(BLOCK)
        assert reader.result() == (content.expected(Span(0, BLOCK)), ["memory"])
        assert rig.origin.log.count("GET") == 0


async def test_a_block_restored_during_the_wait_for_memory_is_not_fetched() -> None:
    async with fetch_rig(buffers=BLOCK) as rig:
        content = rig.origin.store.put_synthetic(*NAME, BLOCK)
        head = await rig.head()
        view = memoryview(content.expected(Span(0, BLOCK)))
        rig.tiers.admit(rig.block(head, 0), view)
        body = rig.body(head, Span(0, BLOCK), rig.block_source(deadline=5.0))
        await body.plan()
        await rig.tiers.forget(NAME)
        assert rig.budget.try_acquire(BLOCK)
        async with asyncio.TaskGroup() as group:
            reader = group.create_task(read(body))
            await run_loop_until(lambda: rig.budget.waiting == 1)
            rig.tiers.admit(rig.block(head, 0), view)
            rig.budget.release(BLOCK)
        assert reader.result() == (content.expected(Span(0, BLOCK)), ["memory"])
        assert rig.origin.log.count("GET") == 0


class DamagedTiers(Tiers):
    """A tier that has every block by its index and reads none: its records are damaged."""

    def has(self, block: BlockId) -> bool:
        return True

    async def read(self, block: BlockId, length: int, within: Span) -> Buffer | None:
        return None


async def test_a_block_that_a_tier_has_but_cannot_read_is_fetched() -> None:
    async with fetch_rig(memory=0) as rig:
        content = rig.origin.store.put_synthetic(*NAME, 2 * BLOCK)
        head = await rig.head()
        damaged = DamagedTiers(rig.tiers.memory, None)
        floor = ThroughputFloor(0, rig.timers)
        fetcher = Fetcher(rig.reads, damaged, rig.registry, rig.budget, rig.tasks, rig.heard, Peers(), floor)
        body = rig.body(head, Span(0, 2 * BLOCK), replace(rig.block_source(), tiers=damaged, fetcher=fetcher))
        assert (await read(body))[0] == content.expected(Span(0, 2 * BLOCK))


async def test_arrivals_store_all_blocks_without_reading_stored_ones() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, 4 * BLOCK + 5)
        head = await rig.head()
        rig.tiers.admit(rig.block(head, 0), memoryview(bytes(BLOCK)))
        body = rig.body(head, Span(0, head.size))
        assert [span.length async for span, _ in body.arrivals()] == [BLOCK] * 4 + [5]
        assert all(rig.tiers.has(rig.block(head, number)) for number in range(5))
        assert rig.origin.log.ranges() == [f"bytes={BLOCK}-{4 * BLOCK + 4}"]


async def test_a_body_within_one_available_block_needs_no_plan() -> None:
    async with fetch_rig() as rig:
        content = rig.origin.store.put_synthetic(*NAME, 2 * BLOCK)
        head, span = await rig.head(), Span(BLOCK + 5, BLOCK + 99)
        assert rig.body(head, span).single_buffer() is None  # missing
        flying = rig.fetcher.start(rig.fetch(head, 1))
        body = OrderedBody(rig.block_source(), ObjectView(NAME, head, "rule"), span, flying)
        assert body.single_buffer() is None  # has not landed
        await flying[1].wait_filled(BLOCK)
        found = body.single_buffer()
        assert found is not None
        assert (found[0], bytes(found[1]), body.locations) == ("flight", content.expected(span), [BlockState.IN_FLIGHT])
        body.close()
        body = rig.body(head, span)
        found = body.single_buffer()
        assert found is not None
        assert (found[0], bytes(found[1]), body.locations) == ("memory", content.expected(span), [BlockState.MEMORY])
        assert rig.body(head, Span(5, BLOCK + 99)).single_buffer() is None  # two blocks
        assert rig.origin.log.count("GET") == 1


async def pause_in_the_first_block(rig: FetchRig, body: OrderedBody) -> None:
    """Reads half a block, lets all that is planned arrive, and pauses."""
    await body.plan()
    await body.next_piece()
    body.advance(100)
    await rig.tasks.wait_idle()
    body.pause()


async def finish(body: OrderedBody) -> bytes:
    found = bytearray()
    while not body.is_complete:
        _, piece = await body.next_piece()
        found += piece
        body.advance(len(piece))
    body.close()
    return bytes(found)


async def test_a_paused_reader_gives_up_what_a_tier_has() -> None:
    async with fetch_rig() as rig:
        content = rig.origin.store.put_synthetic(*NAME, 6 * BLOCK)
        body = rig.body(await rig.head(), Span(0, 6 * BLOCK))
        await pause_in_the_first_block(rig, body)
        assert rig.budget.in_use == 6 * BLOCK  # nobody needs it
        assert rig.budget.reclaim(True)
        assert rig.budget.in_use == 0
        body.resume()
        fetched = rig.origin.log.count("GET")
        assert await finish(body) == content.expected(Span(100, 6 * BLOCK))
        assert rig.origin.log.count("GET") == fetched


async def test_a_paused_reader_keeps_a_block_that_no_tier_has_for_a_while() -> None:
    async with fetch_rig(memory=0) as rig:
        content = rig.origin.store.put_synthetic(*NAME, 6 * BLOCK)
        body = rig.body(await rig.head(), Span(0, 6 * BLOCK))
        await pause_in_the_first_block(rig, body)
        assert rig.budget.reclaim(True)
        assert not rig.budget.reclaim(True)
        assert rig.budget.in_use == BLOCK
        rig.timers.advance(PATIENCE)
        assert rig.budget.reclaim(True)
        assert rig.budget.in_use == 0
        body.resume()
        assert await finish(body) == content.expected(Span(100, 6 * BLOCK))


async def test_a_slow_client_is_fetched_for_block_by_block() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, 64 * BLOCK)
        body = rig.body(await rig.head(), Span(0, 64 * BLOCK), rig.block_source(runs_of=4))
        await body.plan()
        await rig.tasks.wait_idle()
        while started(rig) == 8:  # the first window
            _, piece = await body.next_piece()
            body.advance(len(piece))
            body.pause()
            rig.timers.advance(100.0)
            body.resume()
            await rig.tasks.wait_idle()
        assert started(rig) == 9
        assert rig.budget.in_use <= BLOCK  # none where the piece ended its block
        body.close()


async def test_an_opening_without_memory_for_all_reads_the_first_block() -> None:
    async with fetch_rig(buffers=2 * BLOCK) as rig:
        content = rig.origin.store.put_synthetic(*NAME, 4 * BLOCK)
        assert rig.budget.try_acquire(BLOCK)
        found = await rig.resolver.resolve(LookupRequest(NAME, DECISION, Span(0, 4 * BLOCK)))
        assert isinstance(found, ResolvedVersion)
        assert list(found.flights) == [0]
        rig.budget.release(BLOCK)
        view = ObjectView(NAME, found.head, "rule")
        body = OrderedBody(rig.block_source(deadline=5.0), view, Span(0, 4 * BLOCK), found.flights)
        assert (await read(body))[0] == content.expected(Span(0, 4 * BLOCK))

"""Reads counted by each worker, and reported to the node's collector."""

import asyncio
import random
from collections.abc import Coroutine, Iterable
from typing import Any

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.errors import PeerUnavailable
from forebay.core.events import ObjectRead
from forebay.core.names import ObjectName
from forebay.core.read_log import NO_LOG, ReadLog, context_of
from forebay.core.read_stream import BATCH_SECONDS, ReadStream
from forebay.core.task_registry import TaskRegistry
from forebay.datasets.data_set import DataSetState
from forebay.datasets.data_sets import DataSets
from forebay.datasets.read_counts import SAMPLED_A_SECOND, SAMPLED_AT_ONCE, ReadCounts
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from harness.manual_timers import ManualTimers

BLOCK = 1 << 20
RULE = "data/**"


def read(key: int | str, cached: float = 1.0, *, span: Span | None = None, size: int = 1000) -> ObjectRead:
    span = span or Span(0, size)
    return ObjectRead(ObjectName("data", f"{key}"), span, size, "trainer", RULE, "partial", cached)


class NodeDouble:
    """The counts of `workers`, the first of which collects; calls between them wait for `open`."""

    def __init__(self, workers: int = 1) -> None:
        self.timers, self.tasks, self.block = ManualTimers(), TaskRegistry(), BLOCK
        self.open = asyncio.Event()
        self.open.set()
        self.is_collector_there = True
        self.collector = DataSets(self.timers.time)
        self.streams = [ReadStream(self.timers, number) for number in range(workers)]
        self.counts = [self._counts(number, workers) for number in range(workers)]
        self.reported = self.calls = 0
        for counts in self.counts:
            counts.apply_rules(frozenset([RULE]))

    def _counts(self, number: int, workers: int) -> ReadCounts:
        peers: dict[int, Any] = {other: self for other in range(workers) if other != number}
        sets = self.collector if number == 0 else DataSets(self.timers.time)
        return ReadCounts(self.streams[number], sets, Peers(peers), self._spawn, lambda _: self.block, self.timers.time)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> object:
        return self.tasks.spawn(work, name)

    async def call(self, request: Document) -> Document:
        """The collector, as the others call it."""
        assert request["kind"] == "data_set_reads"
        self.calls += 1
        await self.open.wait()
        if not self.is_collector_there:
            raise PeerUnavailable("gone")
        self.reported += sum(len(each[1]) for each in request["sets"].values())
        return self.collector.answer(request)

    async def answer(self, reads: Iterable[ObjectRead], worker: int = 0) -> None:
        for number, each in enumerate(reads):
            self.streams[worker].add(each)
            if number % 200 == 199:
                await self.settle()
        await self.settle()

    async def settle(self) -> None:
        for stream in self.streams:
            stream.deliver()
        self.timers.advance(BATCH_SECONDS)
        await self.tasks.wait_idle()

    @property
    def state(self) -> DataSetState:
        [state] = self.collector.states()
        return state


async def test_reads_are_counted_by_data_set() -> None:
    node = NodeDouble()
    await node.answer([read("a", 0.0), read("b", 0.0), read("a"), read("b", 0.5)])
    state = node.state
    assert (state.name, state.objects) == (RULE, (2, 2000))
    assert (state.totals.reads, state.totals.sent, state.totals.hit) == (4, 4000, 1500)
    assert (state.epoch, state.current, state.last) == (1, state.totals, None)


async def test_reads_under_no_rule_are_passed_over() -> None:
    node = NodeDouble()
    await node.answer([read("a")._replace(rule="default")])
    assert node.collector.states() == []


@pytest.mark.parametrize("workers", [1, 4])
async def test_epochs_of_all_workers_reads_together(workers: int) -> None:
    """Each read goes to any worker; what it hits grows with the epochs."""
    node, order = NodeDouble(workers), random.Random(1)
    for epoch in range(3):
        for number in order.sample(range(600), 600):
            node.streams[order.randrange(workers)].add(read(number, epoch / 4))
            if number % 50 == 0:
                await node.settle()
        await node.settle()
    state = node.state
    assert (state.epoch, state.totals.reads, state.objects) == (3, 1800, (600, 600_000))
    assert state.last is not None
    assert state.last.reads == pytest.approx(600, rel=0.1)
    assert state.last.hit_share == pytest.approx(0.25, abs=0.05)
    assert state.current.hit_share == pytest.approx(0.5, abs=0.05)
    assert state.curve.set_size == 600_000
    assert state.curve.lru_share(300_000) == pytest.approx(0.15, abs=0.06)


@pytest.mark.parametrize("is_known", [False, True], ids=["events", "columns"])
async def test_a_workers_report_is_a_sample_where_there_are_many_blocks(is_known: bool) -> None:
    """By the bounds of the collector, however many reads might be sampled now."""
    node, count = NodeDouble(2), 40_000
    await node.answer((read(number) for number in range(count)), worker=1)
    first, node.reported = node.reported, 0
    node.timers.advance(SAMPLED_AT_ONCE / SAMPLED_A_SECOND)
    if is_known:
        for number in range(count):
            node.streams[1].add_whole(context_of(read("0")), str(number), 1000, NO_LOG, 0)
            if number % 2000 == 1999:
                await node.settle()
    else:
        await node.answer((read(number) for number in range(count)), worker=1)
    assert first < count
    assert node.reported < 12_000
    assert node.state.totals.reads == 2 * count
    assert node.state.objects.objects == pytest.approx(count, rel=0.13)


async def test_blocks_of_large_objects_are_units_of_their_own() -> None:
    """Shards of four blocks and a half, read in ranges of a third of a block."""
    node, size, step = NodeDouble(), 9 * BLOCK // 2, BLOCK // 3
    spans = [Span(start, min(start + step, size)) for start in range(0, size, step)]
    for _ in range(3):
        await node.answer(read(number, span=span, size=size) for number in range(20) for span in spans)
    state = node.state
    assert (state.epoch, state.objects) == (3, (20, 20 * size))
    assert state.covered.units == pytest.approx(100, abs=10)
    assert state.curve.set_size == 20 * size
    assert state.curve.lru_share(10 * size) == pytest.approx(2 / 3, abs=0.15)  # ranges of the same block
    assert state.curve.lru_share(21 * size) == pytest.approx(1.0)


async def test_a_collector_that_is_gone_costs_reports_and_no_reads() -> None:
    node = NodeDouble(2)
    node.is_collector_there = False
    await node.answer([read("a"), read("b")], worker=1)
    node.is_collector_there = True
    await node.answer([read("c")], worker=1)
    assert node.state.totals.reads == 1


async def test_reports_are_joined_while_the_collector_is_busy() -> None:
    node = NodeDouble(2)
    node.open.clear()
    for number in range(50):
        node.streams[1].add(read(number))
        node.timers.advance(BATCH_SECONDS)
        await asyncio.sleep(0)
    node.open.set()
    await node.settle()
    assert (node.state.totals.reads, node.calls) == (50, 2)


async def test_a_restarted_collector_hears_of_all_objects_again() -> None:
    node = NodeDouble(2)
    objects = [read(number) for number in range(3000)]
    await node.answer(objects, worker=1)
    node.collector = DataSets(node.timers.time)
    node.collector.keep(frozenset([RULE]))
    await node.answer(objects, worker=1)
    await node.answer(objects, worker=1)
    assert node.state.objects.objects == pytest.approx(3000, rel=0.13)


async def test_a_hot_small_set_is_sampled_in_bursts() -> None:
    """Four hundred blocks, read faster than all of it may be sampled."""
    node = NodeDouble(2)
    for _ in range(400):
        await node.answer((read(number) for number in range(400)), worker=1)
    assert node.timers.time() < 100
    assert node.reported <= SAMPLED_AT_ONCE + node.timers.time() * SAMPLED_A_SECOND
    state = node.state
    assert state.totals.reads == 160_000
    assert state.curve.lru_share(360_000) < 0.05
    assert state.curve.lru_share(420_000) > 0.95
    node.timers.advance(SAMPLED_AT_ONCE / SAMPLED_A_SECOND)
    node.reported = 0
    await node.answer((read(number) for number in range(400)), worker=1)
    assert node.reported == 400, "it goes on after a pause"


async def test_without_rules_nothing_listens_to_reads() -> None:
    node = NodeDouble()
    await node.answer([read("a")])
    for _ in range(2):
        node.counts[0].apply_rules(frozenset())
        assert not node.streams[0].is_open
    assert node.collector.states() == []
    node.counts[0].apply_rules(frozenset([RULE]))
    assert node.streams[0].is_open


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("size", [1000, BLOCK, 5 * BLOCK // 2])
async def test_whole_objects_from_memory_count_as_other_reads(workers: int, size: int) -> None:
    """Though they are counted as columns; between reads of other kinds, too."""
    order, nodes = random.Random(1), (NodeDouble(workers), NodeDouble(workers))
    keys = [str(each) for _ in range(3) for each in order.sample(range(150), 150)]
    logs: dict[str, tuple[ReadLog, int]] = {}
    context = context_of(read("0"))
    for number, key in enumerate(keys):
        for node in nodes:
            stream, cached = node.streams[-1], 0.5 if number % 7 == 0 else 1.0
            if node is nodes[0] or cached < 1.0:
                stream.add(read(key, cached, size=size))
            else:
                logs[key] = stream.add_whole(context, key, size, *logs.get(key, (NO_LOG, 0)))
            if number % 50 == 49:
                await node.settle()
    for node in nodes:
        await node.settle()
    first, second = (node.state for node in nodes)
    assert (second.epoch, second.totals, second.current) == (first.epoch, first.totals, first.current)
    assert (second.objects, second.covered, second.last) == (first.objects, first.covered, first.last)
    shares = [[each.curve.lru_share(part * 15 * size) for part in range(12)] for each in (first, second)]
    assert (first.epoch, first.totals.reads, shares[1]) == (3, 450, shares[0])


async def test_rules_that_are_applied_again_say_what_a_block_is() -> None:
    """And count each read once."""
    node = NodeDouble()
    await node.answer([read("small")])
    node.block = 4 * BLOCK
    node.counts[0].apply_rules(frozenset([RULE]))
    await node.answer(read(number, size=2 * BLOCK) for number in range(10))
    assert (node.state.totals.reads, node.state.covered.units) == (11, 11)

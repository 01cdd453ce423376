"""Node reads: every worker's reads reach the collector while it has a subscriber, and are never waited for."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.errors import PeerUnavailable
from forebay.core.events import ObjectRead
from forebay.core.names import ObjectName
from forebay.core.read_stream import BATCH_SECONDS, MAX_UNDELIVERED, ReadBatch, ReadStream
from forebay.core.task_registry import TaskRegistry
from forebay.peers.frames import Document
from forebay.peers.node_reads import LEASE_SECONDS, RENEW_SECONDS, NodeReads
from forebay.peers.owners import Peers
from forebay.peers.read_codec import BatchEncoder
from forebay.peers.read_sender import MAX_UNSENT, RETRY_SECONDS
from harness.manual_timers import ManualTimers


def read(key: str = "key", worker: int = 0) -> ObjectRead:
    return ObjectRead(ObjectName("bucket", key), Span(2, 5), 9, f"user-{worker}", "default", "hit-memory", 1.0)


class NodeDouble:
    """The reads of two workers, whose calls to each other take effect at once, or wait for `open`."""

    def __init__(self) -> None:
        self.timers, self.tasks = ManualTimers(), TaskRegistry()
        self.open = asyncio.Event()
        self.open.set()
        self.is_collector_there = True
        self.dropped = 0
        self.streams = [ReadStream(self.timers, number) for number in (0, 1)]
        self.reads = [self._reads(number) for number in (0, 1)]

    def _reads(self, number: int) -> NodeReads:
        peer: Any = PeerDouble(self, 1 - number)
        return NodeReads(self.streams[number], Peers({1 - number: peer}), self.timers, self._spawn, self._count)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> object:
        return self.tasks.spawn(work, name)

    def _count(self, dropped: int) -> None:
        self.dropped += dropped

    async def settle(self, seconds: float = BATCH_SECONDS) -> None:
        self.timers.advance(seconds)
        await self.tasks.wait_idle()


class PeerDouble:
    """One worker as the other one calls it."""

    def __init__(self, node: NodeDouble, number: int) -> None:
        self._node, self._number = node, number

    def notify(self, request: Document) -> None:
        assert request["kind"] == "collect_reads"
        self._node.reads[self._number].lease(request)

    async def call(self, request: Document) -> Document:
        assert request["kind"] == "reads"
        await self._node.open.wait()
        if not self._node.is_collector_there:
            raise PeerUnavailable("gone")
        return self._node.reads[self._number].receive(request)


async def test_a_subscriber_gets_the_reads_of_all_workers() -> None:
    node, batches = NodeDouble(), list[ReadBatch]()
    end = node.reads[0].subscribe(batches.append)
    for number, stream in enumerate(node.streams):
        assert stream.is_open
        stream.add(read("key", number))
    await node.settle()
    assert sorted((batch.worker, batch.reads) for batch in batches) == [
        (0, [read("key", 0)]),
        (1, [read("key", 1)]),
    ]
    end()
    await node.settle()
    assert [stream.is_open for stream in node.streams] == [False, False]
    assert node.timers.pending == 0


async def test_the_lease_is_renewed_while_somebody_subscribes() -> None:
    node = NodeDouble()
    end = node.reads[0].subscribe(lambda _: None)
    await node.settle(3 * LEASE_SECONDS)
    assert node.streams[1].is_open
    end()
    await node.settle(LEASE_SECONDS + RENEW_SECONDS)
    assert not node.streams[1].is_open


async def test_workers_send_often_while_a_subscriber_is_urgent() -> None:
    node, batches = NodeDouble(), list[ReadBatch]()

    async def count_batches() -> list[int]:
        batches.clear()
        for _ in range(100):
            for number, stream in enumerate(node.streams):
                stream.add(read("key", number))
            await node.settle(BATCH_SECONDS / 2)
        return [sum(batch.worker == number for batch in batches) for number in (0, 1)]

    node.reads[0].subscribe(batches.append, is_urgent=False)
    seldom = [await count_batches()]
    end = node.reads[0].subscribe(lambda _: None)
    often = await count_batches()
    end()
    seldom.append(await count_batches())
    assert min(often) >= 49
    assert all(10 <= count <= 20 for each in seldom for count in each), seldom
    assert node.dropped == 0


async def test_no_read_is_lost_while_the_lease_is_renewed() -> None:
    node, keys, batches = NodeDouble(), [str(number) for number in range(40)], list[ReadBatch]()
    node.reads[0].subscribe(batches.append)
    for key in keys:
        node.streams[1].add(read(key, 1))
        await node.settle(LEASE_SECONDS / 10)
    assert [each.name.key for batch in batches for each in batch.reads] == keys
    assert node.dropped == 0


async def test_a_slow_collector_is_not_waited_for() -> None:
    node, batches = NodeDouble(), list[ReadBatch]()
    node.reads[0].subscribe(batches.append)
    node.open.clear()
    node.streams[1].add(read("first", 1))
    node.timers.advance(BATCH_SECONDS)
    await asyncio.sleep(0)
    for number in range(MAX_UNSENT + 3):
        node.streams[1].add(read("more", 1))
        if number % 200 == 0:
            node.timers.advance(BATCH_SECONDS)
    node.timers.advance(BATCH_SECONDS)
    node.open.set()
    await node.tasks.wait_idle()
    assert [(len(batch.reads), batch.dropped) for batch in batches] == [(1, 0), (MAX_UNSENT, 3)]
    assert node.dropped == 3


async def test_reads_wait_for_a_collector_that_is_gone() -> None:
    node, batches = NodeDouble(), list[ReadBatch]()
    node.reads[0].subscribe(batches.append)
    node.is_collector_there = False
    for key in ("first", "second"):
        node.streams[1].add(read(key, 1))
        node.timers.advance(BATCH_SECONDS)
        await asyncio.sleep(0)
    assert batches == []
    node.is_collector_there = True
    await node.settle(RETRY_SECONDS)
    assert [batch.reads[0].name.key for batch in batches] == ["first", "second"]
    assert node.dropped == 0


async def test_reads_wait_for_the_first_subscriber() -> None:
    """A collector that was restarted answers before anybody has subscribed."""
    node, batches = NodeDouble(), list[ReadBatch]()
    node.reads[1].lease({"kind": "collect_reads", "seconds": LEASE_SECONDS, "urgent": True})
    node.streams[1].add(read("early", 1))
    node.timers.advance(BATCH_SECONDS)
    for _ in range(3):
        await asyncio.sleep(0)
    node.reads[0].subscribe(batches.append)
    await node.settle(RETRY_SECONDS)
    assert [batch.reads[0].name.key for batch in batches] == ["early"]


async def test_a_batch_that_is_sent_again_is_delivered_once() -> None:
    node, batches = NodeDouble(), list[ReadBatch]()
    node.reads[0].subscribe(batches.append)
    first = {"kind": "reads", "run": "a", "number": 1, **BatchEncoder().encode(ReadBatch.of([read("key", 1)], 1))[0]}
    for request in (first, first, first | {"number": 2}, first, first | {"run": "restarted"}):
        assert node.reads[0].receive(request) == {"collected": True}
    assert len(batches) == 3


async def test_reads_are_dropped_when_the_collector_stays_away() -> None:
    node = NodeDouble()
    node.is_collector_there = False
    node.reads[1].lease({"kind": "collect_reads", "seconds": LEASE_SECONDS, "urgent": True})
    node.streams[1].add(read("lost", 1))
    await node.settle(LEASE_SECONDS)
    assert (node.dropped, node.streams[1].is_open, node.timers.pending) == (1, False, 0)


async def test_the_collector_counts_its_own_dropped_reads() -> None:
    node, batches = NodeDouble(), list[ReadBatch]()
    node.reads[0].subscribe(batches.append)
    for _ in range(MAX_UNDELIVERED + 2):
        node.streams[0].add(read())
    await node.settle()
    assert node.dropped == batches[0].dropped == 2


async def test_another_worker_collects_nothing() -> None:
    with pytest.raises(RuntimeError):
        NodeDouble().reads[1].subscribe(lambda _: None)

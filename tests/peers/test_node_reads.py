"""Node reads: every worker's reads reach the collector while it has a subscriber, and are never waited for."""

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.errors import PeerUnavailable
from forebay.core.events import ObjectRead
from forebay.core.names import ObjectName
from forebay.core.read_stream import BATCH_SECONDS, ReadBatch, ReadStream
from forebay.core.task_registry import TaskRegistry
from forebay.peers.frames import Document
from forebay.peers.node_reads import LEASE_SECONDS, MAX_UNSENT, RENEW_SECONDS, NodeReads, decode_batch, encode_batch
from forebay.peers.owners import Peers
from forebay.policy.recognition import tracked_read
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


def tracked(key: str, span: Span) -> ObjectRead:
    name = ObjectName("bucket", key)
    return ObjectRead(name, span, 9, "user", "set", "miss", 0.5, tracked_read("set", "user", name, span, 9))


@pytest.mark.parametrize(
    "reads",
    [
        [read("a"), read("b", 1), read("a")],
        [tracked("a", Span(0, 9)), tracked("line\nfeed", Span(0, 9))],
        [tracked("a", Span(0, 9)), tracked("a", Span(3, 9)), read("\u00e4")],
    ],
)
def test_a_batch_survives_the_way_between_workers(reads: list[ObjectRead]) -> None:
    batch = ReadBatch(reads, 1, 4)
    assert decode_batch(json.loads(json.dumps(encode_batch(batch)))) == batch


async def test_a_subscriber_gets_the_reads_of_all_workers() -> None:
    node, batches = NodeDouble(), list[ReadBatch]()
    end = node.reads[0].subscribe(batches.append)
    for number, stream in enumerate(node.streams):
        assert stream.is_open
        stream.add(read("key", number))
    await node.settle()
    assert sorted(batches, key=lambda batch: batch.worker) == [
        ReadBatch([read("key", 0)]),
        ReadBatch([read("key", 1)], 1),
    ]
    end()
    await node.settle(LEASE_SECONDS)
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


async def test_reads_for_a_collector_that_is_gone_are_lost() -> None:
    node, batches = NodeDouble(), list[ReadBatch]()
    node.reads[0].subscribe(batches.append)
    node.is_collector_there = False
    node.streams[1].add(read("lost", 1))
    await node.settle()
    node.is_collector_there = True
    node.streams[1].add(read("seen", 1))
    await node.settle()
    assert [batch.reads[0].name.key for batch in batches] == ["seen"]


async def test_another_worker_collects_nothing() -> None:
    with pytest.raises(RuntimeError):
        NodeDouble().reads[1].subscribe(lambda _: None)

"""The read sender: in order, once, bounded, and nothing lost without a count."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.errors import ForebayError, OriginBroken, PeerNotListening, PeerUnavailable
from forebay.core.events import ObjectRead
from forebay.core.names import ObjectName
from forebay.core.read_log import group_reads
from forebay.core.task_registry import TaskRegistry
from forebay.peers.frames import Document
from forebay.peers.read_codec import BatchDecoder
from forebay.peers.read_sender import COLLECTED, MAX_FAILURES, MAX_UNSENT, RETRY_SECONDS, BatchNumbers, ReadSender
from harness.manual_timers import ManualTimers


def read(number: int) -> ObjectRead:
    return ObjectRead(ObjectName("bucket", str(number)), Span(0, 1), 1, "user", "default", "miss", 0.0)


class CollectorDouble:
    """A collector that fails as a test says, and keeps what it gets."""

    def __init__(self) -> None:
        self.timers, self.tasks = ManualTimers(), TaskRegistry()
        self.failure: ForebayError | None = None
        self.answer = COLLECTED
        self.open = asyncio.Event()
        self.open.set()
        self.calls = 0
        self.keys: list[str] = []
        self.missing: list[int] = []
        self.dropped = 0
        self._numbers = BatchNumbers()
        self.sender = ReadSender(1, self._call, self.timers, self._spawn, self._count)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> object:
        return self.tasks.spawn(work, name)

    def _count(self, dropped: int) -> None:
        self.dropped += dropped

    async def _call(self, request: Document) -> Document:
        self.calls += 1
        await self.open.wait()
        if self.failure is not None and not isinstance(self.failure, OriginBroken):
            raise self.failure
        if self.answer is COLLECTED and self._numbers.is_new(1, request["run"], request["number"]):
            batch = BatchDecoder().decode(request)
            self.keys += [each.name.key for each in batch.reads]
            self.missing.append(batch.dropped)
        if self.failure is not None:  # it has the batch, and its answer is lost
            raise self.failure
        return self.answer

    async def retry(self) -> None:
        await self.timers.armed(RETRY_SECONDS)
        self.timers.advance(RETRY_SECONDS)


@pytest.mark.parametrize("failure", [PeerNotListening("restarted"), PeerUnavailable("ended"), OriginBroken("lost")])
async def test_what_was_not_answered_is_sent_again_in_order(failure: ForebayError) -> None:
    node = CollectorDouble()
    node.failure = failure
    node.sender.add(group_reads([read(1), read(2)]))
    await node.timers.armed(RETRY_SECONDS)
    node.sender.add(group_reads([read(3)]))
    await node.retry()
    await node.timers.armed(RETRY_SECONDS)
    node.failure = None
    await node.retry()
    await node.tasks.wait_idle()
    assert (node.keys, node.dropped, node.timers.pending) == (["1", "2", "3"], 0, 0)


async def test_the_oldest_fall_out_of_the_ring_and_are_counted() -> None:
    node = CollectorDouble()
    node.open.clear()
    node.sender.add(group_reads([read(0)]))
    await asyncio.sleep(0)
    for first in range(1, MAX_UNSENT + 4, 100):
        node.sender.add(group_reads([read(number) for number in range(first, min(first + 100, MAX_UNSENT + 4))]))
    node.open.set()
    await node.tasks.wait_idle()
    assert node.keys == ["0", *(str(number) for number in range(4, MAX_UNSENT + 4))]
    assert (node.missing, node.dropped) == ([0, 3], 3)


async def test_a_batch_that_always_fails_is_dropped_and_counted() -> None:
    node = CollectorDouble()
    node.failure = PeerUnavailable("not understood")
    node.sender.add(group_reads([read(1)]), dropped=2)
    for _ in range(MAX_FAILURES):
        await node.retry()
    await node.tasks.wait_idle()
    node.failure = None
    node.sender.add(group_reads([read(2)]))
    await node.tasks.wait_idle()
    assert (node.calls, node.keys, node.missing, node.dropped) == (MAX_FAILURES + 1, ["2"], [3], 3)


async def test_a_collector_that_is_restarted_is_no_failure() -> None:
    node = CollectorDouble()
    node.failure = PeerNotListening("restarted")
    node.sender.add(group_reads([read(1)]))
    for _ in range(2 * MAX_FAILURES):
        await node.retry()
    node.failure = None
    await node.tasks.wait_idle()
    assert (node.keys, node.dropped) == (["1"], 0)


@pytest.mark.parametrize(("counted", "dropped"), [(False, 0), (True, 2)])
async def test_what_nobody_wants_is_forgotten(counted: bool, dropped: int) -> None:
    node = CollectorDouble()
    node.answer = {}
    node.sender.add(group_reads([read(1)]))
    await node.timers.armed(RETRY_SECONDS)
    node.sender.add(group_reads([read(2)]))
    if counted:
        node.sender.drop()
    else:
        node.sender.discard()
    await node.tasks.wait_idle()
    node.answer = COLLECTED
    node.sender.add(group_reads([read(3)]))
    await node.tasks.wait_idle()
    assert (node.keys, node.dropped) == (["3"], dropped)

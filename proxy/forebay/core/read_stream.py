"""The read stream: the object reads of one worker, in batches, for whoever subscribes.

    lanes ──add──> batch ──BATCH_READS reads, or BATCH_SECONDS──> each subscriber

Both lanes add an event to it for each plain read that is answered with bytes. While nobody subscribes, `is_open` is
False and the lanes make no event at all: that is all that a hit pays. Otherwise it pays for an append; a batch is
delivered by a timer, never within a hit.

The reads of all workers of a node are collected by forebay.peers.node_reads, where plans, recordings and statistics
subscribe. For one event loop.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from forebay.core.events import ObjectRead
from forebay.core.timers import Timers

BATCH_SECONDS: Final = 0.05
BATCH_READS: Final = 1024
MAX_UNDELIVERED: Final = 4096
"""Reads that are kept for the next delivery, however late that is; more are dropped and counted."""


class ReadBatch(NamedTuple):
    """Reads in the order in which one worker answered them."""

    reads: list[ObjectRead]
    worker: int = 0
    """The number of the worker that answered them."""
    dropped: int = 0
    """Reads of that worker that are missing before these."""


ReadSubscriber: TypeAlias = Callable[[ReadBatch], None]
"""Returns at once, never raises, and changes nothing in the batch."""


class ReadStream:
    """Batches the reads of worker `worker`."""

    __slots__ = ("_dropped", "_is_prompt", "_reads", "_subscribers", "_timers", "_worker", "is_open")

    def __init__(self, timers: Timers, worker: int = 0) -> None:
        self._timers = timers
        self._worker = worker
        self._reads: list[ObjectRead] = []
        self._dropped = 0
        self._is_prompt = False
        """Whether the batch is full, and delivered in the next turn of the loop."""
        self._subscribers: list[ReadSubscriber] = []
        self.is_open = False
        """Whether anybody subscribes: only then is `add` called."""

    def subscribe(self, subscriber: ReadSubscriber) -> Callable[[], None]:
        """Has `subscriber` called with each batch from now on. Returns a function that ends this."""
        self._subscribers.append(subscriber)
        self.is_open = True

        def unsubscribe() -> None:
            if subscriber in self._subscribers:
                self._subscribers.remove(subscriber)
            self.is_open = bool(self._subscribers)

        return unsubscribe

    def add(self, read: ObjectRead) -> None:
        """Adds a read. Every answered read calls it."""
        reads = self._reads
        reads.append(read)
        count = len(reads)
        if count == 1:
            self._timers.call_later(BATCH_SECONDS, self._deliver)
        elif count >= BATCH_READS:
            self._limit(count)

    def _limit(self, count: int) -> None:
        if not self._is_prompt:
            self._is_prompt = True
            self._timers.call_later(0.0, self._deliver)
        elif count > MAX_UNDELIVERED:
            self._reads.pop()
            self._dropped += 1

    def _deliver(self) -> None:
        reads, self._reads = self._reads, []
        dropped, self._dropped, self._is_prompt = self._dropped, 0, False
        if reads:  # else a full batch was delivered before its time
            batch = ReadBatch(reads, self._worker, dropped)
            for subscriber in tuple(self._subscribers):
                subscriber(batch)

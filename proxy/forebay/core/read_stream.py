"""The read stream: delivers the object reads of one worker to subscribers, in batches.

    lanes ──append──> read logs (core.read_log) ──by a timer──> a batch ──> each subscriber

Both lanes note each plain read that is answered with bytes. While nobody subscribes no log is active, and the lanes
note nothing. Otherwise a hit costs one append of a number; everything else is done once a batch, by a timer, never
within a hit. The timer runs only while something is read: a log that a whole interval found empty is inactive, and the
next read activates it again. While no subscriber is urgent an interval is as long as BATCH_READS take at the pace of
the one before, between BATCH_SECONDS and MAX_BATCH_SECONDS: a batch costs as much as several hits, however small it is.
A miss costs more than a batch, and a recording that is recognised sooner saves the next ones: so a miss is delivered
after MISS_SECONDS.
While many reads come to one of several workers, its logs are drained each DRAIN_SECONDS, into groups of one batch: so
the reads of all workers can be put in order.

The reads of all workers of a node are collected by forebay.peers.node_reads, where plans, recordings and statistics
subscribe. For one event loop.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

from forebay.core.events import ObjectRead
from forebay.core.read_log import LogContext, ReadGroup, ReadLog, context_of, group_reads
from forebay.core.timers import Timer, Timers

BATCH_SECONDS: Final = 0.05
"""The interval of urgent subscribers, and the first one after a pause."""
MAX_BATCH_SECONDS: Final = 0.2
"""Short enough that the fastest hits behind slow ones fit into peers.read_sender.MAX_UNSENT."""
BATCH_READS: Final = 256
MISS_SECONDS: Final = 0.02
"""The interval in which a read had to wait for bytes that were in no tier, from there on."""
DRAIN_SECONDS: Final = 0.01
DRAIN_READS: Final = 64
"""Fewer reads are left in the logs until the batch."""
MAX_UNDELIVERED: Final = 1 << 14
"""Reads of one log that are kept for the next delivery, however late that is; more are dropped and counted."""
MAX_KNOWN: Final = 1 << 17
"""Objects that all logs know together, of some 150 bytes each. With one more, all logs begin anew."""
MAX_LOGS: Final = 1024


class ReadBatch(NamedTuple):
    """Reads that one worker answered: those of each context in their order."""

    groups: list[ReadGroup]
    worker: int = 0
    """The number of the worker that answered them."""
    dropped: int = 0
    """Reads of that worker that are missing before these."""

    @classmethod
    def of(cls, reads: Iterable[ObjectRead], worker: int = 0, dropped: int = 0) -> "ReadBatch":
        """Returns a batch of these reads."""
        return cls(group_reads(reads), worker, dropped)

    @property
    def read_count(self) -> int:
        """The number of reads."""
        return sum(map(len, self.groups))

    @property
    def reads(self) -> list[ObjectRead]:
        """The reads one by one."""
        return [read for group in self.groups for read in group.reads()]


ReadSubscriber: TypeAlias = Callable[[ReadBatch], None]
"""Returns at once, never raises, and changes nothing in the batch."""


class ReadStream:
    """Batches the reads of worker `worker`."""

    def __init__(self, timers: Timers, worker: int = 0) -> None:
        self._timers = timers
        self._worker = worker
        self._logs: dict[LogContext, ReadLog] = {}
        self._known = 0
        self._active: list[ReadLog] = []
        self._timer: Timer | None = None
        self._interval = BATCH_SECONDS
        """The length in seconds of the current interval, or of the latest one."""
        self._due = 0.0
        """The time at which the current interval ends, on the clock of the timers."""
        self._drained: list[ReadGroup] = []
        self._drained_dropped = 0
        self.drains_early = False
        """Whether logs are drained before their batch is due."""
        self._subscribers: list[ReadSubscriber] = []
        self._urgent = 0
        """The number of urgent subscribers."""
        self.is_open = False
        """Whether the stream has a subscriber. Reads are added only then."""

    def subscribe(self, subscriber: ReadSubscriber, *, is_urgent: bool = True) -> Callable[[], None]:
        """Has `subscriber` called with each batch from now on. `is_urgent`: every BATCH_SECONDS. Returns a function
        that ends this."""
        self._subscribers.append(subscriber)
        self._urgent += is_urgent
        self.is_open = True
        if is_urgent and self._timer is not None and self._interval > BATCH_SECONDS:
            self._timer.cancel()
            self._begin_batch(BATCH_SECONDS)

        def unsubscribe() -> None:
            if subscriber in self._subscribers:
                self._subscribers.remove(subscriber)
                self._urgent -= is_urgent
            self.is_open = bool(self._subscribers)
            if not self.is_open:
                self._drain_all()
                self._active.clear()

        return unsubscribe

    def add(self, read: ObjectRead) -> None:
        """Adds a read."""
        log = self._log(context_of(read))
        self._activate(log)
        log.add(read)
        if read.cached < 1.0 and self._timer is not None and self._due > self._timers.time() + MISS_SECONDS:
            self._timer.cancel()
            self._begin_batch(MISS_SECONDS)

    def add_whole(self, context: LogContext, key: str, size: int, log: ReadLog, code: int) -> tuple[ReadLog, int]:
        """Adds a read of a whole object from memory. Returns the log and the code with which it is appended from now
        on. `log`, `code`: those of the read before; NO_LOG, 0."""
        if log.is_closed:
            if self._known >= MAX_KNOWN:
                self._begin_anew()
            log = self._log(context)
            code = log.known.add(key, size)
            self._known += 1
        self._activate(log)
        log.append(code)
        return log, code

    def _log(self, context: LogContext) -> ReadLog:
        log = self._logs.get(context)
        if log is None:
            if len(self._logs) >= MAX_LOGS:
                self._begin_anew()
            log = self._logs[context] = ReadLog(context)
        return log

    def _begin_anew(self) -> None:
        """Has everything that is read from now on known under another number."""
        for log in self._logs.values():
            log.is_closed, log.is_active = True, False
        self._logs.clear()
        self._known = 0

    def _activate(self, log: ReadLog) -> None:
        if not log.is_active:
            log.is_active = True
            self._active.append(log)
            if self._timer is None:
                self._begin_batch(BATCH_SECONDS)

    def _begin_batch(self, interval: float) -> None:
        self._interval, self._due = interval, self._timers.time() + interval
        if self.drains_early:
            self._timer = self._timers.call_later(DRAIN_SECONDS, self._drain_early)
        else:
            self._timer = self._timers.call_later(interval, self._deliver)

    def _drain_early(self) -> None:
        """Empties the logs if there is much in them, and else leaves that to the batch."""
        rest = self._due - self._timers.time()
        if sum(len(log.codes) for log in self._active) >= DRAIN_READS:
            self._drain_active()
            if rest > 2 * DRAIN_SECONDS:
                self._timer = self._timers.call_later(DRAIN_SECONDS, self._drain_early)
                return
        self._timer = self._timers.call_later(max(0.0, rest), self._deliver)

    def deliver(self) -> int:
        """Delivers the reads so far at once, so that the next subscriber gets none of them. Returns how many."""
        groups, dropped = self._drain_all()
        self._active = [log for log in self._active if log.is_active]
        if not groups:
            return 0
        batch = ReadBatch(groups, self._worker, dropped)
        for subscriber in tuple(self._subscribers):
            subscriber(batch)
        return batch.read_count

    def _deliver(self) -> None:
        self._timer = None
        reads = self.deliver()
        if self._active and self._timer is None:
            interval = BATCH_SECONDS
            if not self._urgent:
                interval = min(MAX_BATCH_SECONDS, max(interval, self._interval * BATCH_READS / reads))
            self._begin_batch(interval)

    def _drain_all(self) -> tuple[list[ReadGroup], int]:
        """Empties the active logs, and ends those that are closed or were empty."""
        drained = {group.context for group in self._drained}
        for log in self._active:
            if not self.is_open or not (log.codes or log.context in drained):
                log.is_active = False
        self._drain_active()
        groups, dropped, self._drained, self._drained_dropped = self._drained, self._drained_dropped, [], 0
        return groups, dropped

    def _drain_active(self) -> None:
        now = self._timers.time()
        for log in self._active:
            if log.codes:
                group, dropped = log.drain(MAX_UNDELIVERED, now)
                self._drained.append(group)
                self._drained_dropped += dropped

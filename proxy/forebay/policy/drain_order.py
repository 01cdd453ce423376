"""The order in which acknowledged writes are carried out at the origin.

B depends on every A of its bucket that was written to the journal before B's request began. No write is acknowledged
before it is in the journal, so every write that a client knows to be acknowledged when it sends B comes first. Writes
that overlap in time are independent and are carried out side by side, except that two of one object are carried out as
they were written, and one that becomes known when a later one is under way already waits for that.

    A  |began ──── written|
    B                        |began ──── written|          B after A
    C             |began ───────── written|                C beside A, and beside B

So a write is ready once no unsettled write of its bucket was written before it began: one comparison with the earliest
of these times. Times are of one clock for all workers of the node, and grow from run to run.

A write that is carried out and can't be settled yet holds up only later writes of its object. The next run finds it
pending, and checks whether the origin has it: behind a later write of that object it would not recognise it, and would
bring the older bytes back.
"""

import bisect
import heapq
from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Generic, NamedTuple, TypeVar

from forebay.core.names import ObjectName

W = TypeVar("W", bound=Hashable)
"""The identity of a write."""


class WriteInterval(NamedTuple):
    """One write on the node's clock. `began`: its request arrived; `written`: its record was about to be written."""

    began: int
    written: int


class _Entry(NamedTuple, Generic[W]):
    write: W
    interval: WriteInterval
    names: tuple[ObjectName, ...]


class DrainOrder(Generic[W]):
    """The unsettled writes. `add` and `settle` keep it; `ready` hands each write out once."""

    def __init__(self) -> None:
        self._unsettled: dict[W, _Entry[W]] = {}
        self._written: defaultdict[str, list[tuple[int, int, W]]] = defaultdict(list)
        """A heap of each bucket, by the time of writing. Settled writes leave it when they are first."""
        self._began: defaultdict[str, list[tuple[int, int, W]]] = defaultdict(list)
        """A heap of each bucket, by the time of the beginning: the writes that are not handed out and wait for no
        other."""
        self._objects: defaultdict[ObjectName, list[W]] = defaultdict(list)
        """The unsettled writes of each object, as they were written."""
        self._handed_out: dict[ObjectName, W] = {}
        """The write of each object that is handed out."""
        self._done: set[W] = set()
        """The unsettled writes that were carried out."""
        self._counter = 0

    def __len__(self) -> int:
        """Returns how many writes are unsettled."""
        return len(self._unsettled)

    @property
    def waiting(self) -> int:
        """The number of writes that wait for another one."""
        return len(self._unsettled) - len(set(self._handed_out.values()))

    def add(self, write: W, interval: WriteInterval, names: Sequence[ObjectName]) -> None:
        """Adds a write of these objects, all of one bucket."""
        entry = _Entry(write, interval, tuple(dict.fromkeys(names)))
        self._unsettled[write] = entry
        self._counter += 1
        heapq.heappush(self._written[_bucket(entry)], (interval.written, self._counter, write))
        heapq.heappush(self._began[_bucket(entry)], (interval.began, self._counter, write))
        for name in entry.names:
            bisect.insort(self._objects[name], write, key=lambda each: self._unsettled[each].interval.written)

    def note_done(self, write: W) -> None:
        """A write is carried out, and can't be settled yet."""
        self._done.add(write)
        self._forget_first(_bucket(self._unsettled[write]))

    def settle(self, write: W) -> None:
        """Removes a write that was carried out, or that the operator has discarded."""
        entry = self._unsettled.pop(write)
        self._done.discard(write)
        for name in entry.names:
            if self._handed_out.get(name) == write:
                del self._handed_out[name]
            queue = self._objects[name]
            queue.remove(write)
            if not queue:
                del self._objects[name]
        self._forget_first(_bucket(entry))

    def _forget_first(self, bucket: str) -> None:
        """Removes the times of a bucket that no write waits for."""
        written = self._written[bucket]
        while written and (written[0][2] not in self._unsettled or written[0][2] in self._done):
            heapq.heappop(written)
        if not written:
            del self._written[bucket]
            self._began.pop(bucket, None)

    def ready(self) -> list[W]:
        """Returns the writes that may be carried out now and were not returned before."""
        found: list[W] = []
        for bucket, began in self._began.items():
            earliest = self._written[bucket][0][0]
            behind: list[tuple[int, int, W]] = []
            while began and began[0][0] <= earliest:
                item = heapq.heappop(began)
                entry = self._unsettled.get(item[2])
                if entry is None:
                    continue
                if all(self._next(name) == entry.write for name in entry.names):
                    found.append(entry.write)
                    self._handed_out.update(dict.fromkeys(entry.names, entry.write))
                else:
                    behind.append(item)
            for item in behind:
                heapq.heappush(began, item)
        return found

    def _next(self, name: ObjectName) -> W:
        """The write of an object that its others wait for."""
        return self._handed_out.get(name, self._objects[name][0])

    def blocked_by(self, write: W) -> W | None:
        """Returns the unsettled write that `write` waits for the longest; None: it is ready."""
        entry = self._unsettled[write]
        if write in self._done or self._handed_out.get(entry.names[0]) == write:
            return None
        for name in entry.names:
            if (first := self._next(name)) != write:
                return first
        written, _, first = self._written[_bucket(entry)][0]
        return first if written < entry.interval.began else None


def _bucket(entry: _Entry[W]) -> str:
    return entry.names[0].bucket

"""Sequences in reads over separate requests: ranges that follow each other in an object, and objects that follow each
other in the order of a listing.

    ranges   [0,8) [8,16) [17,25)      a run, once RUN_READS follow each other, a small gap or overlap apart
    keys     0001.tar 0002.tar ...     an order, once RISING_KEYS rose and ORDERED_MOVES went on in the listing

Random reads continue a run by chance only, and at most twice the bytes that a run has read are fetched ahead of it: a
wrong guess costs little. A sequence grants no access. The tables are bounded: the oldest entry gives way. Time is an
argument.
"""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from forebay.core.byte_ranges import Span
from forebay.core.events import ObjectRead
from forebay.core.names import ObjectName

RUN_READS: Final = 3
"""Reads in a row that make a run."""
RUNS_PER_OBJECT: Final = 4
"""Runs of one principal in one object: readers that share it from different starts."""
MAX_OBJECTS: Final = 1024
MAX_SLACK: Final = 128 << 10
"""Bytes between two reads of a run, forward or back; for small reads a fourth of the read."""
RISING_KEYS: Final = 3
"""Keys in a row, each greater than the one before, that are worth a look at the listing."""
ORDERED_MOVES: Final = 2
"""Steps forward in the listing, in a row, that make an order."""
REACH: Final = 8
"""Keys that one step may go forward, or back without ending the order: workers that share the keys."""
MAX_ORDERS: Final = 64


@dataclass(slots=True)
class ReadRun:
    """One reader that goes forward in one object."""

    start: int
    stop: int
    """The end of its last read."""
    reads: int = 1
    ahead: int = 0
    """The end of the bytes that were fetched ahead."""

    def continues(self, span: Span) -> bool:
        """Whether a read begins at the end of the last one, or nearly."""
        return abs(span.start - self.stop) <= min(span.length // 4, MAX_SLACK) and span.stop > self.stop

    def next_extent(self, read_ahead: int, size: int) -> Span | None:
        """The bytes to fetch ahead now; None: none yet, or enough are. They count as fetched from here on."""
        if self.reads < RUN_READS:
            return None
        window = min(read_ahead, 2 * (self.stop - self.start))
        start, stop = max(self.ahead, self.stop), min(size, self.stop + window)
        if stop - start < min(window // 2, size - self.stop) or start >= stop:
            return None
        self.ahead = stop
        return Span(start, stop)


class ReadSequences:
    """The runs of all readers, by principal and object."""

    def __init__(self) -> None:
        self._runs: OrderedDict[tuple[str, ObjectName], list[ReadRun]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._runs)

    def observe(self, read: ObjectRead) -> ReadRun:
        """Returns the run that a read continues or begins."""
        key = read.principal, read.name
        runs = self._runs.get(key)
        if runs is None:
            runs = self._runs[key] = []
            if len(self._runs) > MAX_OBJECTS:
                self._runs.popitem(last=False)
        else:
            self._runs.move_to_end(key)
        for run in runs:
            if run.continues(read.span):
                run.stop = read.span.stop
                run.reads += 1
                runs.remove(run)
                runs.append(run)
                return run
        run = ReadRun(read.span.start, read.span.stop)
        runs.append(run)
        if len(runs) > RUNS_PER_OBJECT:
            del runs[0]
        return run


@dataclass(slots=True)
class KeyOrder:
    """The order in which one principal goes through the keys of one directory."""

    last: str = ""
    rising: int = 0
    """Steps to a greater key in a row, counted before the listing is known."""
    moves: int = 0
    """Steps forward in the listing in a row."""
    high: int = -1
    """The position of the furthest key, in `keys`."""
    keys: list[str] = field(default_factory=list)
    """A page of the listing, sorted."""
    sizes: list[int] = field(default_factory=list)
    ahead: int = -1
    """The position of the last key that was fetched ahead."""
    is_known: bool = False
    """Whether `last` is on the page."""
    is_last_page: bool = False

    @property
    def needs_page(self) -> bool:
        """Whether it is worth a look at the listing behind `last`."""
        is_near_end = not self.is_last_page and self.high + REACH >= len(self.keys)
        return self.rising >= RISING_KEYS and (not self.is_known or is_near_end)

    def learn(self, page: list[tuple[str, int]], *, is_last: bool) -> None:
        """The listing from `last` on: keys and sizes, that of `last` too. `is_last`: nothing is behind it."""
        self.keys, self.sizes = [key for key, _ in page], [size for _, size in page]
        self.is_last_page, self.is_known = is_last, True
        self.high = bisect_right(self.keys, self.last) - 1
        self.ahead = max(self.high, -1)

    def observe(self, key: str) -> None:
        """A reader is near the end of `key`."""
        if key != self.last:
            self.rising = self.rising + 1 if key > self.last else 0
        self.last = key
        position = bisect_left(self.keys, key)
        self.is_known = position < len(self.keys) and self.keys[position] == key
        if not self.is_known:
            self.moves = 0
            return
        step = position - self.high
        if 0 < step <= REACH:
            self.moves += 1
        elif not -REACH <= step <= 0:
            self.moves = 0
            self.ahead = position
        self.high = max(self.high, position) if self.moves else position

    def next_objects(self, read_ahead: int) -> list[tuple[str, int]]:
        """Keys that come next, with the bytes of each to fetch: whole objects that `read_ahead` has room for, or the
        start of the next one. They count as fetched from here on."""
        if self.moves < ORDERED_MOVES:
            return []
        found: list[tuple[str, int]] = []
        left = read_ahead - sum(self.sizes[self.high + 1 : self.ahead + 1])
        for position in range(max(self.high, self.ahead) + 1, min(len(self.keys), self.high + 1 + 8 * REACH)):
            size = self.sizes[position]
            if left <= 0 or (size > left and position > self.high + 1):
                break
            found.append((self.keys[position], min(size, left)))
            left -= size
            self.ahead = position
        return found


class KeyOrders:
    """The orders of all readers, by principal, bucket and directory (a key up to its last slash)."""

    def __init__(self) -> None:
        self._orders: OrderedDict[tuple[str, str, str], KeyOrder] = OrderedDict()

    def observe(self, principal: str, name: ObjectName) -> KeyOrder:
        """Returns the order of a reader who is near the end of an object."""
        key = principal, name.bucket, directory_of(name.key)
        order = self._orders.get(key)
        if order is None:
            order = self._orders[key] = KeyOrder()
            if len(self._orders) > MAX_ORDERS:
                self._orders.popitem(last=False)
        else:
            self._orders.move_to_end(key)
        order.observe(name.key)
        return order


def directory_of(key: str) -> str:
    """A key up to its last slash."""
    return key[: key.rfind("/") + 1]

"""The read log: the reads of one reader, each noted as a number, so that a hit costs one append.

    hit of a known object ──> append(code)                       one append to a list, no object is made
    any other read        ──> transient, and a code that names it

    code    u64:  number << 32 | hash        number: an index into `KnownReads`, or from TRANSIENT on into `transient`

Reads of one context (bucket, principal, rule) share a log, so a read needs no other label. Known reads are whole
objects that are answered from memory: their key and size are noted once. Others are events of their own
(core.events.ObjectRead), which end with their batch. core.read_stream has the logs of a worker and empties them.
"""

import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias, TypeVar

from forebay.core.byte_ranges import Span
from forebay.core.events import ObjectRead
from forebay.core.names import ObjectName
from forebay.core.number_halves import high_halves, low_halves
from forebay.core.read_hashes import ReadHashes

TRANSIENT: Final = 1 << 31
"""Numbers from here on are of transient reads."""
_ALL: Final = (1 << 32) - 1
_MIXER: Final = 0x9E3779B1
"""Odd, so that no two hashes become one; it spreads a CRC's bits to the top, where thresholds compare."""

Codes: TypeAlias = "array[int]"
CODE: Final = "L" if array("L").itemsize == 8 else "Q"
"""The type of an array of codes: numbers become an L, where it has 64 bits, in a third of the time."""
T = TypeVar("T")


def read_hash(key: str, start: int) -> int:
    """Returns 32 bits that stand for a read: of a key, from a byte on. Equal in all processes."""
    return zlib.crc32(key.encode("utf-8", "surrogatepass"), start & _ALL) * _MIXER & _ALL


class LogContext(NamedTuple):
    """The facts that all reads of a log share."""

    bucket: str
    principal: str
    rule: str
    """The name of the rule that the reader came under, as in the metrics."""
    track: str
    """The data set as recordings know it; empty: they need nothing of these reads."""


class KnownReads:
    """Whole objects, by number."""

    __slots__ = ("__weakref__", "extents", "keys", "largest")

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.extents = array("Q")
        """Their sizes in bytes, times two, plus one: as recordings have whole objects."""
        self.largest = 0
        """Bytes of the largest."""

    def add(self, key: str, size: int) -> int:
        """Adds an object. Returns its code."""
        number = len(self.keys)
        self.keys.append(key)
        self.extents.append(2 * size + 1)
        self.largest = max(self.largest, size)
        return number << 32 | read_hash(key, 0)

    def size_of(self, numbers: Sequence[int]) -> int:
        """Bytes of these objects."""
        extents = _picked(self.extents, numbers)
        return (sum(extents) - len(extents)) // 2


class ReadGroup:
    """Reads of one context, in order."""

    __slots__ = ("codes", "context", "drained_at", "known", "transient")

    def __init__(
        self,
        context: LogContext,
        codes: Codes,
        known: KnownReads,
        transient: Sequence[ObjectRead],
        drained_at: float = 0.0,
    ) -> None:
        self.context = context
        self.codes = codes
        self.known = known
        self.transient = transient
        self.drained_at = drained_at
        """When the log was emptied, in seconds of the monotonic clock that all workers of a node share."""

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def hashes(self) -> ReadHashes:
        """The hash of each read."""
        return low_halves(self.codes)

    @property
    def numbers(self) -> list[int]:
        """Of each read."""
        return high_halves(self.codes).tolist()

    @property
    def keys(self) -> list[str]:
        """The key of each read. No read is transient."""
        return _picked(self.known.keys, self.numbers)

    @property
    def extents(self) -> list[int]:
        """The extent of each read, as known reads have them. No read is transient."""
        return _picked(self.known.extents, self.numbers)

    @property
    def has_misses(self) -> bool:
        """Whether some of the bytes read were in no tier."""
        return any(read.cached < 1.0 for read in self.transient)

    def part(self, start: int, stop: int) -> "ReadGroup":
        """The reads from `start` to `stop`."""
        return ReadGroup(self.context, self.codes[start:stop], self.known, self.transient, self.drained_at)

    def chosen(self, positions: Iterable[int]) -> "ReadGroup":
        """The reads at these positions."""
        codes = array(CODE, [self.codes[each] for each in positions])
        return ReadGroup(self.context, codes, self.known, self.transient, self.drained_at)

    def runs(self) -> "Iterator[ReadGroup | ObjectRead]":
        """The reads in order: transient ones as they are, those of known objects together."""
        start = 0
        if self.transient:
            for position, number in enumerate(self.numbers):
                if number >= TRANSIENT:
                    if start < position:
                        yield ReadGroup(self.context, self.codes[start:position], self.known, ())
                    yield self.transient[number - TRANSIENT]
                    start = position + 1
        if start < len(self.codes):
            yield ReadGroup(self.context, self.codes[start:], self.known, ())

    def reads(self) -> list[ObjectRead]:
        """The reads one by one, for the few subscribers that need each."""
        bucket, principal, rule, track = self.context
        keys, extents, found = self.known.keys, self.known.extents, list[ObjectRead]()
        for number in self.numbers:
            if number >= TRANSIENT:
                found.append(self.transient[number - TRANSIENT])
            else:
                size = extents[number] >> 1
                name = ObjectName(bucket, keys[number])
                found.append(ObjectRead(name, Span(0, size), size, principal, rule, "hit-memory", 1.0, track))
        return found


def _picked(column: Sequence[T], numbers: Sequence[int]) -> list[T]:
    if len(numbers) < 2:
        return [column[number] for number in numbers]  # itemgetter returns no tuple of one
    return list(itemgetter(*numbers)(column))  # twice as fast as a comprehension


class ReadLog:
    """The reads of one context that were not delivered yet."""

    __slots__ = ("append", "codes", "context", "is_active", "is_closed", "known", "transient")

    def __init__(self, context: LogContext) -> None:
        self.context = context
        self.codes: list[int] = []
        """A list, as its append takes a third of an array's; it refers to numbers that are there."""
        self.append: Callable[[int], None] = self.codes.append
        """Adds a known read by its code, while the log is active."""
        self.known = KnownReads()
        self.transient: list[ObjectRead] = []
        self.is_active = False
        """Whether it will be emptied soon: only then is `append` called."""
        self.is_closed = False
        """Whether another log has taken its place: its codes mean nothing any more."""

    def add(self, read: ObjectRead) -> None:
        """Adds any other read."""
        number = TRANSIENT + len(self.transient)
        self.transient.append(read)
        self.codes.append(number << 32 | read_hash(read.name.key, read.span.start))

    def drain(self, limit: int, now: float = 0.0) -> tuple[ReadGroup, int]:
        """Empties the log. Returns the first `limit` reads, and how many are left out."""
        codes, transient = array(CODE, self.codes[:limit]), self.transient
        dropped = len(self.codes) - len(codes)
        self.codes.clear()
        self.transient = []
        return ReadGroup(self.context, codes, self.known, transient, now), dropped


NO_LOG: Final = ReadLog(LogContext("", "", "", ""))
"""The log of what has not been read yet."""
NO_LOG.is_closed = True


def group_reads(reads: Iterable[ObjectRead]) -> list[ReadGroup]:
    """Returns reads by their context."""
    logs: dict[LogContext, ReadLog] = {}
    for read in reads:
        context = context_of(read)
        log = logs.get(context)
        if log is None:
            log = logs[context] = ReadLog(context)
        log.add(read)
    return [log.drain(len(log.codes))[0] for log in logs.values()]


def context_of(read: ObjectRead) -> LogContext:
    """The context of a read."""
    return LogContext(read.name.bucket, read.principal, read.rule, read.track)

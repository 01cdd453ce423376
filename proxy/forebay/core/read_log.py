"""The read log: records the reads of one context as numbers, so that a hit costs one append to a list.

    known read        ──> append(code)                    the whole of an object, from memory: no event is made
    transient read    ──> add(event)                      a miss, a range, a hit from the SSD: an ObjectRead of its own

    code    u64:  number << 32 | hash      number below TRANSIENT: an index into `KnownReads`
                                           from TRANSIENT on: an index into `transient`, plus TRANSIENT
                                           hash: see `read_hash`

A context is a bucket, a principal and a rule. All its reads share one log, so a read needs no other label. The key and
the size of a known read are kept for as long as the log is; a transient read is kept until the log is emptied.
core.read_stream owns the logs of a worker and empties them into batches.
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
"""The first number of a transient read."""
_ALL: Final = (1 << 32) - 1
_MIXER: Final = 0x9E3779B1
"""The factor that spreads the bits of a CRC to the top, where thresholds compare. Odd numbers map no two hashes to
one."""

Codes: TypeAlias = "array[int]"
CODE: Final = "L" if array("L").itemsize == 8 else "Q"
"""The type code of an array of codes. An L of 64 bits is filled three times as fast as a Q."""
T = TypeVar("T")


def read_hash(key: str, start: int) -> int:
    """Returns the 32-bit hash of a read of `key` that begins at the byte `start`. All processes compute the same."""
    return zlib.crc32(key.encode("utf-8", "surrogatepass"), start & _ALL) * _MIXER & _ALL


class LogContext(NamedTuple):
    """The facts that all reads of a log share."""

    bucket: str
    principal: str
    rule: str
    """The name of the rule that the reads came under, as in the metrics."""
    track: str
    """The data set that recordings assign these reads to. Empty: no recording wants them."""


class KnownReads:
    """The objects whose reads have numbers: their keys and sizes, in columns."""

    __slots__ = ("__weakref__", "extents", "keys", "largest")

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.extents = array("Q")
        """The size of each object in bytes, times two, plus one: the form in which recordings write whole objects."""
        self.largest = 0
        """The size of the largest object in bytes."""

    def add(self, key: str, size: int) -> int:
        """Adds an object. Returns the code of its reads."""
        number = len(self.keys)
        self.keys.append(key)
        self.extents.append(2 * size + 1)
        self.largest = max(self.largest, size)
        return number << 32 | read_hash(key, 0)

    def size_of(self, numbers: Sequence[int]) -> int:
        """Returns the sum of the sizes of these objects, in bytes."""
        extents = _picked(self.extents, numbers)
        return (sum(extents) - len(extents)) // 2


class ReadGroup:
    """A sequence of reads of one context, in their order: the content of an emptied log, or a part of it."""

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
        """The time at which the log was emptied, in seconds of the monotonic clock that all workers of a node share."""

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def hashes(self) -> ReadHashes:
        """The hashes of the reads, in order."""
        return low_halves(self.codes)

    @property
    def numbers(self) -> list[int]:
        """The numbers of the reads, in order."""
        return high_halves(self.codes).tolist()

    @property
    def keys(self) -> list[str]:
        """The keys of the reads, in order. Only for a group without transient reads."""
        return _picked(self.known.keys, self.numbers)

    @property
    def extents(self) -> list[int]:
        """The extents of the reads, in the form of `KnownReads.extents`. Only for a group without transient reads."""
        return _picked(self.known.extents, self.numbers)

    @property
    def has_misses(self) -> bool:
        """Whether a read had to wait for bytes that were in no tier."""
        return any(read.cached < 1.0 for read in self.transient)

    def part(self, start: int, stop: int) -> "ReadGroup":
        """Returns the reads from position `start` up to `stop`, exclusive."""
        return ReadGroup(self.context, self.codes[start:stop], self.known, self.transient, self.drained_at)

    def chosen(self, positions: Iterable[int]) -> "ReadGroup":
        """Returns the reads at these positions."""
        codes = array(CODE, [self.codes[each] for each in positions])
        return ReadGroup(self.context, codes, self.known, self.transient, self.drained_at)

    def runs(self) -> "Iterator[ReadGroup | ObjectRead]":
        """Yields the reads in order: each transient read by itself, known reads between two of them as one group."""
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
        """Returns the reads as events, for the few subscribers that need each."""
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
    """Returns the values of `column` at `numbers`."""
    if len(numbers) < 2:
        return [column[number] for number in numbers]  # itemgetter returns no tuple of one
    return list(itemgetter(*numbers)(column))  # twice as fast as a comprehension


class ReadLog:
    """Collects the reads of one context until it is emptied."""

    __slots__ = ("append", "codes", "context", "is_active", "is_closed", "known", "transient")

    def __init__(self, context: LogContext) -> None:
        self.context = context
        self.codes: list[int] = []
        """The codes of the reads. A list, because its append takes a third of the time of an array's, and refers to an
        integer that exists already."""
        self.append: Callable[[int], None] = self.codes.append
        """Adds a known read by its code."""
        self.known = KnownReads()
        self.transient: list[ObjectRead] = []
        self.is_active = False
        """Whether the next batch empties this log. `append` is only called then."""
        self.is_closed = False
        """Whether another log has replaced this one. Codes of this log are invalid then."""

    def add(self, read: ObjectRead) -> None:
        """Adds a transient read."""
        number = TRANSIENT + len(self.transient)
        self.transient.append(read)
        self.codes.append(number << 32 | read_hash(read.name.key, read.span.start))

    def drain(self, limit: int, now: float = 0.0) -> tuple[ReadGroup, int]:
        """Empties the log. Returns the first `limit` reads, and the number of reads that were dropped."""
        codes, transient = array(CODE, self.codes[:limit]), self.transient
        dropped = len(self.codes) - len(codes)
        self.codes.clear()
        self.transient = []
        return ReadGroup(self.context, codes, self.known, transient, now), dropped


NO_LOG: Final = ReadLog(LogContext("", "", "", ""))
"""The log of a prepared response that no read was recorded of yet: closed, so its first read opens one."""
NO_LOG.is_closed = True


def group_reads(reads: Iterable[ObjectRead]) -> list[ReadGroup]:
    """Groups events by their contexts, as transient reads."""
    logs: dict[LogContext, ReadLog] = {}
    for read in reads:
        context = context_of(read)
        log = logs.get(context)
        if log is None:
            log = logs[context] = ReadLog(context)
        log.add(read)
    return [log.drain(len(log.codes))[0] for log in logs.values()]


def context_of(read: ObjectRead) -> LogContext:
    """Returns the context of a read."""
    return LogContext(read.name.bucket, read.principal, read.rule, read.track)

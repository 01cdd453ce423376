"""Reads of a recording in columns, so that no Python code runs for each of them.

keys      the key of each
starts    its first byte
extents   its length in bytes, times two, plus one if it was the whole object: as the file has them
"""

import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from forebay.core.events import RecordedRead
from forebay.core.read_log import KnownReads

Numbers: TypeAlias = "array[int]"
_ZERO: Final = bytes(8)
_LOWEST: Final = 0 if sys.byteorder == "little" else 7
_ODD: Final = bytes(each & 1 for each in range(256))


class NumberedReads(NamedTuple):
    """Reads of whole objects, by their numbers in a log."""

    known: KnownReads
    numbers: Numbers
    """Numbers of 32 bits."""


class ReadColumns:
    """Reads, in order."""

    __slots__ = ("extents", "keys", "starts")

    def __init__(self, keys: list[str], starts: Numbers, extents: Numbers) -> None:
        self.keys = keys
        self.starts = starts
        self.extents = extents

    @classmethod
    def of(cls, reads: Iterable[RecordedRead]) -> "ReadColumns":
        """Returns the columns of these reads."""
        listed = list(reads)
        extents = array("Q", [read.length * 2 + read.is_whole for read in listed])
        return cls([read.key for read in listed], array("Q", [read.start for read in listed]), extents)

    @classmethod
    def of_whole(cls, keys: list[str], extents: Numbers) -> "ReadColumns":
        """Reads of whole objects."""
        return cls(keys, array("Q", _ZERO * len(keys)), extents)

    def __len__(self) -> int:
        return len(self.keys)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReadColumns) and self.reads == other.reads

    __hash__ = None  # type: ignore[assignment] # it changes

    @property
    def columns(self) -> "ReadColumns":
        """Returns itself."""
        return self

    @property
    def is_numbered(self) -> bool:
        """Returns False: reads in columns have no numbers."""
        return False

    @property
    def numbered(self) -> list[NumberedReads] | None:
        """Returns None: reads in columns have no numbers."""
        return None

    @property
    def reads(self) -> tuple[RecordedRead, ...]:
        """Yields each read."""
        return tuple(
            RecordedRead(key, start, extent >> 1, bool(extent & 1))
            for key, start, extent in zip(self.keys, self.starts, self.extents, strict=True)
        )

    @property
    def size(self) -> int:
        """Bytes of all reads."""
        lowest = self.extents.tobytes()[_LOWEST::8]
        return (sum(self.extents) - lowest.translate(_ODD).count(1)) // 2

    def part(self, start: int, stop: int) -> "ReadColumns":
        """The reads from `start` to `stop`."""
        return ReadColumns(self.keys[start:stop], self.starts[start:stop], self.extents[start:stop])

    def chosen(self, positions: Sequence[int]) -> "ReadColumns":
        """The reads at these positions."""
        starts, extents = [self.starts[each] for each in positions], [self.extents[each] for each in positions]
        return ReadColumns([self.keys[each] for each in positions], array("Q", starts), array("Q", extents))

    def extend(self, more: "ReadColumns") -> None:
        """Appends reads."""
        self.keys += more.keys
        self.starts += more.starts
        self.extents += more.extents


class ColumnSource(Protocol):
    """Reads that are converted to columns when these are needed."""

    def __len__(self) -> int: ...

    @property
    def columns(self) -> ReadColumns:
        """The columns of all reads."""
        ...

    @property
    def is_numbered(self) -> bool:
        """Whether all of them are certainly numbers, which take little memory."""
        ...

    @property
    def numbered(self) -> list[NumberedReads] | None:
        """Returns all of them by their numbers; None if some have none."""
        ...

    def part(self, start: int, stop: int) -> "ColumnSource":
        """The reads from `start` to `stop`."""
        ...

    def chosen(self, positions: Sequence[int]) -> "ColumnSource":
        """The reads at these positions, which ascend."""
        ...


def no_reads() -> ReadColumns:
    """Returns columns without reads."""
    return ReadColumns([], array("Q"), array("Q"))

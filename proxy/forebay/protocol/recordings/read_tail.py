"""The read tail: the latest reads of a recording, as the batches that they came in. Pages are cut from it.

batch  batch  batch ...      converted to columns when a page is encoded, in the thread that writes it
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from forebay.protocol.recordings.read_columns import ColumnSource, NumberedReads, ReadColumns, no_reads


class ReadTail:
    """Reads, in order. Implements ColumnSource."""

    __slots__ = ("_batches", "_count")

    def __init__(self, batches: Iterable[ColumnSource] = ()) -> None:
        self._batches = [batch for batch in batches if len(batch)]
        self._count = sum(map(len, self._batches))

    def __len__(self) -> int:
        return self._count

    def append(self, reads: ColumnSource) -> None:
        """Appends reads, which must not be changed any more."""
        if len(reads):
            self._batches.append(reads)
            self._count += len(reads)

    def part(self, start: int, stop: int) -> "ReadTail":
        """The reads from `start` to `stop`."""
        return ReadTail(self._between(start, stop))

    def chosen(self, positions: Sequence[int]) -> "ReadTail":
        """The reads at these positions, which ascend."""
        found, first, at = list[ColumnSource](), 0, 0
        for batch in self._batches:
            behind = bisect_left(positions, first + len(batch), at)
            found.append(batch.chosen([each - first for each in positions[at:behind]]))
            first, at = first + len(batch), behind
        return ReadTail(found)

    def _between(self, start: int, stop: int) -> list[ColumnSource]:
        found, first = list[ColumnSource](), 0
        for batch in self._batches:
            count = len(batch)
            begin, end = max(0, start - first), min(count, stop - first)
            if begin < end:
                found.append(batch if end - begin == count else batch.part(begin, end))
            first += count
        return found

    def cut(self, count: int) -> "ReadTail":
        """Removes and returns the first `count` reads."""
        first, rest = self._between(0, count), self._between(count, self._count)
        self._batches, self._count = rest, sum(map(len, rest))
        return ReadTail(first)

    @property
    def is_numbered(self) -> bool:
        """Whether all of them are."""
        return all(batch.is_numbered for batch in self._batches)

    @property
    def numbered(self) -> list[NumberedReads] | None:
        """All reads by their numbers, those of one log together; None: some have none."""
        found = list[NumberedReads]()
        for batch in self._batches:
            more = batch.numbered
            if more is None:
                return None
            for each in more:
                if found and found[-1].known is each.known:
                    found[-1].numbers.extend(each.numbers)
                else:
                    found.append(NumberedReads(each.known, each.numbers[:]))
        return found

    @property
    def columns(self) -> ReadColumns:
        """The columns of all reads."""
        found = no_reads()
        for batch in self._batches:
            found.extend(batch.columns)
        return found

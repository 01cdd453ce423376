"""Group reads: the reads of one context as a column source. They are put into columns only if they are recorded."""

from array import array
from collections.abc import Sequence

from forebay.core.number_halves import high_halves
from forebay.core.read_log import TRANSIENT, ReadGroup
from forebay.protocol.recordings.read_columns import NumberedReads, ReadColumns


class GroupReads:
    """Implements protocol.recordings.read_columns.ColumnSource."""

    __slots__ = ("_group",)

    def __init__(self, group: ReadGroup) -> None:
        self._group = group

    def __len__(self) -> int:
        return len(self._group)

    def part(self, start: int, stop: int) -> "GroupReads":
        """Returns the reads from `start` to `stop`."""
        return GroupReads(self._group.part(start, stop))

    def chosen(self, positions: Sequence[int]) -> "GroupReads":
        """Returns the reads at these positions."""
        return GroupReads(self._group.chosen(positions))

    @property
    def is_numbered(self) -> bool:
        """Whether they come from a group of numbers alone."""
        return not self._group.transient

    @property
    def numbered(self) -> list[NumberedReads] | None:
        """The reads by their numbers; None: some are transient."""
        numbers = high_halves(self._group.codes)
        if self._group.transient and max(numbers, default=0) >= TRANSIENT:
            return None
        return [NumberedReads(self._group.known, numbers)]

    @property
    def columns(self) -> ReadColumns:
        """The reads, key by key."""
        group = self._group
        keys, extents, transient = group.known.keys, group.known.extents, group.transient
        if not transient:
            return ReadColumns.of_whole(group.keys, array("Q", group.extents))
        starts, of_read, found = array("Q"), array("Q"), list[str]()
        for number in group.numbers:
            if number < TRANSIENT:
                found.append(keys[number])
                starts.append(0)
                of_read.append(extents[number])
            else:
                (_, key), (start, stop), size, *_ = transient[number - TRANSIENT]
                found.append(key)
                starts.append(start)
                of_read.append((stop - start) * 2 + (stop - start == size))
        return ReadColumns(found, starts, of_read)

"""Space accounting: how much of the capacity is used, and when reclaim starts. Numbers only, kept by the writer.

Used are the bytes of all segments and of the index's tables. Reclaim starts below the capacity, so that there is space
for admissions while a segment is scanned:

    0 ................................ reclaim starts ...... full
                                       capacity - 2 segments  capacity
"""

from typing import Final

MIB: Final = 1024 * 1024
SEGMENT_BYTES: Final = 64 * MIB
MIN_SEGMENT_BYTES: Final = 64 * 1024
MIN_SEGMENTS: Final = 8
HEADS_SHARE: Final = 16  # heads without blocks are deleted when heads use more than this fraction of the capacity


class SpaceAccounting:
    """The sizes of one directory."""

    def __init__(self, capacity: int, segments: dict[int, int], index_bytes: int) -> None:
        self.capacity = capacity
        self.index_bytes = index_bytes
        self._segments = segments
        self._segment_bytes = sum(segments.values())

    @property
    def used(self) -> int:
        """Bytes that count against the capacity."""
        return self._segment_bytes + self.index_bytes

    @property
    def segment_size(self) -> int:
        """Bytes of a new segment: so many that at least MIN_SEGMENTS fit, beside the index."""
        return max(MIN_SEGMENT_BYTES, min(SEGMENT_BYTES, self.capacity // (MIN_SEGMENTS + 1)))

    @property
    def is_reclaim_due(self) -> bool:
        """Whether a segment is to be reclaimed."""
        return self.used > self.capacity - 2 * self.segment_size

    @property
    def is_exceeded(self) -> bool:
        """Whether more is used than allowed: the capacity was lowered."""
        return self.used > self.capacity

    def has_space_for(self, size: int) -> bool:
        """Returns whether `size` bytes more fit."""
        return self.used + size <= self.capacity

    def segments(self) -> list[int]:
        """Returns the numbers of all segments, the oldest first."""
        return sorted(self._segments)

    def size_of(self, number: int) -> int:
        """Returns the bytes of a segment."""
        return self._segments.get(number, 0)

    def set_size(self, number: int, size: int) -> None:
        """Records the size of a segment, new or grown."""
        self._segment_bytes += size - self._segments.get(number, 0)
        self._segments[number] = size

    def remove(self, number: int) -> None:
        """Records that a segment was deleted."""
        self._segment_bytes -= self._segments.pop(number, 0)

    def replace(self, segments: dict[int, int]) -> None:
        """Replaces all sizes by those in the index: other processes add and delete segments, too."""
        self._segments = segments
        self._segment_bytes = sum(segments.values())

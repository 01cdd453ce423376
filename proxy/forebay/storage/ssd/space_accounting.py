"""How much of the capacity is used, and when segments must go. Numbers only; the writer's thread keeps them.

Used is the bytes of all segments and of the index's tables. Reclaim starts before it is the capacity, so that there
is room for what comes while a segment is walked:

    0 ................................ reclaim starts ...... full
                                       capacity - 2 segments  capacity
"""

from typing import Final

MIB: Final = 1024 * 1024
SEGMENT_BYTES: Final = 64 * MIB
MIN_SEGMENT_BYTES: Final = 64 * 1024
MIN_SEGMENTS: Final = 8
HEADS_SHARE: Final = 16  # heads without blocks go when heads use more than this fraction of the capacity


class SpaceAccounting:
    """The book of one directory."""

    def __init__(self, capacity: int, segments: dict[int, int], index_bytes: int) -> None:
        self.capacity = capacity
        self.index_bytes = index_bytes
        self._segments = segments
        self._segment_bytes = sum(segments.values())

    @property
    def used(self) -> int:
        return self._segment_bytes + self.index_bytes

    @property
    def segment_size(self) -> int:
        """How long a new segment may become: so that at least MIN_SEGMENTS fit, with room for the index."""
        return max(MIN_SEGMENT_BYTES, min(SEGMENT_BYTES, self.capacity // (MIN_SEGMENTS + 1)))

    @property
    def is_reclaim_due(self) -> bool:
        return self.used > self.capacity - 2 * self.segment_size

    @property
    def is_exceeded(self) -> bool:
        """Whether more is used than allowed: the capacity was lowered."""
        return self.used > self.capacity

    def has_space_for(self, size: int) -> bool:
        return self.used + size <= self.capacity

    def segments(self) -> list[int]:
        """The numbers of all segments, the oldest first."""
        return sorted(self._segments)

    def size_of(self, number: int) -> int:
        return self._segments.get(number, 0)

    def set_size(self, number: int, size: int) -> None:
        """A segment has come, or become `size` bytes long."""
        self._segment_bytes += size - self._segments.get(number, 0)
        self._segments[number] = size

    def remove(self, number: int) -> None:
        self._segment_bytes -= self._segments.pop(number, 0)

    def replace(self, segments: dict[int, int]) -> None:
        """What the index says now: other processes have come to, or taken from, what there is."""
        self._segments = segments
        self._segment_bytes = sum(segments.values())

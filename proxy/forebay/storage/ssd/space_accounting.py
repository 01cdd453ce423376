"""Space accounting: how much of the capacity is used, and when reclaim starts. Numbers only, kept by the writer.

Used are the bytes of all segments and of the index's tables. Reclaim starts below the capacity, so that there is space
for admissions while a segment is scanned:

    0 ................................ reclaim starts ...... full
                                       limit - 2 segments     limit

The limit is the capacity, or what the file system has room for if that is less: the writer measures it after each
batch. So a disk that is smaller than `ssd.size`, or that others fill, costs the oldest segments and no write fails.
"""

import sys
from dataclasses import dataclass
from typing import Final

MIB: Final = 1024 * 1024
SEGMENT_BYTES: Final = 64 * MIB
MIN_SEGMENT_BYTES: Final = 64 * 1024
MIN_SEGMENTS: Final = 8
BLOCK_SHARE: Final = 4  # a block that is larger than this fraction of the limit would displace most of the others
DISK_RESERVE: Final = 32  # this fraction of a file system's room, at most a large segment, is left for the index
HEADS_SHARE: Final = 16  # heads without blocks are deleted when heads use more than this fraction of the capacity


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """The space of a file system, in bytes."""

    free: int
    size: int


class SpaceAccounting:
    """The sizes of one directory."""

    def __init__(self, capacity: int, segments: dict[int, int], index_bytes: int) -> None:
        self.capacity = capacity
        """As configured."""
        self.disk = DiskSpace(sys.maxsize, sys.maxsize)
        """As last measured."""
        self.index_bytes = index_bytes
        self._disk_limit = sys.maxsize
        self._segments = segments
        self._segment_bytes = sum(segments.values())

    @property
    def used(self) -> int:
        """Bytes that count against the capacity."""
        return self._segment_bytes + self.index_bytes

    @property
    def limit(self) -> int:
        """Bytes that may be used."""
        return min(self.capacity, self._disk_limit)

    @property
    def largest_record(self) -> int:
        """Bytes of the largest record that is admitted. One that is larger than a segment has a segment of its own."""
        return self.limit // BLOCK_SHARE

    @property
    def segment_size(self) -> int:
        """Bytes of a new segment: so many that at least MIN_SEGMENTS fit, beside the index."""
        return max(MIN_SEGMENT_BYTES, min(SEGMENT_BYTES, self.limit // (MIN_SEGMENTS + 1)))

    @property
    def lasting_capacity(self) -> int:
        """Bytes that reclaim leaves alone."""
        return max(0, self.limit - 2 * self.segment_size)

    @property
    def is_reclaim_due(self) -> bool:
        """Whether a segment is to be reclaimed."""
        return self.used > self.lasting_capacity

    @property
    def is_exceeded(self) -> bool:
        """Whether more is used than allowed: the capacity was lowered, or others fill the file system."""
        return self.used > self.limit

    def has_space_for(self, size: int) -> bool:
        """Returns whether `size` bytes more fit."""
        return self.used + size <= self.limit

    def set_disk(self, disk: DiskSpace) -> None:
        """Records the space of the file system, which bounds what may be used."""
        room = self.used + disk.free
        self.disk = disk
        self._disk_limit = room - min(SEGMENT_BYTES, room // DISK_RESERVE)

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

"""Space accounting: how much of the capacity is used, and when reclaim starts. Numbers only, kept by the writer.

Used are the bytes of all segments and of the index's tables. Reclaim starts below the capacity, so that there is space
for admissions while a segment is scanned:

    0 ................................ reclaim starts ...... full
                                       limit - 2 segments     limit

The limit is the capacity, or what the file system has room for if that is less: the writer measures it after each
batch. So a disk that is smaller than `ssd.size`, or that others fill, costs the oldest segments and no write fails.
"""

import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from forebay.storage.ssd.segments.segment_label import LRU_BAND, PLAIN, LabelledSegment, SegmentLabel

MIB: Final = 1024 * 1024
SEGMENT_BYTES: Final = 64 * MIB
MIN_SEGMENT_BYTES: Final = 64 * 1024
FEW_SEGMENTS: Final = 8  # fit at least, however small the capacity
MANY_SEGMENTS: Final = 512  # are better: the space that is kept free for reclaim is that of a few
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

    def __init__(
        self,
        capacity: int,
        segments: dict[int, int],
        index_bytes: int,
        labels: Mapping[int, LabelledSegment] | None = None,
    ) -> None:
        self.capacity = capacity
        """The configured size in bytes."""
        self.segment_floor = MIB // 2
        """Bytes of a segment where MANY_SEGMENTS would be smaller: some blocks should fit in one."""
        self.disk = DiskSpace(sys.maxsize, sys.maxsize)
        """The latest measurement of the file system."""
        self.index_bytes = index_bytes
        self._disk_limit = sys.maxsize
        self._segments: dict[int, int] = {}
        self._segment_bytes = 0
        self._labels: dict[int, SegmentLabel] = {}
        self._dead: dict[int, int] = {}
        self.live: Counter[SegmentLabel] = Counter()
        """Bytes of the segments with a label, without those of their records that are known to be dead."""
        self.replace(segments, labels or {})

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
        """Bytes of the largest admitted record. A record that is larger than a segment has a segment of its own."""
        return self.limit // BLOCK_SHARE

    @property
    def segment_size(self) -> int:
        """Bytes of a new segment: so many that at least FEW_SEGMENTS fit, beside the index."""
        size = max(self.segment_floor, min(SEGMENT_BYTES, self.limit // MANY_SEGMENTS))
        return max(MIN_SEGMENT_BYTES, min(size, self.limit // (FEW_SEGMENTS + 1)))

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
        """Records the space of the file system, which bounds the tier."""
        room = self.used + disk.free
        self.disk = disk
        self._disk_limit = room - min(SEGMENT_BYTES, room // DISK_RESERVE)

    def segments(self) -> list[int]:
        """Returns the numbers of all segments, the oldest first."""
        return sorted(self._segments)

    def size_of(self, number: int) -> int:
        """Returns the bytes of a segment."""
        return self._segments.get(number, 0)

    def knows(self, number: int) -> bool:
        """Returns whether a segment is counted; a new one of another process may not be."""
        return number in self._segments

    def label_of(self, number: int) -> SegmentLabel:
        """Returns the label of a segment."""
        return self._labels.get(number, PLAIN)

    def dead_in(self, number: int) -> int:
        """Returns the bytes of a labelled segment that are known to be dead."""
        return self._dead.get(number, 0)

    def most_dead(self) -> int | None:
        """Returns the segment of a stable share with the largest part of dead bytes; None if none has any."""
        dead = [number for number in self._dead if self._dead[number] and self._labels[number].band < LRU_BAND]
        return max(dead, key=lambda number: self._dead[number] / max(1, self.size_of(number)), default=None)

    def labelled(self) -> dict[SegmentLabel, list[int]]:
        """Returns the numbers of the segments with each label but PLAIN, the oldest first."""
        found: dict[SegmentLabel, list[int]] = {}
        for number in sorted(self._labels):
            if number in self._segments:
                found.setdefault(self._labels[number], []).append(number)
        return found

    def add(self, number: int, label: SegmentLabel) -> None:
        """Records a new segment."""
        if label != PLAIN:
            self._labels[number] = label
        self.set_size(number, 0)

    def set_size(self, number: int, size: int) -> None:
        """Records the size of a segment that has grown."""
        more = size - self._segments.get(number, 0)
        self._segment_bytes += more
        self._segments[number] = size
        self.live[self.label_of(number)] += more

    def add_dead(self, number: int, size: int) -> None:
        """Records that `size` bytes of a segment are dead. Those of plain ones don't count: their age decides."""
        if (label := self._labels.get(number)) is not None:
            self._dead[number] = self._dead.get(number, 0) + size
            self.live[label] -= size

    def remove(self, number: int) -> None:
        """Records that a segment was deleted."""
        size = self._segments.pop(number, 0)
        self._segment_bytes -= size
        self.live[self.label_of(number)] -= size - self._dead.pop(number, 0)
        self._labels.pop(number, None)

    def replace(self, segments: dict[int, int], labels: Mapping[int, LabelledSegment]) -> None:
        """Replaces all sizes and labels by those in the index: other processes add and delete segments, too."""
        self._segments = segments
        self._segment_bytes = sum(segments.values())
        self._labels = {number: row.label for number, row in labels.items() if number in segments}
        self._dead = {number: labels[number].dead for number in self._labels}
        live: Counter[SegmentLabel] = Counter()
        for number, label in self._labels.items():
            live[label] += segments[number] - self._dead[number]
        live[PLAIN] = self._segment_bytes - sum(segments[number] for number in self._labels)
        self.live = live

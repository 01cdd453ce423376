"""Segment use: whether the blocks of some segments are read, from a sample of their reference bits.

A hit marks its block (reference_bits.py) and records no time. So the last read of a block is not known, only whether it
was read since its mark was cleared: a population that seems idle is checked twice, a while apart.
"""

from contextlib import suppress
from itertools import islice
from typing import Final

from forebay.storage.ssd.reference_bits import ReferenceBits
from forebay.storage.ssd.segments.segments import Segments, scan_segment

SAMPLED_RECORDS: Final = 256
"""Records that are sampled of each segment."""


class SegmentUse:
    """The use of the segments of one directory."""

    def __init__(self, segments: Segments, references: ReferenceBits) -> None:
        self._segments = segments
        self._references = references

    def was_read(self, numbers: list[int]) -> bool:
        """Returns whether one of the first blocks of these segments was read since the last check."""
        # All marks are looked at, so that all are cleared.
        return sum(map(self._marks, numbers)) > 0

    def _marks(self, number: int) -> int:
        with suppress(OSError):
            file = self._segments.open_reader(number)
            if file is not None:
                records = islice(scan_segment(file, number, file.size()), SAMPLED_RECORDS)
                return sum(self._references.test_and_clear(record.address) for record in records)
        return 0

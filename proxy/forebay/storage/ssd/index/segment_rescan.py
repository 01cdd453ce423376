"""The rescan: after a rebuild of the index, segments are searched for blocks whose rows were on damaged pages.

    newest segment ──> headers of its records ──> those of lost addresses, without a row ──> rows ──> the next older one

One bounded step at a time, on the thread of the writer that reclaims, while the tier serves. The plan is a row of the
index, with the segment that comes next, so that a rescan goes on after a restart. Only segments from before the rebuild
are searched. The newest record of a block counts, and one written since counts before all of them.

Only addresses on damaged pages are searched for. So a row that had been removed stays removed, unless it was on one of
these pages. Then it leads to a block of a version that was overwritten or purged, which no head names unless the origin
has that version again.
"""

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Final, NamedTuple, Self

from forebay.storage.ssd.index.index import Index
from forebay.storage.ssd.index.index_updates import IndexUpdates
from forebay.storage.ssd.segments.addressing import BLOCK_ADDRESS
from forebay.storage.ssd.segments.segments import ScannedRecord, Segments, scan_segment

RECORDS_AT_ONCE: Final = 256
MAX_RANGES: Final = 24
"""Ranges of addresses, at most; of more, all between the first and the last are searched for."""

_NEXT = struct.Struct(">I")
_RANGE = struct.Struct(f">{BLOCK_ADDRESS}s{BLOCK_ADDRESS}s")


class AddressRange(NamedTuple):
    """Block addresses from `lower` (inclusive) to `upper` (exclusive)."""

    lower: bytes
    upper: bytes


ALL_ADDRESSES: Final = AddressRange(b"", b"\xff" * BLOCK_ADDRESS)


class RescanPlan(NamedTuple):
    """The segments with a number below `end` are searched for addresses in `ranges`, which are in order."""

    end: int
    ranges: tuple[AddressRange, ...]

    @classmethod
    def of(cls, end: int, lost: Sequence[AddressRange]) -> Self:
        """Returns the plan of a search for lost addresses."""
        ranges = sorted(lost)
        if len(ranges) > MAX_RANGES or any(a.upper > b.lower for a, b in pairwise(ranges)):
            ranges = [AddressRange(ranges[0].lower, max(lost.upper for lost in ranges))]
        return cls(end, tuple(ranges))

    def encode(self) -> bytes:
        """Returns the row of the index: `end` and the ranges, in 4 + 56n bytes."""
        return _NEXT.pack(self.end) + b"".join(_RANGE.pack(*lost) for lost in self.ranges)

    @classmethod
    def decode(cls, raw: bytes) -> Self | None:
        """Decodes the row; None if it is damaged."""
        if len(raw) < _NEXT.size or (len(raw) - _NEXT.size) % _RANGE.size:
            return None
        ranges = tuple(AddressRange(*lost) for lost in _RANGE.iter_unpack(raw[_NEXT.size :]))
        return cls(_NEXT.unpack_from(raw)[0], ranges)

    def includes(self, address: bytes) -> bool:
        """Returns whether an address is searched for."""
        nth = bisect_right(self.ranges, address, key=lambda lost: lost.lower) - 1
        return nth >= 0 and address < self.ranges[nth].upper


class SegmentRescan:
    """The rescan of one directory. Does nothing if the index has no plan of one."""

    def __init__(self, index: Index, segments: Segments) -> None:
        self._index = index
        self._segments = segments
        self._is_done = False
        self._plan: RescanPlan | None = None
        self._number = 0
        self._records: Iterator[ScannedRecord] | None = None

    def step(self) -> bool:
        """Does one step. Returns False if there is nothing (more) to do. Raises OSError if a segment can't be read,
        which is then left out, or lmdb.Error."""
        if self._is_done:
            return False
        if self._plan is None:
            raw = self._index.rescan_plan()
            self._plan = RescanPlan.decode(raw) if raw is not None else None
            if self._plan is None:
                self._is_done = True
                return False
        if self._records is None:
            return self._begin(self._plan)
        found: list[ScannedRecord] = []
        try:
            found = list(islice(self._records, RECORDS_AT_ONCE))
        finally:
            self._commit(self._plan, found)
        return True

    def _begin(self, plan: RescanPlan) -> bool:
        """Opens the newest segment that is left; ends the rescan if there is none."""
        self._number = max((number for number in self._index.segments() if number < plan.end), default=-1)
        if self._number < 0:
            with self._index.write_transaction() as txn:
                IndexUpdates(txn, self._index.tables).put_rescan(None)
            self._is_done = True
            return False
        file = self._segments.open_reader(self._number)
        self._records = scan_segment(file, self._number, file.size()) if file is not None else iter(())
        return True

    def _commit(self, plan: RescanPlan, found: list[ScannedRecord]) -> None:
        with self._index.write_transaction() as txn:
            updates = IndexUpdates(txn, self._index.tables)
            for record in found:
                if plan.includes(record.address):
                    updates.restore_block(record.address, record.location)
            if len(found) < RECORDS_AT_ONCE:
                self._plan, self._records = plan._replace(end=self._number), None
                updates.put_rescan(self._plan.encode())

"""Finding blocks: from a BlockId to its bytes, or to where they lie, or to nothing.

    address ─> row of the index ─> segment file ─> record (record_reads.py), believed only if it is what was asked for

A block that is not what it should be is dropped from the index, with an event. Reads may come from any thread, checks
from the event loop only. Nothing here raises: a failure is a miss and an event.
"""

from collections.abc import Callable
from typing import Final, TypeVar

import lmdb

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span
from forebay.core.events import CorruptionFound, Observe, TierFailed
from forebay.core.names import BlockId
from forebay.storage.page_cache import PAGE_CACHE
from forebay.storage.ssd.index import DAMAGE, ROW, BlockLocation
from forebay.storage.ssd.record import SLICE, header_size
from forebay.storage.ssd.record_reads import BUSY, MISS, Busy, Corrupt, Miss, RecordRead, read_record
from forebay.storage.ssd.recovery import OpenDirectory
from forebay.storage.ssd.segments import SegmentFile
from forebay.storage.ssd.verified_blocks import Verification, VerifiedExtent, read_and_verify, verify_record
from forebay.storage.ssd.verified_extents import VerifiedExtents
from forebay.storage.ssd.write_queue import DropBlock, WriteQueue

MIN_VERIFIED_BYTES: Final = SLICE
"""Bytes from which on they may be sent from where they lie: what is shorter is not remembered as checked when it was
read."""
_T = TypeVar("_T")


class BlockReader:
    """Of one open directory."""

    def __init__(
        self, opened: OpenDirectory, backlog: WriteQueue, observe: Observe, clock: Callable[[], float]
    ) -> None:
        """`clock`: seconds since the epoch, as the kernel's."""
        self._index = opened.index
        self._segments = opened.segments
        self._touched = opened.references
        self._addressing = opened.addressing
        self._backlog = backlog
        self._observe = observe
        self._clock = clock
        self._lately = VerifiedExtents()
        self._checking = Verification(self._lately, clock, self._corrupt)
        self._scratch = bytearray(SLICE)

    def read(self, block: BlockId, length: int, within: Span, *, wait: bool) -> Buffer | Miss | Busy:
        """Bytes `within` a block of `length` bytes; Busy only without `wait`."""

        def read(file: SegmentFile, place: BlockLocation, address: bytes) -> RecordRead:
            if within.stop - within.start < MIN_VERIFIED_BYTES:
                return read_record(file, place, address, within, wait=wait)
            return read_and_verify(file, place, address, within, self._checking, wait=wait)

        return self._found(block, length, within, read)

    def verify(self, block: BlockId, length: int, within: Span, *, read: bool) -> VerifiedExtent | Miss | Busy:
        """Bytes `within` a block of `length` bytes, checked where they lie, without waiting; and without reading them,
        unless `read`: then what was not checked lately is Busy."""
        try:
            lying = self._lying(self._addressing.block_address(block), length, within)
        except (OSError, lmdb.Error):
            lying = None  # the longer way says it
        if lying is not None:
            return lying

        def check(file: SegmentFile, place: BlockLocation, address: bytes) -> VerifiedExtent | Busy | Corrupt:
            scratch = self._scratch if read else None
            return verify_record(file, place, address, within, self._checking, scratch)

        return self._found(block, length, within, check)

    def _lying(self, address: bytes, length: int, within: Span) -> VerifiedExtent | Busy | None:
        """Where the bytes lie if all of them were checked lately, else None. What `_found` and `check_record` find in
        this case, without the steps that lead nowhere: this is the way of most large hits."""
        start, stop = within
        if not 0 <= start < stop <= length:
            return None
        row = self._index.row(address)
        if row is None or len(row) != ROW.size:
            return None
        number, offset, size = ROW.unpack(row)
        file = self._segments.open_reader(number) if size == length else None
        if file is None:
            return None
        state = file.state()
        slices = self._lately.slices(address, row, state, self._clock())
        wanted = (1 << -(-stop // SLICE)) - (1 << start // SLICE)
        if slices & wanted != wanted:
            return None
        self._touched.mark(address)
        begin = offset + header_size(length) + start
        if not PAGE_CACHE.is_resident(file.fd, begin, stop - start):
            return BUSY
        return VerifiedExtent(file, begin, state, address, row, self._checking)

    def _found(
        self,
        block: BlockId,
        length: int,
        within: Span,
        read: Callable[[SegmentFile, BlockLocation, bytes], _T | Busy | Corrupt],
    ) -> _T | Busy | Miss:
        """What `read` makes of the block's record; Miss if there is none, or it is not what was asked for."""
        if not 0 <= within.start < within.stop <= length:
            return MISS
        address = self._addressing.block_address(block)
        try:
            place = self._index.location(address)
            file = self._segments.open_reader(place.segment) if place is not None else None
            if place is not None and file is None:
                # Reclaim may have carried the block over between the look into the index and the one into the file.
                place = self._index.location(address)
                file = self._segments.open_reader(place.segment) if place is not None else None
            if place is None:
                return MISS
            found: _T | Busy | Corrupt
            if file is None:
                found = Corrupt("no such segment")
            elif place.length != length:
                found = Corrupt("a block of another length")
            else:
                found = read(file, place, address)
        except (OSError, lmdb.Error) as error:
            self.report_failure("read", error)
            return MISS
        if isinstance(found, Corrupt):
            self._corrupt(address, place, found.reason)
            return MISS
        if not isinstance(found, Busy):
            self._touched.mark(address)
        return found

    def _corrupt(self, address: bytes, place: BlockLocation, reason: str) -> None:
        self._observe(CorruptionFound("ssd", reason))
        self._backlog.offer(DropBlock(address, place))

    def report_failure(self, operation: str, error: Exception) -> None:
        """Something could not be read. Damaged tables are not asked again, by any process."""
        self._observe(TierFailed("ssd", operation, str(error)))
        if isinstance(error, DAMAGE):
            self._touched.disown()

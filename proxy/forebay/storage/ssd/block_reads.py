"""Block look-ups: from a BlockId to its bytes, to a verified extent of a file, or to a miss.

    address ─> row of the index ─> segment file ─> record (record_reads.py, verified_extents.py)

A block that does not verify is dropped from the index, with an event. Reads may come from any thread, in-place
verifications from the event loop only. Nothing here raises: a failure is a miss and an event.
"""

from collections.abc import Callable
from typing import Final, TypeVar

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span
from forebay.core.events import CorruptionFound, Observe, TierFailed
from forebay.core.names import BlockId
from forebay.storage.page_cache import PAGE_CACHE
from forebay.storage.ssd.index.index import DAMAGE, INDEX_ERRORS
from forebay.storage.ssd.recovery import OpenDirectory
from forebay.storage.ssd.segments.block_location import ROW, BlockLocation
from forebay.storage.ssd.segments.record import SLICE, header_size
from forebay.storage.ssd.segments.record_reads import Corrupt, RecordRead, read_record
from forebay.storage.ssd.segments.segments import SegmentFile
from forebay.storage.ssd.segments.verified_extents import (
    Verification,
    VerifiedExtent,
    VerifiedExtents,
    read_and_verify,
    verify_record,
)
from forebay.storage.ssd.write_queue import DropBlock, WriteQueue
from forebay.storage.tier_contract import BUSY, MISS, Busy, Miss

MIN_VERIFIED_BYTES: Final = SLICE
"""A shorter read is not recorded as a verification: so few bytes are not sent from their file."""
_T = TypeVar("_T")


class BlockReader:
    """The look-ups in one open directory. `clock`: seconds since the epoch, as the kernel's."""

    def __init__(self, opened: OpenDirectory, queue: WriteQueue, observe: Observe, clock: Callable[[], float]) -> None:
        self._index = opened.index
        self._segments = opened.segments
        self._references = opened.references
        self._addressing = opened.addressing
        self._queue = queue
        self._observe = observe
        self._clock = clock
        self._verified = VerifiedExtents()
        self._verification = Verification(self._verified, clock, self._drop_corrupt)
        self._scratch = bytearray(SLICE)

    def read(self, block: BlockId, length: int, within: Span, *, wait: bool) -> Buffer | Miss | Busy:
        """Reads bytes `within` a block of `length` bytes. Busy only without `wait`."""

        def read(file: SegmentFile, location: BlockLocation, address: bytes) -> RecordRead:
            if within.stop - within.start < MIN_VERIFIED_BYTES:
                return read_record(file, location, address, within, wait=wait)
            return read_and_verify(file, location, address, within, self._verification, wait=wait)

        return self._lookup(block, length, within, read)

    def verify(self, block: BlockId, length: int, within: Span, *, read: bool) -> VerifiedExtent | Miss | Busy:
        """Verifies bytes `within` a block of `length` bytes in place, without waiting. Unless `read`, nothing is read,
        and bytes that were not verified recently are Busy."""
        try:
            recent = self._lookup_verified(self._addressing.block_address(block), length, within)
        except (OSError, *INDEX_ERRORS):
            recent = None  # the longer way reports it
        if recent is not None:
            return recent

        def verify(file: SegmentFile, location: BlockLocation, address: bytes) -> VerifiedExtent | Busy | Corrupt:
            scratch = self._scratch if read else None
            return verify_record(file, location, address, within, self._verification, scratch)

        return self._lookup(block, length, within, verify)

    def _lookup_verified(self, address: bytes, length: int, within: Span) -> VerifiedExtent | Busy | None:
        """Returns the extent if all of its slices were verified recently, else None. The same as `_lookup` with
        `verify_record` in that case, in fewer steps: this is the way of most large hits."""
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
        slices = self._verified.slices(address, row, state, self._clock())
        wanted = (1 << -(-stop // SLICE)) - (1 << start // SLICE)
        if slices & wanted != wanted:
            return None
        self._references.mark(address)
        begin = offset + header_size(length) + start
        if not PAGE_CACHE.is_resident(file.fd, begin, stop - start):
            return BUSY
        return VerifiedExtent(file, begin, state, address, row, self._verification)

    def _lookup(
        self,
        block: BlockId,
        length: int,
        within: Span,
        read: Callable[[SegmentFile, BlockLocation, bytes], _T | Busy | Corrupt],
    ) -> _T | Busy | Miss:
        """Returns the result of `read` for the block's record; Miss if there is none, or it does not verify."""
        if not 0 <= within.start < within.stop <= length:
            return MISS
        address = self._addressing.block_address(block)
        try:
            location = self._index.location(address)
            file = self._segments.open_reader(location.segment) if location is not None else None
            if location is not None and file is None:
                # Reclaim may have moved the block between the look into the index and the one into the file.
                location = self._index.location(address)
                file = self._segments.open_reader(location.segment) if location is not None else None
            if location is None:
                return MISS
            found: _T | Busy | Corrupt
            if file is None:
                found = Corrupt("no such segment")
            elif location.length != length:
                found = Corrupt("a block of another length")
            else:
                found = read(file, location, address)
        except (OSError, *INDEX_ERRORS) as error:
            self.report_failure("read", error)
            return MISS
        if isinstance(found, Corrupt):
            self._drop_corrupt(address, location, found.reason)
            return MISS
        if not isinstance(found, Busy):
            self._references.mark(address)
        return found

    def _drop_corrupt(self, address: bytes, location: BlockLocation, reason: str) -> None:
        self._observe(CorruptionFound("ssd", reason))
        self._queue.offer(DropBlock(address, location))

    def report_failure(self, operation: str, error: Exception) -> None:
        """Reports a failed read. After damage to the index, no process uses the directory until it is rebuilt."""
        self._observe(TierFailed("ssd", operation, str(error)))
        if isinstance(error, DAMAGE):
            self._references.suspect()

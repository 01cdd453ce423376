"""Bytes of a block that are sent from where they lie: checked before, and again for a client that takes its time.

    found ──> sent at once, the usual case
          └─> the client waits ──> unchanged, and in the page cache ──> goes on
                               └─> read again in a thread, and checked ──> goes on, or is broken off

A check stands as storage.ssd.verified_extents says. Who sends for longer than that, or finds that the file is no
longer what it
was, or that the page cache has lost some of it, knows nothing of these bytes until they were checked anew.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass

from forebay.core.byte_ranges import Span
from forebay.storage.page_cache import PAGE_CACHE
from forebay.storage.ssd.index import ROW, BlockLocation
from forebay.storage.ssd.record import SLICE, checksum, header_size, slices_of, verify_header
from forebay.storage.ssd.record_reads import BUSY, WOULD_BLOCK, Busy, Corrupt, RecordRead, read_record
from forebay.storage.ssd.segments import FileState, SegmentFile
from forebay.storage.ssd.verified_extents import VerifiedExtents, slice_bits


@dataclass(frozen=True, slots=True)
class Verification:
    """What all checks of an open directory have in common."""

    verified: VerifiedExtents
    clock: Callable[[], float]
    """Seconds since the epoch, as the kernel's."""
    corrupt: Callable[[bytes, BlockLocation, str], None]
    """Told of a block that is not what it should be: its address, where it lies, and why. From any thread."""


class VerifiedExtent:
    """See the module. A segment is never written to again, so these are what was asked for as long as nobody else
    changes the file."""

    __slots__ = ("_address", "_checking", "_row", "_state", "file", "offset")

    def __init__(
        self, file: SegmentFile, offset: int, state: FileState, address: bytes, row: bytes, checking: Verification
    ) -> None:
        """`offset`: where in the file the bytes begin that were asked for. `state`: of the file, before they were read.
        `row`: the block's in the index."""
        self.file, self.offset = file, offset
        self._state, self._address, self._row, self._checking = state, address, row, checking

    def is_unchanged(self) -> bool:
        """Whether the file is what it was when bytes of it were looked at last. OSError if the disk fails."""
        return self.file.state() == self._state

    def is_verified(self, start: int, stop: int) -> bool:
        """Whether bytes of the file, which are the block's, may be sent without being read, or waited for. OSError if
        the disk fails."""
        lately, clock = self._checking.verified, self._checking.clock
        wanted, state = slice_bits(slices_of(self._within(start, stop))), self.file.state()
        if wanted & ~lately.slices(self._address, self._row, state, clock()):
            return False
        self._state = state
        return PAGE_CACHE.is_resident(self.file.fd, start, stop - start)

    def verify_again(self, start: int, stop: int) -> bool:
        """Whether these bytes are what they should be, read from the disk if need be. A block that is not is dropped.
        OSError if the disk fails."""
        place, state = BlockLocation(*ROW.unpack(self._row)), self.file.state()
        found = read_and_verify(self.file, place, self._address, self._within(start, stop), self._checking, wait=True)
        if isinstance(found, Corrupt):
            self._checking.corrupt(self._address, place, found.reason)
            return False
        self._state = state
        return True

    def _within(self, start: int, stop: int) -> Span:
        """Of the file, as of the block."""
        _, offset, length = ROW.unpack(self._row)
        begin = offset + header_size(length)
        return Span(start - begin, stop - begin)


def read_and_verify(
    file: SegmentFile, place: BlockLocation, address: bytes, within: Span, checking: Verification, *, wait: bool
) -> RecordRead:
    """`read_record`, remembered as a check of the slices that the bytes touch."""
    began, state = checking.clock(), file.state()
    found = read_record(file, place, address, within, wait=wait)
    if isinstance(found, memoryview):
        checking.verified.add(address, place.encode(), state, slice_bits(slices_of(within)), began)
    return found


def verify_record(
    file: SegmentFile,
    place: BlockLocation,
    address: bytes,
    within: Span,
    checking: Verification,
    scratch: bytearray | None,
) -> VerifiedExtent | Busy | Corrupt:
    """`read_record` without waiting, for bytes that are sent from where they lie: each slice that they touch, and that
    was not checked lately, is read into `scratch` (SLICE bytes) and checked. That costs no memory, and the scratch
    stays in the processor's cache. Without a scratch nothing is read: Busy, if some of it would have to be."""
    touched, row, now = slices_of(within), place.encode(), checking.clock()
    wanted, state = slice_bits(touched), file.state()
    missing = wanted & ~checking.verified.slices(address, row, state, now)
    size = header_size(place.length)
    begin = place.offset + size + within.start
    found = VerifiedExtent(file, begin, state, address, row, checking)
    if not missing:
        return found if PAGE_CACHE.is_resident(file.fd, begin, within.stop - within.start) else BUSY
    if scratch is None:
        return BUSY
    if missing != wanted and not PAGE_CACHE.is_resident(file.fd, begin, within.stop - within.start):
        return BUSY
    header, view = bytearray(size), memoryview(scratch)
    try:
        if os.preadv(file.fd, [header], place.offset, os.RWF_NOWAIT) < size:
            return BUSY
        sums = verify_header(memoryview(header), address, place.length)
        if isinstance(sums, str):
            return Corrupt(sums)
        for number in touched:
            if not missing >> number & 1:
                continue
            start = number * SLICE
            part = view[: min(SLICE, place.length - start)]
            if os.preadv(file.fd, [part], place.offset + size + start, os.RWF_NOWAIT) < len(part):
                return BUSY
            if checksum(part) != sums[number]:
                return Corrupt("payload does not match its checksum")
    except OSError as error:
        if error.errno in WOULD_BLOCK:
            return BUSY
        raise
    checking.verified.add(address, row, state, missing, now)
    return found

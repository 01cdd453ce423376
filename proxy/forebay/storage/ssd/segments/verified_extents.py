"""Verified extents: slices of blocks that are sent from their file (sendfile), and not read again for a minute.

    block address ─> its row in the index, the verified slices, a bit each, the state of the file, since when

A verification is valid as long as all of this holds:

- it is the same block, by a row with the same location and length;
- the file is in the state it was in when the verification began: its ctime, size and inode are the same. The kernel
  sets the ctime at each change made through the file system, and nobody can set it at will. Its clock is coarse,
  so a change right after a verification could leave the ctime as it is: as git does with its index, a verification is
  recorded only if the last change was well before it (SETTLED_SECONDS);
- it is younger than VALID_SECONDS.

A segment that is appended to changes all the time: its slices are verified at each read until it is full. Not noticed
is a device that returns other bytes, and no error, for pages that left the page cache and were read again
within VALID_SECONDS: docs/decisions/0022-send-verified-extents-unread.md.

    found ──> sent at once, the usual case
          └─> the client is slow ──> file unchanged, and in the page cache ──> goes on
                                 └─> read again in a thread, and verified ──> goes on, or is aborted

Time is an argument: seconds since the epoch, as the kernel's timestamps. If that clock is set back, a verification is
valid for longer by as much, at most twice VALID_SECONDS. https://git-scm.com/docs/racy-git
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Final, TypeAlias

from forebay.core.byte_ranges import Span
from forebay.storage.page_cache import PAGE_CACHE
from forebay.storage.ssd.segments.block_location import ROW, BlockLocation
from forebay.storage.ssd.segments.record import SLICE, checksum, header_size, slices_of, verify_header
from forebay.storage.ssd.segments.record_reads import WOULD_BLOCK, Corrupt, RecordRead, read_record
from forebay.storage.ssd.segments.segments import FileState, SegmentFile
from forebay.storage.tier_contract import BUSY, Busy

VALID_SECONDS: Final = 60.0
"""Long enough that what is read often is hardly ever verified; short enough that bytes which a bad device has changed
are sent for a minute at most."""
SETTLED_SECONDS: Final = 2.0
"""Seconds since the last change of a file after which it counts as settled. The kernel's timestamps are up to 10 ms old
(a tick of 100 Hz), and ext4 with small inodes keeps whole seconds only."""
MAX_BLOCKS: Final = 32_768
"""Blocks in the table: some 400 bytes each, 13 MB in all."""

VerifiedSlices: TypeAlias = tuple[bytes, int, FileState, float]
"""The row, the slices, the state, and when the first of them was verified. A plain tuple, as each hit looks at it."""


class VerifiedExtents:
    """The table of one process. Safe to use from several threads."""

    def __init__(self, limit: int = MAX_BLOCKS) -> None:
        self._limit = limit
        self._by_address: dict[bytes, VerifiedSlices] = {}
        """The earliest verification is the first to be dropped."""
        self._lock = Lock()

    def __len__(self) -> int:
        """Returns the number of blocks."""
        return len(self._by_address)

    def slices(self, address: bytes, row: bytes, state: FileState, now: float) -> int:
        """Returns the slices of a block, with this row and file state, that need no verification now."""
        entry = self._by_address.get(address)
        if entry is None or entry[0] != row or entry[2] != state or not entry[3] <= now < entry[3] + VALID_SECONDS:
            return 0
        return entry[1]

    def add(self, address: bytes, row: bytes, state: FileState, slices: int, began: float) -> None:
        """Records that slices were verified. `state` of the file, and `began`, the time: both before they were read."""
        if state[0] > (began - SETTLED_SECONDS) * 1e9:
            return
        with self._lock:
            before = self._by_address.get(address)
            if before is not None and self.slices(address, row, state, began):
                self._by_address[address] = (row, before[1] | slices, before[2], before[3])
                return
            self._by_address.pop(address, None)
            self._by_address[address] = (row, slices, state, began)
            while len(self._by_address) > self._limit:
                del self._by_address[next(iter(self._by_address))]


def slice_bits(slices: range) -> int:
    """Returns a run of slices as one bit each."""
    return ((1 << len(slices)) - 1) << slices.start


@dataclass(frozen=True, slots=True)
class Verification:
    """The state that all verifications of an open directory share."""

    verified: VerifiedExtents
    clock: Callable[[], float]
    """Seconds since the epoch, as the kernel's."""
    on_corrupt: Callable[[bytes, BlockLocation, str], None]
    """Called with the address, location and reason of a damaged block. From any thread."""


class VerifiedExtent:
    """Bytes of a block in a segment, verified. Segments are never overwritten, so they stay so unless somebody else
    changes the file."""

    __slots__ = ("_address", "_row", "_state", "_verification", "file", "offset")

    def __init__(
        self, file: SegmentFile, offset: int, state: FileState, address: bytes, row: bytes, verification: Verification
    ) -> None:
        """`offset`: where the bytes begin in the file. `state` of the file, before they were read. `row`: the block's
        in the index."""
        self.file, self.offset = file, offset
        self._state, self._address, self._row, self._verification = state, address, row, verification

    def is_unchanged(self) -> bool:
        """Returns whether the file is as it was at the last check of its bytes. Raises OSError."""
        return self.file.state() == self._state

    def is_verified(self, start: int, stop: int) -> bool:
        """Returns whether bytes of the file, inside the block, may be sent without reading them or waiting for the
        disk. Raises OSError."""
        verified, clock = self._verification.verified, self._verification.clock
        wanted, state = slice_bits(slices_of(self._within(start, stop))), self.file.state()
        if wanted & ~verified.slices(self._address, self._row, state, clock()):
            return False
        self._state = state
        return PAGE_CACHE.is_resident(self.file.fd, start, stop - start)

    def verify_again(self, start: int, stop: int) -> bool:
        """Reads these bytes, from the disk if need be, and returns whether they verify. A block that does not is
        dropped. Raises OSError."""
        location, state = BlockLocation(*ROW.unpack(self._row)), self.file.state()
        within = self._within(start, stop)
        found = read_and_verify(self.file, location, self._address, within, self._verification, wait=True)
        if isinstance(found, Corrupt):
            self._verification.on_corrupt(self._address, location, found.reason)
            return False
        self._state = state
        return True

    def _within(self, start: int, stop: int) -> Span:
        """Translates a span of the file into one of the block."""
        _, offset, length = ROW.unpack(self._row)
        begin = offset + header_size(length)
        return Span(start - begin, stop - begin)


def read_and_verify(
    file: SegmentFile, location: BlockLocation, address: bytes, within: Span, verification: Verification, *, wait: bool
) -> RecordRead:
    """Does `read_record`, and records the slices that hold the bytes as verified."""
    began, state = verification.clock(), file.state()
    found = read_record(file, location, address, within, wait=wait)
    if isinstance(found, memoryview):
        verification.verified.add(address, location.encode(), state, slice_bits(slices_of(within)), began)
    return found


def verify_record(
    file: SegmentFile,
    location: BlockLocation,
    address: bytes,
    within: Span,
    verification: Verification,
    scratch: bytearray | None,
) -> VerifiedExtent | Busy | Corrupt:
    """Verifies the bytes `within` a block in place, without waiting.

    Each slice that was not verified recently is read into `scratch` (SLICE bytes), which costs no memory and stays in
    the processor's cache. Without a scratch nothing is read: Busy if a slice would have to be.
    """
    slices, row, now = slices_of(within), location.encode(), verification.clock()
    wanted, state = slice_bits(slices), file.state()
    missing = wanted & ~verification.verified.slices(address, row, state, now)
    size = header_size(location.length)
    begin = location.offset + size + within.start
    extent = VerifiedExtent(file, begin, state, address, row, verification)
    if not missing:
        return extent if PAGE_CACHE.is_resident(file.fd, begin, within.stop - within.start) else BUSY
    if scratch is None:
        return BUSY
    if missing != wanted and not PAGE_CACHE.is_resident(file.fd, begin, within.stop - within.start):
        return BUSY
    header, view = bytearray(size), memoryview(scratch)
    try:
        if os.preadv(file.fd, [header], location.offset, os.RWF_NOWAIT) < size:
            return BUSY
        sums = verify_header(memoryview(header), address, location.length)
        if isinstance(sums, str):
            return Corrupt(sums)
        for number in slices:
            if not missing >> number & 1:
                continue
            start = number * SLICE
            part = view[: min(SLICE, location.length - start)]
            if os.preadv(file.fd, [part], location.offset + size + start, os.RWF_NOWAIT) < len(part):
                return BUSY
            if checksum(part) != sums[number]:
                return Corrupt("payload does not match its checksum")
    except OSError as error:
        if error.errno in WOULD_BLOCK:
            return BUSY
        raise
    verification.verified.add(address, row, state, missing, now)
    return extent

"""Reading a block, or some of it, and believing it only if it is what was asked for.

    index row -> segment file -> header: who, how long -> the slices that are touched -> the bytes

Two ways: without waiting (RWF_NOWAIT: what the page cache holds, or nothing) on the event loop, and waiting for the
disk in a thread. What is sent from its file is not even read, if it was checked lately:
forebay.storage.ssd.verified_blocks.
https://man7.org/linux/man-pages/man2/preadv2.2.html
"""

import errno
import os
from typing import Final, TypeAlias

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span
from forebay.storage.page_cache import PAGE_CACHE
from forebay.storage.slab_allocator import allocate_buffer
from forebay.storage.ssd.index import BlockLocation
from forebay.storage.ssd.record import SLICE, header_size, slices_of, verify_header, verify_payload
from forebay.storage.ssd.segments import SegmentFile


class Miss:
    """The tier doesn't have the block."""

    __slots__ = ()


class Busy:
    """The tier has the block, but the disk must be waited for: `await read(...)`."""

    __slots__ = ()


class Corrupt:
    """There is something at the place, but not the block that was asked for."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


MISS: Final = Miss()
BUSY: Final = Busy()
RecordRead: TypeAlias = Buffer | Busy | Corrupt

WOULD_BLOCK: Final = frozenset({errno.EAGAIN, errno.EOPNOTSUPP, errno.EINVAL})
"""The page cache has not all of it, or the file system has no such flag: the read is left to a thread."""


def read_record(file: SegmentFile, place: BlockLocation, address: bytes, within: Span, *, wait: bool) -> RecordRead:
    """The bytes `within` the block of that address, whose record should lie at that place.

    `within` is not empty and inside the block. OSError if the disk fails. Busy only without `wait`.
    """
    touched = slices_of(within)
    begin, end = touched.start * SLICE, min(touched.stop * SLICE, place.length)
    header = bytearray(header_size(place.length))
    if (
        not wait
        and end - begin > SLICE
        and not PAGE_CACHE.is_resident(file.fd, place.offset + len(header) + begin, end - begin)
    ):
        return BUSY  # a thread reads all of it: what is there would be copied here for nothing
    payload = allocate_buffer(end - begin)
    flags = 0 if wait else os.RWF_NOWAIT
    try:
        if touched.start == 0:
            got = os.preadv(file.fd, [header, payload], place.offset, flags)
        else:
            got = os.preadv(file.fd, [header], place.offset, flags)
            if got == len(header):
                got += os.preadv(file.fd, [payload], place.offset + got + begin, flags)
    except OSError as error:
        if not wait and error.errno in WOULD_BLOCK:
            return BUSY
        raise
    if got < len(header) + len(payload):
        # Short: the end of the file, or of what the page cache holds. Only a read that waits can tell.
        return Corrupt("short record") if wait else BUSY
    sums = verify_header(memoryview(header), address, place.length)
    if isinstance(sums, str):
        return Corrupt(sums)
    if not verify_payload(sums, touched.start, payload):
        return Corrupt("payload does not match its checksum")
    return payload[within.start - begin : within.stop - begin].toreadonly()

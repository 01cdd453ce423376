"""Reads of records: the bytes of a block, or of some of its slices, verified.

    index row -> segment file -> header: address and length -> the slices that hold the bytes -> the bytes

Without waiting (RWF_NOWAIT: what the page cache has, or nothing) on the event loop; waiting for the disk in a thread.
Extents that are sent from the file are verified in place, or not even read if they were verified recently:
verified_extents.py. https://man7.org/linux/man-pages/man2/preadv2.2.html
"""

import errno
import os
from typing import Final, TypeAlias

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span
from forebay.storage.page_cache import PAGE_CACHE
from forebay.storage.slab_allocator import allocate_buffer
from forebay.storage.ssd.segments.block_location import BlockLocation
from forebay.storage.ssd.segments.record import SLICE, header_size, slices_of, verify_header, verify_payload
from forebay.storage.ssd.segments.segments import SegmentFile
from forebay.storage.tier_contract import BUSY, Busy


class Corrupt:
    """The bytes at the location are not the block that is looked up."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


RecordRead: TypeAlias = Buffer | Busy | Corrupt

WOULD_BLOCK: Final = frozenset({errno.EAGAIN, errno.EOPNOTSUPP, errno.EINVAL})
"""The page cache lacks some of it, or the file system does not know the flag: the read is left to a thread."""


def read_record(file: SegmentFile, location: BlockLocation, address: bytes, within: Span, *, wait: bool) -> RecordRead:
    """Reads and verifies the bytes `within` the block of that address, whose record should be at `location`.

    `within` is not empty and inside the block. Busy only without `wait`. Raises OSError if the disk fails.
    """
    slices = slices_of(within)
    begin, end = slices.start * SLICE, min(slices.stop * SLICE, location.length)
    header = bytearray(header_size(location.length))
    if (
        not wait
        and end - begin > SLICE
        and not PAGE_CACHE.is_resident(file.fd, location.offset + len(header) + begin, end - begin)
    ):
        return BUSY  # a thread reads all of it: what is cached would be copied here for nothing
    payload = allocate_buffer(end - begin)
    flags = 0 if wait else os.RWF_NOWAIT
    try:
        if slices.start == 0:
            got = os.preadv(file.fd, [header, payload], location.offset, flags)
        else:
            got = os.preadv(file.fd, [header], location.offset, flags)
            if got == len(header):
                got += os.preadv(file.fd, [payload], location.offset + got + begin, flags)
    except OSError as error:
        if not wait and error.errno in WOULD_BLOCK:
            return BUSY
        raise
    if got < len(header) + len(payload):
        # Short: the end of the file, or of what the page cache has. Only a read that waits can tell.
        return Corrupt("short record") if wait else BUSY
    sums = verify_header(memoryview(header), address, location.length)
    if isinstance(sums, str):
        return Corrupt(sums)
    if not verify_payload(sums, slices.start, payload):
        return Corrupt("payload does not match its checksum")
    return payload[within.start - begin : within.stop - begin].toreadonly()

"""Reading a block, or some of it, and believing it only if it is what was asked for.

    index row -> segment file -> header: who, how long -> the slices that are touched -> the bytes

Two ways: without waiting (RWF_NOWAIT: what the page cache holds, or nothing) on the event loop, and waiting for the
disk in a thread. Slices that were checked lately are not even read again where they are sent from their file.
https://man7.org/linux/man-pages/man2/preadv2.2.html
"""

import errno
import os
from typing import Final, NamedTuple, TypeAlias

from forebay.stores.blockmemory import room
from forebay.stores.contract import Buffer
from forebay.stores.pagecache import PAGE_CACHE
from forebay.stores.ssd.index import Place
from forebay.stores.ssd.lately import Lately, bits
from forebay.stores.ssd.record import SLICE, checked_sums, checksum, header_size, intact, slices_touching
from forebay.stores.ssd.segments import SegmentFile
from forebay.words.ranges import Span


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


class Checked(NamedTuple):
    """Bytes of a block that are what was asked for, and where they lie. A segment is never written to again."""

    file: SegmentFile
    offset: int


MISS: Final = Miss()
BUSY: Final = Busy()
Reading: TypeAlias = Buffer | Busy | Corrupt

# A file system that has no such flag: the read is left to a thread.
_NOT_NOW: Final = frozenset({errno.EAGAIN, errno.EOPNOTSUPP, errno.EINVAL})


def read_record(file: SegmentFile, place: Place, address: bytes, within: Span, *, wait: bool) -> Reading:
    """The bytes `within` the block of that address, whose record should lie at that place.

    `within` is not empty and inside the block. OSError if the disk fails. Busy only without `wait`.
    """
    touched = slices_touching(within)
    begin, end = touched.start * SLICE, min(touched.stop * SLICE, place.length)
    header = bytearray(header_size(place.length))
    if (
        not wait
        and end - begin > SLICE
        and not PAGE_CACHE.has(file.fd, place.offset + len(header) + begin, end - begin)
    ):
        return BUSY  # a thread reads all of it: what is there would be copied here for nothing
    payload = room(end - begin)
    flags = 0 if wait else os.RWF_NOWAIT
    try:
        if touched.start == 0:
            got = os.preadv(file.fd, [header, payload], place.offset, flags)
        else:
            got = os.preadv(file.fd, [header], place.offset, flags)
            if got == len(header):
                got += os.preadv(file.fd, [payload], place.offset + got + begin, flags)
    except OSError as error:
        if not wait and error.errno in _NOT_NOW:
            return BUSY
        raise
    if got < len(header) + len(payload):
        # Short: the end of the file, or of what the page cache holds. Only a read that waits can tell.
        return Corrupt("short record") if wait else BUSY
    sums = checked_sums(memoryview(header), address, place.length)
    if isinstance(sums, str):
        return Corrupt(sums)
    if not intact(sums, touched.start, payload):
        return Corrupt("payload does not match its checksum")
    return payload[within.start - begin : within.stop - begin].toreadonly()


def check_record(
    file: SegmentFile,
    place: Place,
    address: bytes,
    within: Span,
    lately: Lately,
    now: float,
    scratch: bytearray | None,
) -> Checked | Busy | Corrupt:
    """The same without waiting, for bytes that are sent from where they lie: each slice that they touch, and that was
    not checked lately, is read into `scratch` (SLICE bytes) and checked. That costs no memory, and the scratch stays in
    the processor's cache. Without a scratch nothing is read: Busy, if some of it would have to be."""
    touched = slices_touching(within)
    wanted, state = bits(touched), file.state()
    missing = wanted & ~lately.slices(address, place.encode(), state, now)
    size = header_size(place.length)
    begin = place.offset + size + within.start
    if not missing:
        return Checked(file, begin) if PAGE_CACHE.has(file.fd, begin, within.stop - within.start) else BUSY
    if scratch is None:
        return BUSY
    if missing != wanted and not PAGE_CACHE.has(file.fd, begin, within.stop - within.start):
        return BUSY
    header, view = bytearray(size), memoryview(scratch)
    try:
        if os.preadv(file.fd, [header], place.offset, os.RWF_NOWAIT) < size:
            return BUSY
        sums = checked_sums(memoryview(header), address, place.length)
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
        if error.errno in _NOT_NOW:
            return BUSY
        raise
    lately.checked(address, place.encode(), state, missing, now)
    return Checked(file, begin)

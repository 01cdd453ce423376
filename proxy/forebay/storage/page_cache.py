"""The page cache: whether the kernel has bytes of a file in memory. Checked before sendfile, which would wait for the
disk.

The answer is no promise: pages may be evicted at any moment. A caller that must not wait checks right before, and then
waits rarely.

cachestat counts the pages of a range, but also those that are still on their way from the disk, where the kernel reads
ahead in requests of 128 KiB and more, which may complete out of order. So a byte in each 128 KiB is read too, and the
last one: that says whether its page has arrived. For a short extent, and where there is no cachestat (before Linux 6.5,
or a sandbox refuses it), a byte in every 64 KiB is read instead.

https://man7.org/linux/man-pages/man2/preadv2.2.html, https://docs.kernel.org/admin-guide/mm/cachestat.html (the call's
number is the same on every architecture that Python runs on but alpha)
"""

import ctypes
import mmap
import os
from collections.abc import Iterable
from typing import Final

_CACHESTAT: Final = 451
_STEP: Final = 64 << 10
_READAHEAD: Final = 128 << 10


class _CachestatRange(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))


class _Cachestat(ctypes.Structure):
    """Pages."""

    _fields_ = tuple(
        (name, ctypes.c_uint64) for name in ("cached", "dirty", "writeback", "evicted", "recently_evicted")
    )


class PageCache:
    """The state of the page cache, for one thread. `has_cachestat`: whether the kernel is asked to count pages, one
    call for each range; cleared when it refuses."""

    def __init__(self, *, has_cachestat: bool = True) -> None:
        self._has_cachestat = has_cachestat
        self._range, self._stat = _CachestatRange(), _Cachestat()
        self._arguments = ctypes.byref(self._range), ctypes.byref(self._stat), ctypes.c_uint(0)
        # With the interpreter's lock held: it does not wait, and nobody else may use the structures meanwhile.
        self._syscall = ctypes.PyDLL(None).syscall
        self._byte = (bytearray(1),)

    def is_resident(self, fd: int, offset: int, length: int) -> bool:
        """Returns whether these bytes of a file are in the page cache. `length` is at least 1."""
        last = offset + length - 1
        if length <= _STEP:
            return self._can_read(fd, (offset,), last)
        if self._has_cachestat:
            extent = self._range
            extent.offset, extent.length = offset, length
            if self._syscall(_CACHESTAT, fd, *self._arguments) == 0:
                pages = last // mmap.PAGESIZE - offset // mmap.PAGESIZE + 1
                return int(self._stat.cached) >= pages and self._can_read(fd, range(offset, last, _READAHEAD), last)
            self._has_cachestat = False
        return self._can_read(fd, range(offset, last, _STEP), last)

    def _can_read(self, fd: int, offsets: Iterable[int], last: int) -> bool:
        """Returns whether the bytes at these offsets can be read without waiting; `last` first, as that is the one most
        often missing."""
        byte = self._byte
        try:
            if os.preadv(fd, byte, last, os.RWF_NOWAIT) != 1:
                return False
            for offset in offsets:
                if os.preadv(fd, byte, offset, os.RWF_NOWAIT) != 1:
                    return False
        except OSError:
            return False
        return True


PAGE_CACHE: Final = PageCache()
"""The one of the process."""

"""Whether the page cache has some of a file: asked before the kernel is told to send it, which would wait for the disk.

Not a promise: what is there now may leave at any moment. Who must not wait asks right before, and then waits rarely.

cachestat counts the pages of a range, but also those that are still on their way from the disk, where the kernel reads
ahead in requests of 128 KiB and more, which may come out of order. So a byte in each 128 KiB is read too, and the last
one: that says whether its page has come. For a short stretch, and where there is no cachestat (before Linux 6.5, or a
sandbox refuses it), a byte in every 64 KiB is read instead.

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
_REQUEST: Final = 128 << 10
_NOW: Final = os.RWF_NOWAIT


class _Range(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))


class _Counts(ctypes.Structure):
    """Pages."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in ("cached", "dirty", "written_back", "evicted", "lately"))


class PageCache:
    """What the kernel says, for one thread. `counts`: whether to have pages counted, one call for each range."""

    def __init__(self, *, counts: bool = True) -> None:
        self._counts = counts
        self._asked, self._told = _Range(), _Counts()
        self._arguments = ctypes.byref(self._asked), ctypes.byref(self._told), ctypes.c_uint(0)
        # Holding the interpreter's lock: it does not wait, and nobody else may use the structures meanwhile.
        self._call = ctypes.PyDLL(None).syscall
        self._bytes = (bytearray(1),)

    def is_resident(self, fd: int, offset: int, length: int) -> bool:
        """Whether it has these bytes of a file, of which there is at least one."""
        last = offset + length - 1
        if length <= _STEP:
            return self._reads(fd, (offset,), last)
        if self._counts:
            asked = self._asked
            asked.offset, asked.length = offset, length
            if self._call(_CACHESTAT, fd, *self._arguments) == 0:
                pages = last // mmap.PAGESIZE - offset // mmap.PAGESIZE + 1
                return int(self._told.cached) >= pages and self._reads(fd, range(offset, last, _REQUEST), last)
            self._counts = False
        return self._reads(fd, range(offset, last, _STEP), last)

    def _reads(self, fd: int, offsets: Iterable[int], last: int) -> bool:
        """Whether a byte at each of these can be read; at the last one first, as it is what is most often missing."""
        byte = self._bytes
        try:
            if os.preadv(fd, byte, last, _NOW) != 1:
                return False
            for offset in offsets:
                if os.preadv(fd, byte, offset, _NOW) != 1:
                    return False
        except OSError:
            return False
        return True


PAGE_CACHE: Final = PageCache()
"""The process's."""

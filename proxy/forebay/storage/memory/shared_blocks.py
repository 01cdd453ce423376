"""Blocks in memory that the kernel can send by itself.

A block of the memory tier is a buffer of the process, and sending it copies it. One that lies in a file that exists in
memory alone (memfd_create) can be sent as files are: its pages are handed to the socket, none is copied. So what is
asked for often is moved there: the same bytes, in a mapping of such a file, which is a buffer like any other.

    common   [b7  |b2 |b9     |b4 ┊  ]     a huge page (2 MiB) that blocks share; the last may run over, in small pages
    single   [b5    ]                      of one block

The kernel looks up and locks each page by itself when it hands pages over, and a huge one once. It is asked for before
anything is written; where it can't be had (Linux before 6.1, no memory in one piece, a sandbox), pages are small.

Invariants:
- a place is written once, before anybody sees it, and never again, nor given back: a socket may hold its pages after
  the last view of it has gone. Memory comes back whole, by closing the file;
- a file is closed when the last who uses a block of it lets go, in whatever thread. Its pages live until the last
  socket that was handed them has sent them: bytes are never changed under a client.

When a common file is opened and given up is for storage.memory.arenas to say; this module doesn't count.

https://man7.org/linux/man-pages/man2/memfd_create.2.html, https://man7.org/linux/man-pages/man2/madvise.2.html
"""

import ctypes
import mmap
import os
from collections import deque
from functools import cache
from typing import Any, Final, cast

from forebay.core.buffers import Buffer
from forebay.core.names import BlockId
from forebay.storage.slab_allocator import allocate_buffer, slot_length

MIN_SHARED_BYTES: Final = 128 << 10
"""Bytes of an answer from which on it pays: below, handing over pages costs what copying them costs."""
HUGE: Final = 2 << 20
"""Bytes of a huge page. Where it is of another length (ARM with large pages), the kernel refuses."""
_MADV_COLLAPSE: Final = 25
"""<asm-generic/mman-common.h>; Python's mmap does not name it."""
_NOWHERE: Final = ctypes.c_void_p(-1).value
_MAP_FIXED: Final = 0x10

# Other threads run meanwhile, which they do not during calls of Python's own mmap.
_LIBC: Final = ctypes.CDLL(None)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_LIBC.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class SharedBlock:
    """The bytes of a block, which a memoryview's `obj` tells apart from others: `fd` is the file."""

    __slots__ = ()
    arena: "Arena"
    fd: int
    offset: int
    """Where in the file it begins, with a page."""


class Arena:
    """A file. `room`: bytes that blocks may take; `huge`: bytes from its beginning that are to be huge pages; `ended`
    is told when it is closed: of what it counted for, and whether it was leaving."""

    def __init__(self, room: int, huge: int, ended: "deque[tuple[int, bool]]") -> None:
        self._room, self._huge, self._ended = room, huge, ended
        self.fd = -1
        self._mapping: tuple[int, int] | None = None
        """Address and length of what was reserved; the file is mapped within."""
        self._address = 0
        # What follows is the book-keeping of storage.memory.arenas.
        self.end = self.counted = 0
        self.has_waste = self.is_retiring = False
        self.blocks: set[BlockId] = set()

    def write(self, offset: int, buffer: Buffer) -> Buffer | None:
        """The same bytes in the file, at `offset`, a place that is nobody else's; None if that can't be. Copies, so not
        for the event loop; never twice at the same time."""
        try:
            if self.fd < 0:
                self._open()
            at, left = offset, buffer
            while left:
                done = os.pwrite(self.fd, left, at)
                at, left = at + done, left[done:]
        except OSError:
            return None
        block = _kind(slot_length(max(len(buffer), mmap.PAGESIZE))).from_address(self._address + offset)
        block.arena, block.fd, block.offset = self, self.fd, offset
        return memoryview(block).cast("B")[: len(buffer)].toreadonly()

    def _open(self) -> None:
        """Raises OSError."""
        fd = os.memfd_create("forebay-blocks", os.MFD_CLOEXEC)
        length = self._room + HUGE if self._huge else self._room
        start = _LIBC.mmap(None, length, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        if start == _NOWHERE:
            os.close(fd)
            raise OSError("no address space")
        self.fd, self._mapping = fd, (start, length)
        # Only where address and offset are both of whole huge pages can there be one.
        self._address = -(-start // HUGE) * HUGE if self._huge else start
        flags = mmap.MAP_SHARED | _MAP_FIXED
        if _LIBC.mmap(self._address, self._room, mmap.PROT_READ, flags, fd, 0) == _NOWHERE:
            self._close()
            raise OSError("can't be mapped")
        for page in range(0, self._huge, HUGE):
            os.pwrite(fd, b"\0", page + HUGE - 1)  # the kernel makes none of nothing
            _LIBC.madvise(self._address + page, HUGE, _MADV_COLLAPSE)

    def _close(self) -> None:
        if self._mapping is not None:
            _LIBC.munmap(*self._mapping)
            os.close(self.fd)
            self.fd, self._mapping = -1, None

    def __del__(self) -> None:
        self._close()
        self._ended.append((self.counted, self.is_retiring))


def copy_out(buffer: Buffer) -> Buffer:
    """The bytes of a shared block in a buffer of their own. Not for the event loop, either. Raises OSError."""
    block, copy = cast("SharedBlock", buffer.obj), allocate_buffer(len(buffer))
    if os.preadv(block.fd, (copy,), block.offset) != len(copy):
        raise OSError("the file is shorter than it was")
    return copy.toreadonly()


@cache
def _kind(size: int) -> Any:
    """A ctypes array of this length: the one thing in the standard library that shows some of a mapping as a buffer,
    and keeps something else alive."""
    return type("SharedBlock", (SharedBlock, ctypes.c_char * size), {"__slots__": ("arena", "fd", "offset")})

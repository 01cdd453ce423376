"""Blocks in memory that the kernel can send by itself.

A block of the memory tier is a buffer of the process, and sending it copies it. A block in a file that exists in
memory alone (memfd_create) is sent as files are: its pages are handed to the socket, none is copied. Blocks that are
read often are therefore kept in a mapping of such a file (an arena), which is a buffer like any other.

    common   [b7  |b2 |b9     |b4 ┊  ]     a huge page (2 MiB) that blocks share; the last may run over, in small pages
    single   [b5    ]                      of one block

The kernel looks up and locks each page when it hands pages over, and a huge page once. It is requested before anything
is written; where there is none (Linux before 6.1, no contiguous memory, a sandbox), pages are small.

Invariants:
- an extent is written once, before anybody reads it, and never reused: a socket may hold its pages after the last view
  of it is gone. Memory is returned whole, by closing the file;
- a file is closed when the last user of one of its blocks drops it, in whatever thread. Its pages live until the last
  socket has sent them, so bytes never change under a client.

storage.memory.arenas decides when a file is opened and given up; this module does not count.

https://man7.org/linux/man-pages/man2/memfd_create.2.html, https://man7.org/linux/man-pages/man2/madvise.2.html
"""

import ctypes
import mmap
import os
from collections import deque
from functools import cache
from typing import Any, Final, TypeAlias, cast

from forebay.core.buffers import Buffer
from forebay.core.names import BlockId
from forebay.storage.slab_allocator import allocate_buffer, slot_length

MIN_SHARED_BYTES: Final = 128 << 10
"""The least bytes of a response for which sharing pages is faster than copying them."""
HUGE: Final = 2 << 20
"""Bytes of a huge page. Where it is of another length (ARM with large pages), the kernel refuses."""
_MADV_COLLAPSE: Final = 25
"""<asm-generic/mman-common.h>; Python's mmap does not name it."""
_MAP_FAILED: Final = ctypes.c_void_p(-1).value
_MAP_FIXED: Final = 0x10

# Other threads run meanwhile, which they do not during calls of Python's own mmap.
_LIBC: Final = ctypes.CDLL(None)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_LIBC.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class SharedBlock:
    """A block in an arena: the `obj` of its memoryview, which tells it apart from plain buffers."""

    __slots__ = ()
    arena: "Arena"
    fd: int
    """The arena's file."""
    offset: int
    """The offset of the block in the file, a multiple of the page size."""


SharedExtent: TypeAlias = tuple[SharedBlock, int, int, None]
"""Bytes of a block: their start and end in the arena's file. A file extent, as senders have it."""


class Arena:
    """A memory file with up to `capacity` bytes of blocks, of which the first `huge` bytes are to be huge pages.

    When it is closed, `closed` receives what it counted for and whether it was retiring.
    """

    def __init__(self, capacity: int, huge: int, closed: "deque[tuple[int, bool]]") -> None:
        self.capacity, self._huge, self._closed = capacity, huge, closed
        self.fd = -1
        self._mapping: tuple[int, int] | None = None
        """Address and length of the reserved range; the file is mapped inside it."""
        self._address = 0
        # The following is the book-keeping of storage.memory.arenas.
        self.end = self.counted = 0
        self.copying = 0
        """Extents that were allocated and are still being written."""
        self.has_waste = self.is_retiring = False
        self.blocks: set[BlockId] = set()

    @property
    def is_full(self) -> bool:
        """Whether nothing more will be written to the file."""
        return self.end >= min(HUGE, self.capacity) and not self.copying

    def write(self, offset: int, buffer: Buffer) -> Buffer | None:
        """Copies a buffer to an extent of the file and returns that; None if it can't be written.

        Not for the event loop; never twice at the same time.
        """
        try:
            if self.fd < 0:
                self._open()
            position, left = offset, buffer
            while left:
                written = os.pwrite(self.fd, left, position)
                position, left = position + written, left[written:]
        except OSError:
            return None
        block = _block_type(slot_length(max(len(buffer), mmap.PAGESIZE))).from_address(self._address + offset)
        block.arena, block.fd, block.offset = self, self.fd, offset
        return memoryview(block).cast("B")[: len(buffer)].toreadonly()

    def _open(self) -> None:
        """Creates and maps the file. Raises OSError."""
        fd = os.memfd_create("forebay-blocks", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        length = self.capacity + HUGE if self._huge else self.capacity
        start = _LIBC.mmap(None, length, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        if start == _MAP_FAILED:
            os.close(fd)
            raise OSError("no address space")
        self.fd, self._mapping = fd, (start, length)
        # A huge page needs an address and an offset that are both multiples of its size.
        self._address = -(-start // HUGE) * HUGE if self._huge else start
        flags = mmap.MAP_SHARED | _MAP_FIXED
        if _LIBC.mmap(self._address, self.capacity, mmap.PROT_READ, flags, fd, 0) == _MAP_FAILED:
            self._close()
            raise OSError("can't be mapped")
        for page in range(0, self._huge, HUGE):
            os.pwrite(fd, b"\0", page + HUGE - 1)  # the kernel collapses only what exists
            _LIBC.madvise(self._address + page, HUGE, _MADV_COLLAPSE)

    def _close(self) -> None:
        if self._mapping is not None:
            _LIBC.munmap(*self._mapping)
            os.close(self.fd)
            self.fd, self._mapping = -1, None

    def __del__(self) -> None:
        self._close()
        self._closed.append((self.counted, self.is_retiring))


def copy_out(buffer: Buffer) -> Buffer:
    """Copies a shared block to a buffer of its own. Not for the event loop. Raises OSError."""
    block, copy = cast("SharedBlock", buffer.obj), allocate_buffer(len(buffer))
    if os.preadv(block.fd, (copy,), block.offset) != len(copy):
        raise OSError("the file is shorter than it was")
    return copy.toreadonly()


@cache
def _block_type(size: int) -> Any:
    """Returns a ctypes array of this length: the one type in the standard library that shows part of a mapping as a
    buffer and keeps something else alive."""
    return type("SharedBlock", (SharedBlock, ctypes.c_char * size), {"__slots__": ("arena", "fd", "offset")})

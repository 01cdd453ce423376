"""Memory files of Forebay as they are mapped here, and views of them that keep the mapping alive.

    descriptor ──> sealed against shrinking and growth? ──> mapped, for reading ──> views ──> unmapped with the last one

A view is a memoryview of a ctypes array: the one type of the standard library that shows part of a mapping as a buffer
and keeps something else alive. Slices, casts and what numpy or torch make of it keep the array alive; when the last is
gone, so is the array, and its `released` is called. The size of a sealed file is fixed, so no access can raise SIGBUS.

Not for Windows, which has neither.
"""

import ctypes
import fcntl
import mmap
import os
from collections import deque
from functools import cache, lru_cache
from typing import Any, Final, Self, cast

_FIXED_SIZE: Final = 0x2 | 0x4
"""F_SEAL_SHRINK and F_SEAL_GROW of <linux/fcntl.h>."""
_GET_SEALS: Final = 1034
"""F_GET_SEALS; Python has the name on Linux only."""
_MAP_FIXED: Final = 0x10
_NORESERVE: Final = 0x4000
_MREMAP_MAYMOVE: Final = 1
_MREMAP_FIXED: Final = 2
_MAP_FAILED: Final = ctypes.c_void_p(-1).value
HUGE: Final = 2 << 20
"""Bytes of a huge page: what is mapped at a multiple of it, as in the file, is looked up once."""


class MappingError(Exception):
    """A file can't be mapped: it may change its size, or there is no memory."""


class MappedMemory:
    """One memory file, or pieces of several side by side. Unmapped when neither it nor a view of it is left."""

    __slots__ = ("__weakref__", "_pages", "_whole", "address", "size")

    def __init__(self, size: int, shift: int = 0) -> None:
        """Address space for `size` bytes, with nothing in it; `shift`: of the address beyond a multiple of HUGE.
        Raises MappingError."""
        self.size = size
        length = _pages(size) + HUGE + shift
        start = _libc().mmap(None, length, mmap.PROT_READ, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE, -1, 0)
        if start == _MAP_FAILED:
            raise MappingError("no address space")
        self.address = -(-start // HUGE) * HUGE + shift
        self._pages = _mapping_type(_pages(size)).from_address(self.address)
        self._pages.start, self._pages.length = start, length
        self._whole = memoryview(self._pages).cast("B").toreadonly()

    @classmethod
    def of_file(cls, fd: int) -> Self:
        """All of a memory file, whose descriptor may be closed. Raises MappingError."""
        size = sealed_size(fd)
        mapped = cls(size)
        if _libc().mmap(mapped.address, size, mmap.PROT_READ, mmap.MAP_SHARED | _MAP_FIXED, fd, 0) == _MAP_FAILED:
            raise MappingError("can't be mapped")
        return mapped

    @classmethod
    def of_pieces(cls, pieces: list[tuple["MappedMemory", int, int]]) -> Self:
        """Pieces of mapped files, one after the other: each with its position and its length, multiples of the page but
        for the last length. Raises MappingError."""
        mapped = cls(sum(length for _, _, length in pieces), pieces[0][1] % HUGE)
        at = mapped.address
        for memory, position, length in pieces:
            # Of a shared mapping, a length of 0 means: another mapping of the same pages (mremap(2), NOTES).
            new = _libc().mremap(memory.address + position, 0, _pages(length), _MREMAP_MAYMOVE | _MREMAP_FIXED, at)
            if new == _MAP_FAILED:
                raise MappingError("can't be mapped")
            at += length
        return mapped

    def view(self, position: int, length: int) -> memoryview:
        """The bytes, read-only."""
        return self._whole[position : position + length]

    def slot(self, position: int, length: int, released: "deque[int]", number: int) -> memoryview:
        """The bytes, read-only. `released` gets `number` when the last use of the view is gone, in any thread."""
        slot = _slot_type(-(-length // mmap.PAGESIZE)).from_address(self.address + position)
        slot.pages, slot.released, slot.number = self._pages, released, number
        return memoryview(slot).cast("B")[:length].toreadonly()


class _Mapping:
    """All pages of a mapping, the `obj` of its views; unmapped when it is garbage."""

    __slots__ = ()
    start: int
    length: int

    def __del__(self) -> None:
        _libc().munmap(self.start, self.length)


class _Slot:
    """Some pages of a mapping, the `obj` of a view."""

    __slots__ = ()
    pages: _Mapping
    released: "deque[int]"
    number: int

    def __del__(self) -> None:
        self.released.append(self.number)


def sealed_size(fd: int) -> int:
    """Bytes of a memory file whose size is fixed. Raises MappingError for any other file."""
    try:
        seals = fcntl.fcntl(fd, _GET_SEALS)
        size = os.fstat(fd).st_size
    except OSError as error:
        raise MappingError(f"no memory file: {error.strerror}") from error
    if seals & _FIXED_SIZE != _FIXED_SIZE:
        raise MappingError("a memory file that can change its size")
    return size


def _pages(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


@cache
def _libc() -> Any:
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.mremap.restype = ctypes.c_void_p
    libc.mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return libc


@lru_cache(maxsize=4096)
def _slot_type(pages: int) -> Any:
    """A ctypes array of so many pages: of few lengths, as making a type takes long."""
    kind = type(
        "Slot", (_Slot, ctypes.c_char * (pages * mmap.PAGESIZE)), {"__slots__": ("number", "pages", "released")}
    )
    return cast("Any", kind)


@lru_cache(maxsize=4096)
def _mapping_type(size: int) -> Any:
    """A ctypes array of so many bytes."""
    return cast("Any", type("Mapping", (_Mapping, ctypes.c_char * size), {"__slots__": ("length", "start")}))

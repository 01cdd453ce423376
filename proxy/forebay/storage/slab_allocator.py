"""The slab allocator: memory for the bytes of blocks. Large mappings, cut into slots that are reused.

    mapping (16 MiB or one slot)  [slot][slot][slot][slot] ...      all slots of a mapping have one length

Why not `bytearray`: a block is large, so malloc requests its memory from the kernel and returns it each time, and the
kernel clears it page by page: 40 % of the CPU of a cold read (docs/performance.md). Here a free slot serves
the next block as it is, uncleared: once a tier is full, blocks reuse the memory of evicted ones. So **a buffer
contains anything at first**: its owner fills it before it shows it to anybody.

Invariants:
- a slot is free only once no view of it is left, in whatever thread the last one is dropped; nobody frees a buffer;
- memory of free slots beyond RESERVE is returned to the kernel at once. A buffer pins at most an eighth more than its
  length, which the memory tier accepts without a copy (`storage.memory.memory_tier`);
- pages of new memory are made before they are needed, POPULATED_AT_ONCE bytes at a time (`populate`);
- it sets no bound: the memory budget and the tiers decide how much may be in use.

Short buffers are ordinary bytearrays. https://man7.org/linux/man-pages/man2/madvise.2.html
"""

import ctypes
import mmap
from collections import deque
from contextlib import suppress
from functools import cache, lru_cache
from threading import RLock
from typing import Any, Final

MIN_SLOT: Final = 64 * 1024
"""Bytes; below this a bytearray is as cheap."""
RESERVE: Final = 32 * 1024 * 1024
"""Bytes of free slots whose memory is kept for the next blocks."""
_MAPPING: Final = 16 * 1024 * 1024
_STEPS: Final = 8
_ALL: Final = 1 << 62
_MADV_POPULATE_WRITE: Final = 23
"""<asm-generic/mman-common.h>; Python's mmap does not name it. All pages at once cost a third less than one by one."""
_MAX_POPULATED: Final = 2 * 1024 * 1024
"""The longest slot for that: a quarter of a millisecond for each MiB."""
POPULATED_AT_ONCE: Final = 256 * 1024
"""Bytes that are populated at once in a buffer that is filled piece by piece: other callbacks of the loop wait for one
piece, not for all."""
POPULATED_BRIEFLY: Final = 128 * 1024
"""The same for background work, which makes the next piece when half of one is left: what comes along with a head is
copied in the step that allocates. Where 256 KiB are received at once, this costs a tenth more CPU."""
POPULATED_AT_REST: Final = 1024 * 1024
"""The same while nobody asks for anything, in a quarter of a millisecond: 0.9 of the CPU of a prefetch of 602,112 B
whose pages are made within the kernel's copies."""


@lru_cache(maxsize=256)
def slot_length(length: int) -> int:
    """Returns the length of the slot for a buffer: whole pages, and at most an eighth more than `length`."""
    step = (1 << (length.bit_length() - 1)) // _STEPS
    return -(-length // step) * step


class SlabAllocator:
    """The mappings of a process. Safe to use from several threads."""

    def __init__(self, reserve: int = RESERVE) -> None:
        self._reserve = reserve
        self._kept = 0
        """Bytes of the free slots that have their pages."""
        # Reentrant: a garbage collection may free slots in the middle of anything.
        self._lock = RLock()
        self._warm: dict[int, deque[tuple[mmap.mmap, int]]] = {}
        self._cold: dict[int, deque[tuple[mmap.mmap, int]]] = {}

    def allocate(self, length: int, *, populated: int | None = None) -> memoryview:
        """Returns a writable buffer, `length` bytes long, with anything in it. `populated`: bytes that get their pages
        now, and its owner calls `populate` as it fills it; None: all."""
        if length < MIN_SLOT:
            return memoryview(bytearray(length))
        size = slot_length(length)
        try:
            mapping, offset, populated = self._slot(size, size if populated is None else populated)
        except OSError:  # no address space (ulimit -v)
            return memoryview(bytearray(length))
        slot = _slot_type(size).from_buffer(mapping, offset)
        slot.memory, slot.mapping, slot.offset, slot.populated = self, mapping, offset, populated
        return memoryview(slot).cast("B")[:length]

    def preallocate(self, length: int) -> None:
        """Populates the slot of the next buffer of this length: for a caller that waits now, and will not want to when
        it allocates."""
        if self.is_preallocated(length):
            return
        size = slot_length(length)
        with suppress(OSError):
            mapping, offset, _ = self._slot(size, size)
            self.free(mapping, offset, size)

    def is_preallocated(self, length: int) -> bool:
        """Returns whether the next buffer of this length takes no time to allocate: there is a free slot, or it is
        short, or too long to be populated at once."""
        size = slot_length(length)
        return bool(self._warm.get(size)) or length < MIN_SLOT or size > _MAX_POPULATED

    def _slot(self, size: int, wanted: int) -> tuple[mmap.mmap, int, int]:
        """Returns a slot, and how many of its bytes have pages: `wanted` ones, if the kernel has them."""
        with self._lock:
            warm, cold = self._warm.setdefault(size, deque()), self._cold.setdefault(size, deque())
            if warm:
                self._kept -= size
                return *warm.pop(), size
            if not cold:
                whole = max(_MAPPING, size)
                mapping = mmap.mmap(-1, whole, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
                # Popped from the right: in the order of their addresses.
                cold.extendleft((mapping, at) for at in range(0, whole - size + 1, size))
            mapping, offset = cold.pop()
        if size > _MAX_POPULATED:
            return mapping, offset, size  # by the kernel, one by one
        wanted = min(wanted, size)
        _populate(mapping, offset, wanted)
        return mapping, offset, wanted

    def free(self, mapping: mmap.mmap, offset: int, size: int) -> None:
        """Frees a slot. Called by the slot itself when its last view is gone."""
        with self._lock:
            if self._kept + size <= self._reserve:
                self._kept += size
                self._warm[size].append((mapping, offset))
                return
        mapping.madvise(mmap.MADV_DONTNEED, offset, size)
        with self._lock:
            self._cold[size].append((mapping, offset))


def _populate(mapping: mmap.mmap, offset: int, size: int) -> None:
    with suppress(OSError, ValueError):  # a kernel before 5.14
        mapping.madvise(_MADV_POPULATE_WRITE, offset, size)


def populate(buffer: memoryview, filled: int, *, briefly: bool = False) -> None:
    """Makes the pages of the next piece of a buffer that is filled so far, unless it has them. `briefly`: for
    background work."""
    slot: Any = buffer.obj
    size, needed = (POPULATED_BRIEFLY, POPULATED_BRIEFLY // 2) if briefly else (POPULATED_AT_ONCE, POPULATED_AT_ONCE)
    if filled + needed <= (populated := getattr(slot, "populated", _ALL)):
        return
    size = min(len(slot) - populated, size)
    if size > 0:
        slot.populated += size
        _populate(slot.mapping, slot.offset + populated, size)


@cache
def _slot_type(size: int) -> Any:
    """Returns a ctypes array of this length: the one type in the standard library that shows part of a mapping as a
    buffer and can have a finalizer."""

    def finalize(slot: Any) -> None:
        with suppress(AttributeError):  # at the end of the interpreter names are gone before slots are
            slot.memory.free(slot.mapping, slot.offset, size)

    return type("Slot", (ctypes.c_char * size,), {"__del__": finalize})


_ALLOCATOR: Final = SlabAllocator()


def allocate_buffer(length: int, *, populated: int | None = None) -> memoryview:
    """Does SlabAllocator.allocate with the allocator of the process."""
    return _ALLOCATOR.allocate(length, populated=populated)


def preallocate_buffer(length: int) -> None:
    """Does SlabAllocator.preallocate with the allocator of the process."""
    _ALLOCATOR.preallocate(length)


def is_preallocated(length: int) -> bool:
    """Does SlabAllocator.is_preallocated with the allocator of the process."""
    return _ALLOCATOR.is_preallocated(length)

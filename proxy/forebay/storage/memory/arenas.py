"""Accounting of arenas: which blocks of the memory tier are in files that the kernel sends from, and how many bytes
these count for.

An arena (storage.memory.shared_blocks) is a file. A common one is shared by blocks and returns its memory whole or not
at all, so it counts whole, from opening to closing, whatever was evicted from it and whoever keeps it open; its blocks
do not count by themselves. A file of a single block counts as the block.

    open ─> full ─> sparse: a block was removed ─> retiring: memory is needed ─> closed
                        └─────────── all were removed ─────────────────────────────^

A sparse arena is left alone while there is free space. When space is needed it is given up before any block is evicted:
its blocks count by themselves again, are copied to buffers of their own off the loop, and the file is closed. What
it takes until then is covered by a reserve, which counts as long as there are common arenas; if that is used up, its
blocks are evicted at once.

The bound: all bytes held count, dead and unused ones too, except copies under way (the blocks of one answer to arenas,
those of one arena back). Except in the reserve, no dead byte is kept while a block is evicted for space.

Blocks of one group (objects below one prefix) fill arenas of their own, as far as the tier is large enough: a client
is passed the file of an arena only if it may read all that is in it (server.shared_memory.passed_files).

Belongs to one event loop; only the end of a file may come from another thread. New common arenas are opened while the
tier has free space: those of a full one would be sparse soon.
"""

import mmap
import resource
from collections import deque
from typing import Final, NamedTuple

from forebay.core.buffers import Buffer
from forebay.core.names import BlockId
from forebay.storage.memory.shared_blocks import HUGE, Arena, SharedBlock

SHARED_OVERHEAD: Final = 250
"""Bytes of Python's objects for a block in an arena, beside those of any block (memory_tier.BLOCK_OVERHEAD)."""
_RESERVE_DIVISOR: Final = 32
"""One in so many bytes of the tier is the reserve,"""
_MAX_RESERVE: Final = 4 * HUGE
"""but no more than this. Under one file's worth (a tier of less than 64 MiB) there are no common arenas."""
_MAX_GROUPS: Final = 8
"""Groups with an arena that is being filled; blocks of all others share one."""
_GROUP_DIVISOR: Final = 64
"""An arena that is being filled is at most one in so many bytes of the tier, or it is shared."""
_FILES_DIVISOR: Final = 8
"""One in so many files that the process may open may be an arena."""
_MAX_FILES: Final = 16_384
"""A process may have 65,530 mappings (vm.max_map_count); an arena takes up to three."""


class ArenaExtent(NamedTuple):
    """The room for one block, which the caller may write."""

    arena: Arena
    offset: int


class Arenas:
    """The arenas of one memory tier of `capacity` bytes."""

    def __init__(self, capacity: int) -> None:
        self._reserve = self._groups = 0
        self.resize(capacity)
        self._open: dict[str, Arena] = {}
        """The arenas that are being filled, by group; the one under "" is shared."""
        self._arena_of: dict[BlockId, Arena] = {}
        self.sparse: dict[Arena, None] = {}
        """Arenas that a block was removed from, in the order of the first removal. Read-only for others."""
        self._in_use = self._retiring = 0
        self.files = 0
        """Memory files, until `charged` has found that they are closed. None: nothing is charged."""
        self._closed: deque[tuple[int, bool]] = deque()

    def __repr__(self) -> str:
        return f"<Arenas {len(self._arena_of)} blocks, {self.charged()} bytes, {self.files} files>"

    def __len__(self) -> int:
        """Returns the number of blocks in arenas."""
        return len(self._arena_of)

    def resize(self, capacity: int) -> None:
        """Adapts the reserve to a tier of `capacity` bytes."""
        self._reserve = min(capacity // _RESERVE_DIVISOR, _MAX_RESERVE)
        self._groups = min(_MAX_GROUPS, capacity // (_GROUP_DIVISOR * HUGE))

    def charged(self) -> int:
        """Returns the bytes that common arenas and the reserve count for."""
        while self._closed:
            counted, was_retiring = self._closed.popleft()
            self.files -= 1
            if was_retiring:
                self._retiring -= counted
            else:
                self._in_use -= counted
        return self._in_use + max(self._retiring, self._reserve) if self._in_use or self._retiring else 0

    def allocate(self, length: int, free: int, group: str = "") -> ArenaExtent | None:
        """Returns an extent for a block in a tier with `free` bytes to spare; None if there can't be one more file."""
        if group not in self._open and len(self._open) - ("" in self._open) >= self._groups:
            group = ""
        arena = self._open.get(group)
        if arena is None or length >= HUGE:
            limit = min(_MAX_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _FILES_DIVISOR)
            if self.files >= limit:
                return None
            arena = self._new_arena(length, free, group)
        offset = arena.end
        arena.end += -(-length // mmap.PAGESIZE) * mmap.PAGESIZE
        if arena.counted:
            self._count(arena, max(arena.counted, arena.end))
        if arena.end >= HUGE and self._open.get(group) is arena:
            del self._open[group]
        return ArenaExtent(arena, offset)

    def _new_arena(self, length: int, free: int, group: str) -> Arena:
        self.files += 1
        reserve = 0 if self.charged() else self._reserve
        if length >= HUGE or free < HUGE + reserve or self._reserve < HUGE:
            return Arena(length, length // HUGE * HUGE, self._closed)
        # The last block begins before the end of the huge page, and is shorter than one.
        self._open[group] = arena = Arena(2 * HUGE, HUGE, self._closed)
        self._count(arena, HUGE)
        return arena

    def _count(self, arena: Arena, counted: int) -> None:
        self._in_use += counted - arena.counted
        arena.counted = counted

    def accepts(self, buffer: Buffer) -> bool:
        """Returns whether a block may be kept in this buffer: its arena, if it has one, is not retiring."""
        return not (isinstance(buffer.obj, SharedBlock) and buffer.obj.arena.is_retiring)

    def add_block(self, block: BlockId, buffer: Buffer) -> int:
        """Records that a block is kept in this buffer. Returns the bytes that it counts for by itself."""
        if not isinstance(buffer.obj, SharedBlock):
            return len(buffer)
        arena = self._arena_of[block] = buffer.obj.arena
        arena.blocks.add(block)
        if arena.has_waste:  # from a removal before this block was added
            self.mark_wasted(arena)
        return SHARED_OVERHEAD if arena.counted else SHARED_OVERHEAD + len(buffer)

    def remove_block(self, block: BlockId, length: int) -> int:
        """Records that a block is no longer kept where it was. Returns the bytes that it counted for by itself."""
        arena = self._arena_of.pop(block, None)
        if arena is None:
            return length
        arena.blocks.discard(block)
        if arena.is_retiring or not arena.counted:
            return SHARED_OVERHEAD + length
        self.mark_wasted(arena)
        return SHARED_OVERHEAD

    def mark_wasted(self, arena: Arena) -> None:
        """Records that some bytes of an arena are dead."""
        arena.has_waste = True
        if arena.blocks and arena.counted and not arena.is_retiring:
            self.sparse[arena] = None
        elif not arena.blocks:
            self._close(arena)

    def retire(self, arena: Arena) -> bool:
        """Gives up an arena: its blocks count by themselves from now on. Returns False if the reserve is used up."""
        if self._retiring + arena.counted > self._reserve:
            return False
        self._close(arena)
        arena.is_retiring = True
        self._in_use -= arena.counted
        self._retiring += arena.counted
        return True

    def _close(self, arena: Arena) -> None:
        """Ends both the filling of an arena and its candidacy for retiring."""
        self.sparse.pop(arena, None)
        for group in [group for group, each in self._open.items() if each is arena]:
            del self._open[group]

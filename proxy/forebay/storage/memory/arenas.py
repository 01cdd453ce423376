"""Which blocks of the memory tier lie in files that the kernel sends from, and what these files take.

A common file (storage.memory.shared_blocks) comes back whole or not at all. So it counts whole, from when it is opened
until it is
closed, whatever has left it and whoever keeps it open; its blocks don't count by themselves. A file of a single block
counts as the block.

    open ─> full ─> sparse: a block has left ─> leaving: room is needed ─> closed
                        └────────── all have left ──────────────────────────^

Of a sparse file nothing is done while there is room. When room is needed, it is given up before anything else: its
blocks count by themselves again, are copied to buffers of their own off the loop, and the file is closed. What it takes
until then is covered by a reserve, which counts as long as there are common files; if that is used up, the blocks
leave the tier at once.

The bound: all that is held counts, dead and unused bytes too, but for copies under way (the blocks of one answer to
files, those of one file back); and no dead byte stays while a block leaves for want of room, but in the reserve.

Belongs to one event loop; only the end of a file may come from another thread. New common files are opened while the
tier has room to spare: those of a full one would be sparse soon.
"""

import mmap
import resource
from collections import deque
from typing import Final, NamedTuple

from forebay.core.buffers import Buffer
from forebay.core.names import BlockId
from forebay.storage.memory.entry_cost import SHARED_OVERHEAD
from forebay.storage.memory.shared_blocks import HUGE, Arena, SharedBlock

_RESERVED: Final = 32
"""One in so many bytes of the tier is the reserve,"""
_RESERVED_MOST: Final = 4 * HUGE
"""but no more than this. Under one file's worth (a tier of less than 64 MiB), there are no common files."""
_SHARE: Final = 8
"""Of the files that the process may open, one in so many may be of blocks."""
_MOST: Final = 16_384
"""Of mappings, a process may have 65,530 (vm.max_map_count); a file takes up to three."""


class ArenaExtent(NamedTuple):
    """Where a block may be written, by one who has it."""

    arena: Arena
    offset: int


class Arenas:
    """Of one memory tier of `capacity` bytes."""

    def __init__(self, capacity: int) -> None:
        self._reserve = 0
        self.resize(capacity)
        self._open: Arena | None = None
        self._of: dict[BlockId, Arena] = {}
        self.sparse: dict[Arena, None] = {}
        """Files of which blocks have left, in the order in which the first ones did. To be read only."""
        self._held = self._leaving = self._files = 0
        self._ended: deque[tuple[int, bool]] = deque()

    def __repr__(self) -> str:
        return f"<Arenas {len(self._of)} blocks, {self.charged()} bytes, {self._files} files>"

    def __len__(self) -> int:
        """Of how many blocks."""
        return len(self._of)

    def resize(self, capacity: int) -> None:
        self._reserve = min(capacity // _RESERVED, _RESERVED_MOST)

    def charged(self) -> int:
        """Bytes that common files count for, and the reserve."""
        while self._ended:
            counted, leaving = self._ended.popleft()
            self._files -= 1
            if leaving:
                self._leaving -= counted
            else:
                self._held -= counted
        return self._held + max(self._leaving, self._reserve) if self._held or self._leaving else 0

    def allocate(self, length: int, free: int) -> ArenaExtent | None:
        """For a block, in a tier with so many bytes to spare; None if there can't be one more file."""
        arena = self._open
        if arena is None or arena.end >= HUGE or length >= HUGE:
            most = min(_MOST, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _SHARE)
            if self._files >= most:
                return None
            arena = self._opened(length, free)
        offset = arena.end
        arena.end += -(-length // mmap.PAGESIZE) * mmap.PAGESIZE
        if arena.counted:
            self._count(arena, max(arena.counted, arena.end))
        return ArenaExtent(arena, offset)

    def _opened(self, length: int, free: int) -> Arena:
        self._files += 1
        reserve = 0 if self.charged() else self._reserve
        if length >= HUGE or free < HUGE + reserve or self._reserve < HUGE:
            return Arena(length, length // HUGE * HUGE, self._ended)
        # The last block begins before the end of the huge page, and is shorter than one.
        self._open = arena = Arena(2 * HUGE, HUGE, self._ended)
        self._count(arena, HUGE)
        return arena

    def _count(self, arena: Arena, counted: int) -> None:
        self._held += counted - arena.counted
        arena.counted = counted

    def accepts(self, buffer: Buffer) -> bool:
        """Whether a block's bytes may be kept in this buffer: not in a file that is leaving."""
        return not (isinstance(buffer.obj, SharedBlock) and buffer.obj.arena.is_retiring)

    def add_block(self, block: BlockId, buffer: Buffer) -> int:
        """A block is kept in this buffer. Gives the bytes that it counts for by itself."""
        if not isinstance(buffer.obj, SharedBlock):
            return len(buffer)
        arena = self._of[block] = buffer.obj.arena
        arena.blocks.add(block)
        if arena.has_waste:  # what has left did so before this one came
            self.mark_wasted(arena)
        return SHARED_OVERHEAD if arena.counted else SHARED_OVERHEAD + len(buffer)

    def remove_block(self, block: BlockId, length: int) -> int:
        """A block is no longer kept where it was. Gives the bytes that it counted for by itself."""
        arena = self._of.pop(block, None)
        if arena is None:
            return length
        arena.blocks.discard(block)
        if arena.is_retiring or not arena.counted:
            return SHARED_OVERHEAD + length
        self.mark_wasted(arena)
        return SHARED_OVERHEAD

    def mark_wasted(self, arena: Arena) -> None:
        """Some of a file is of no more use."""
        arena.has_waste = True
        if arena.blocks and arena.counted and not arena.is_retiring:
            self.sparse[arena] = None
        elif not arena.blocks:
            self._close(arena)

    def retire(self, arena: Arena) -> bool:
        """Give up a file if the reserve has room for it: its blocks count by themselves from now on."""
        if self._leaving + arena.counted > self._reserve:
            return False
        self._close(arena)
        arena.is_retiring = True
        self._held -= arena.counted
        self._leaving += arena.counted
        return True

    def _close(self, arena: Arena) -> None:
        """For more blocks, and to be given up."""
        self.sparse.pop(arena, None)
        if self._open is arena:
            self._open = None

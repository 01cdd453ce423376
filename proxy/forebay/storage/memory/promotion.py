"""Promotion: copies blocks that large hits read repeatedly into files that the kernel sends from, and back.

    plain buffer ── so many large hits, free space in an arena ──> shared block
                 <── its arena is given up (demotion) ────────────

The copy pays off only by later hits, and an object may be read once an epoch. So it is made when the hits so far would
have saved its cost (the ski rental rule: at most twice the optimal cost).

Threads copy, the blocks of one answer or of one arena at a time: beside a busy loop a thread waits for its turn far
longer than it copies. One thread promotes at a time, and one demotes. Meanwhile some more answers wait, as a batch
reads many objects at once, and are then promoted together. A block that was evicted or replaced meanwhile is dropped.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol, TypeAlias, TypeVar

from forebay.core.buffers import Buffer
from forebay.core.names import BlockId, ObjectName
from forebay.storage.memory.arenas import ArenaExtent, Arenas
from forebay.storage.memory.shared_blocks import SharedBlock, copy_out

MAPPED_HITS: Final = 2
"""Large hits of an object beyond which its blocks are promoted for a client that maps files: each saves it a copy."""
SENT_HITS: Final = 32
"""The same for bodies sent to a socket: of 602,112 B sendfile saves some 15 us, and the copy takes 240, or 1,500 where
a hypervisor has yet to give the memory."""
_MAX_OBJECTS: Final = 4096
"""Objects whose large hits are counted."""
MAX_WAITING: Final = 64
"""Objects whose promotion waits for that of another."""
_AT_ONCE: Final = 16 << 20
"""Bytes of blocks, and one object's more, that a thread copies at a time."""

KeptBlocks: TypeAlias = Sequence[tuple[BlockId, Buffer]]
"""Blocks of the tier, with the buffers that it keeps of them."""
_T = TypeVar("_T")


class BlockOwner(Protocol):
    """The part of the memory tier that promotion uses."""

    arenas: Arenas

    def get(self, block: BlockId) -> Buffer | None:
        """Returns the buffer that is kept of a block."""
        ...

    def allocate(self, length: int, group: str) -> ArenaExtent | None:
        """Returns an extent of an arena for a block of `length` bytes of a group, or None."""
        ...

    def replace(self, block: BlockId, old: Buffer, new: Buffer) -> bool:
        """Keeps `new` in place of `old`; returns False if `old` is no longer kept."""
        ...


class Promotion:
    """The promotions and demotions of one tier."""

    def __init__(self, owner: BlockOwner) -> None:
        self._owner = owner
        self._is_promoting = False
        self._waiting: dict[ObjectName, Callable[[], Iterable[BlockId]]] = {}
        """The objects whose promotion waits, in order, and which of their blocks."""
        self._demotions = deque[KeptBlocks]()
        """The blocks of arenas that were given up. Those of the first are being copied."""
        self._hits: dict[ObjectName, int] = {}
        """Large hits of objects that were not in arenas, the latest last."""

    def record_hit(self, name: ObjectName, blocks: Callable[[], Iterable[BlockId]], most: int) -> None:
        """Counts a large hit of an object in plain buffers. Beyond `most` of them, its `blocks` are promoted."""
        hits = self._hits.pop(name, 0) + 1
        self._hits[name] = hits
        if len(self._hits) > _MAX_OBJECTS:
            del self._hits[next(iter(self._hits))]
        if hits > most and (name in self._waiting or len(self._waiting) < MAX_WAITING):
            self._waiting[name] = blocks
            self._promote_waiting()

    def demote(self, kept: KeptBlocks) -> None:
        """Copies the blocks of an arena that is given up to buffers of their own. Needs a running loop."""
        self._demotions.append(kept)
        if len(self._demotions) == 1:
            self._demote_next()

    def _promote_waiting(self) -> None:
        """Promotes objects that wait, unless a thread is at it."""
        owner, size = self._owner, 0
        extents: list[tuple[BlockId, Buffer, ArenaExtent]] = []
        while self._waiting and size < _AT_ONCE and not self._is_promoting:
            blocks = self._waiting.pop(next(iter(self._waiting)))
            for block in blocks():
                buffer = owner.get(block)
                if buffer is None or isinstance(buffer.obj, SharedBlock):
                    continue
                if (extent := owner.allocate(len(buffer), _group_of(block.object))) is not None:
                    extent.arena.copying += 1
                    extents.append((block, buffer, extent))
                    size += len(buffer)
        if not extents:
            return
        self._is_promoting = True

        def promoted(copies: Sequence[Buffer | None] | None) -> None:
            self._is_promoting = False
            for (block, buffer, extent), copy in zip(extents, copies or [None] * len(extents), strict=True):
                extent.arena.copying -= 1
                if copy is None or not owner.replace(block, buffer, copy):
                    owner.arenas.mark_wasted(extent.arena)
            self._promote_waiting()

        _run_in_thread(lambda: [extent.arena.write(extent.offset, buffer) for _, buffer, extent in extents], promoted)

    def _demote_next(self) -> None:
        kept = self._demotions[0]

        def demoted(copies: Sequence[Buffer] | None) -> None:
            for (block, buffer), copy in zip(kept, copies or (), strict=False):
                self._owner.replace(block, buffer, copy)
            self._demotions.popleft()
            if self._demotions:
                self._demote_next()

        _run_in_thread(lambda: [copy_out(buffer) for _, buffer in kept], demoted)


def _group_of(name: ObjectName) -> str:
    """Returns the group of an object, which one grant is likely to cover: its bucket and the first folder of its
    key."""
    return f"{name.bucket}/{name.key.partition('/')[0]}" if "/" in name.key else name.bucket


def _run_in_thread(work: Callable[[], _T], then: Callable[[_T | None], None]) -> None:
    """Runs `work` in a thread, and `then` on the loop with its result, or None if it failed."""

    def done(future: asyncio.Future[_T]) -> None:
        then(None if future.cancelled() or future.exception() is not None else future.result())

    asyncio.get_running_loop().run_in_executor(None, work).add_done_callback(done)

"""Moving: blocks in memory that large hits ask for again and again, to where the kernel can send them from; and back
again, where a file that they share is given up (forebay.storage.memory.arenas).

Copying is done by a thread, the blocks of one answer, or of one file, at a time: beside a busy loop a thread waits for
its turn far longer than it copies. A block that has left memory meanwhile, or was replaced, is let go of.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, TypeVar

from forebay.core.buffers import Buffer
from forebay.core.names import BlockId, ObjectName
from forebay.storage.memory.memory_tier import MemoryTier
from forebay.storage.memory.shared_blocks import copy_out

_OFTEN: Final = 2
"""Large hits of an object beyond which its blocks are moved."""
_NAMES: Final = 4096
"""Objects whose large hits are counted."""

_Kept: TypeAlias = Sequence[tuple[BlockId, Buffer]]
_T = TypeVar("_T")


class Promotion:
    """Of one worker's memory."""

    def __init__(self, memory: MemoryTier) -> None:
        self._memory = memory
        memory.give_back = self._give_back
        self._busy = False
        """Whether blocks are being moved."""
        self._leaving = deque[_Kept]()
        """The blocks of files that were given up; those of the first are being copied."""
        self._large: dict[ObjectName, int] = {}
        """How many large hits objects have had that could not be sent by the kernel, the latest last."""

    def record_hit(self, name: ObjectName, kept: Callable[[], _Kept]) -> None:
        """A large hit of this object asked for blocks of it, `kept` where the kernel can't send them from."""
        hits = self._large.pop(name, 0) + 1
        self._large[name] = hits
        if len(self._large) > _NAMES:
            del self._large[next(iter(self._large))]
        if hits > _OFTEN and not self._busy:
            self._move(kept())

    def _move(self, kept: _Kept) -> None:
        placed = [(*each, place) for each in kept if (place := self._memory.allocate(len(each[1]))) is not None]
        if not placed:
            return
        self._busy = True

        def moved(copies: Sequence[Buffer | None] | None) -> None:
            self._busy = False
            for (block, buffer, place), copy in zip(placed, copies or [None] * len(placed), strict=True):
                if copy is None or not self._memory.replace(block, buffer, copy):
                    self._memory.arenas.mark_wasted(place.arena)

        _in_a_thread(lambda: [place.arena.write(place.offset, buffer) for _, buffer, place in placed], moved)

    def _give_back(self, kept: _Kept) -> None:
        self._leaving.append(kept)
        if len(self._leaving) == 1:
            self._copy()

    def _copy(self) -> None:
        kept = self._leaving[0]

        def done(copies: Sequence[Buffer] | None) -> None:
            for (block, buffer), copy in zip(kept, copies or (), strict=False):
                self._memory.replace(block, buffer, copy)
            self._leaving.popleft()
            if self._leaving:
                self._copy()

        _in_a_thread(lambda: [copy_out(buffer) for _, buffer in kept], done)


def _in_a_thread(work: Callable[[], _T], then: Callable[[_T | None], None]) -> None:
    """Work that a thread does, and what is done with its result on the loop; with None where it failed."""

    def done(future: asyncio.Future[_T]) -> None:
        then(None if future.cancelled() or future.exception() is not None else future.result())

    asyncio.get_running_loop().run_in_executor(None, work).add_done_callback(done)

"""Moving: blocks in memory that large hits ask for again and again, to where the kernel can send them from; and back
again, where a file that they share is given up (forebay.stores.arenas).

Copying is done by a thread, one block, or the blocks of one file, at a time. A block that has left memory meanwhile, or
was replaced, is let go of.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, TypeVar

from forebay.stores.contract import Buffer
from forebay.stores.memory import MemoryTier
from forebay.stores.shared import copied
from forebay.words.names import BlockId, ObjectName

_OFTEN: Final = 2
"""Large hits of an object beyond which its blocks are moved."""
_NAMES: Final = 4096
"""Objects whose large hits are counted."""

_Kept: TypeAlias = Sequence[tuple[BlockId, Buffer]]
_T = TypeVar("_T")


class Moving:
    """Of one worker's memory."""

    def __init__(self, memory: MemoryTier) -> None:
        self._memory = memory
        memory.give_back = self._give_back
        self._busy = False
        """Whether a block is being moved."""
        self._leaving = deque[_Kept]()
        """The blocks of files that were given up; those of the first are being copied."""
        self._large: dict[ObjectName, int] = {}
        """How many large hits objects have had that could not be sent by the kernel, the latest last."""

    def wanted(self, block: BlockId, buffer: Buffer) -> None:
        """A large hit asked for this block, which can't be sent by the kernel where it lies."""
        hits = self._large.pop(block.object, 0) + 1
        self._large[block.object] = hits
        if len(self._large) > _NAMES:
            del self._large[next(iter(self._large))]
        if hits <= _OFTEN or self._busy or (place := self._memory.place(len(buffer))) is None:
            return
        self._busy = True

        def moved(copy: Buffer | None) -> None:
            self._busy = False
            if copy is None or not self._memory.replace(block, buffer, copy):
                self._memory.arenas.wasted(place.arena)

        _in_a_thread(lambda: place.arena.write(place.offset, buffer), moved)

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

        _in_a_thread(lambda: [copied(buffer) for _, buffer in kept], done)


def _in_a_thread(work: Callable[[], _T], then: Callable[[_T | None], None]) -> None:
    """Work that a thread does, and what is done with its result on the loop; with None where it failed."""

    def done(future: asyncio.Future[_T]) -> None:
        then(None if future.cancelled() or future.exception() is not None else future.result())

    asyncio.get_running_loop().run_in_executor(None, work).add_done_callback(done)

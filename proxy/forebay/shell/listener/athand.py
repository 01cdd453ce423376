"""The bytes of a hit: in memory, or on the SSD where the page cache has them. Nothing here waits.

    small, or through TLS        buffers           memory as it is; from the SSD read, and checked
    large, on a plain socket     stretches         of shared blocks in memory, or of segments on the SSD, checked now or
                                                   lately: the kernel sends them by itself
                                                   (forebay.shell.listener.sending)

Blocks in memory that large hits ask for again and again are moved to where they can be sent as stretches. What is read
from the SSD whole moves up into memory when it is worth it (MemoryTier.again), which takes a buffer. What can be sent
from where it lies does so only where memory has room: it costs no more there, and would push out what does.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, TypeAlias

from forebay.shell.listener.ready import Ready
from forebay.shell.listener.sending import Stretch
from forebay.stores.contract import Buffer
from forebay.stores.shared import SHORTEST, SharedBlock, shared
from forebay.stores.ssd.reading import Checked
from forebay.stores.tiers import Tiers
from forebay.story.account import CacheStatus
from forebay.words.names import BlockId, ObjectName
from forebay.words.ranges import Span, blocks_touching

Found: TypeAlias = tuple[Sequence[Buffer], Sequence[Stretch], CacheStatus]
"""The bytes in one form or the other, and where they were."""

_OFTEN: Final = 2
"""Large hits of an object beyond which its blocks are moved."""
SHORTEST_LYING: Final = 64 << 10
"""Bytes of an answer from which on it is sent from where it lies on the SSD. Below, reading it costs less."""
_READ_AT_ONCE: Final = 1 << 20
"""Bytes of an answer that may be read from the SSD here: reading and checking them keeps the loop, some 150 us for each
MiB. The full lane reads a larger one block by block; once it has, it is checked, and sent from here."""
_NAMES: Final = 4096
"""Objects whose large hits are counted."""


class AtHand:
    """Finds them in the tiers of one worker."""

    def __init__(self, tiers: Tiers) -> None:
        self._tiers = tiers
        self._memory = tiers.memory
        self._moving = False
        self._large: dict[ObjectName, int] = {}
        """How many large hits objects have had that could not be sent as stretches, the latest last."""

    def find(self, ready: Ready, span: Span, *, direct: bool) -> Found | None:
        """The bytes `span`, which is not empty; None if they can't be had without waiting. `direct`: the connection can
        send stretches now."""
        length = span.stop - span.start
        direct = direct and length >= SHORTEST_LYING
        if ready.block is not None and (not direct or length < SHORTEST):
            block = self._memory.get(ready.block)
            if block is not None:
                return (
                    (block if len(block) == length else block[span.start : span.stop],),
                    (),
                    "hit-memory",
                )
        return self._stretches(ready, span, length) if direct else self._buffers(ready, span, length)

    def _buffers(self, ready: Ready, span: Span, size: int) -> Found | None:
        if size > _READ_AT_ONCE and not all(self._memory.has(block) for block, _, _ in _blocks(ready, span)):
            return None
        pieces: list[Buffer] = []
        cache: CacheStatus = "hit-memory"
        for block, length, within in _blocks(ready, span):
            buffer = self._memory.get(block)
            if buffer is not None:
                pieces.append(buffer[within.start : within.stop])
                continue
            found = self._tiers.load_now(block, length, within)
            if not isinstance(found, memoryview):
                return None
            pieces.append(found)
            cache = "hit-ssd"
        return pieces, (), cache

    def _stretches(self, ready: Ready, span: Span, size: int) -> Found | None:
        """Buffers where some of the blocks are in memory, but not shared, or are to move up into it."""
        stretches: list[Stretch] = []
        cache: CacheStatus = "hit-memory"
        for block, length, within in _blocks(ready, span):
            start, stop = within
            buffer = self._memory.get(block)
            if buffer is not None:
                if not isinstance(buffer.obj, SharedBlock):
                    if size >= SHORTEST and self._often(ready.name) and not self._moving:
                        self._move(block, buffer)
                    return self._buffers(ready, span, size)
                stretches.append((buffer.obj, start, stop, True))
                continue
            whole = stop - start == length
            if whole and self._memory.has_room(length):
                return self._buffers(ready, span, size)
            found = self._tiers.check_now(block, length, within, read=size <= _READ_AT_ONCE)
            if not isinstance(found, Checked):
                return None
            file, offset = found
            stretches.append((file, offset, offset + stop - start, False))
            cache = "hit-ssd"
        return (), stretches, cache

    def _often(self, name: ObjectName) -> bool:
        """Whether the object has had large hits lately, this one among them, in number."""
        hits = self._large.pop(name, 0) + 1
        self._large[name] = hits
        if len(self._large) > _NAMES:
            del self._large[next(iter(self._large))]
        return hits > _OFTEN

    def _move(self, block: BlockId, buffer: Buffer) -> None:
        """Have a block copied to where the kernel can send it from."""
        moving = asyncio.get_running_loop().run_in_executor(None, shared, buffer)
        self._moving = True

        def moved(done: asyncio.Future[Buffer | None]) -> None:
            self._moving = False
            if not done.cancelled() and (copy := done.result()) is not None:
                self._memory.replace(block, buffer, copy)

        moving.add_done_callback(moved)


def _blocks(ready: Ready, span: Span) -> Sequence[tuple[BlockId, int, Span]]:
    """The blocks that `span` touches, their lengths, and what is wanted of each."""
    if ready.block is not None:
        return ((ready.block, ready.size, span),)
    head = ready.head
    size, generation, name = head.block_size, head.generation, ready.name
    touched = []
    for number in blocks_touching(span, size):
        first = number * size
        within = Span(max(span.start - first, 0), min(span.stop - first, size))
        touched.append((BlockId(name, generation, number), min(size, head.size - first), within))
    return touched

"""Staging: what passes through on its way up is cut into blocks and put into the tiers as it goes.

Staged blocks live under a random generation. Nothing reaches them until the origin has confirmed the write and a head
names that generation (metadata.staged_objects); until then they are bytes that nobody asks for, and the first to be
evicted. So nothing is held beside the tiers but the one block that is being filled, and that comes out of the memory
budget: without it, and for a body that turned out to be bad, the staging is simply given up.
"""

import secrets

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span, block_count, block_span
from forebay.core.fair_semaphore import FairSemaphore
from forebay.core.names import BlockId, Generation, ObjectName
from forebay.metadata.staged_objects import StagedBody
from forebay.protocol.body.checksums import Piece
from forebay.storage.slab_allocator import allocate_buffer
from forebay.storage.tiers import Tiers


class BlockStaging:
    """One body on its way into the tiers."""

    def __init__(self, tiers: Tiers, budget: FairSemaphore, name: ObjectName, block_size: int) -> None:
        self._tiers = tiers
        self._budget = budget
        self._name = name
        self._block_size = block_size
        self.generation = Generation(secrets.token_bytes(8))
        self._block: memoryview | None = None
        self._filled = 0
        self._number = 0
        self._given_up = False

    def append(self, piece: Piece) -> None:
        """The next bytes of the body."""
        view = memoryview(piece)
        while view and not self._given_up:
            if self._block is None:
                if not self._budget.try_acquire(self._block_size):
                    self._given_up = True
                    return
                self._block = allocate_buffer(self._block_size)
            taken = min(len(view), self._block_size - self._filled)
            self._block[self._filled : self._filled + taken] = view[:taken]
            self._filled += taken
            view = view[taken:]
            if self._filled == self._block_size:
                self._admit(self._block)

    def complete(self, etag: str) -> StagedBody | None:
        """What was staged, now that the origin has confirmed it; None if it was given up."""
        if self._given_up:
            return None
        size = self._number * self._block_size + self._filled
        if self._block is not None:
            self._admit(memoryview(bytes(self._block[: self._filled])))
        self._given_up = True
        return StagedBody(self.generation, self._block_size, size, etag)

    def discard(self) -> None:
        """Let go of the block that is being filled. Safe to say twice, and after `confirmed`."""
        self._given_up = True
        if self._block is not None:
            self._block = None
            self._budget.release(self._block_size)

    def _admit(self, buffer: Buffer) -> None:
        self._tiers.stage(BlockId(self._name, self.generation, self._number), buffer.toreadonly())
        self._number += 1
        self._filled = 0
        self._block = None
        self._budget.release(self._block_size)


async def restage(tiers: Tiers, name: ObjectName, staged: StagedBody, into: BlockStaging) -> bool:
    """Read staged bytes back and take them into another staging; False if some are not there any more."""
    for number in range(block_count(staged.size, staged.block_size)):
        block = BlockId(name, staged.generation, number)
        length = block_span(number, staged.block_size, staged.size).length
        buffer = tiers.memory.get(block)
        if buffer is None:
            buffer = await tiers.read(block, length, Span(0, length))
        if buffer is None:
            return False
        into.append(buffer)
    return True

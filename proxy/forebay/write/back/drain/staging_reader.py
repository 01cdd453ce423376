"""Staging readers: the body of a pending write is read in blocks, which are staged in the tiers on their way elsewhere.

    journal ──> block ──┬──> tiers          named by the generation of the pending head, so readers find it
                        └──> the origin     (persister), or nothing (settlement)

A generation names the same bytes in the journal and at the origin. So a block may be staged before the origin has
taken the write, and stays right if it refuses.
"""

from collections.abc import AsyncIterator, Callable

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span
from forebay.core.heads import Head
from forebay.core.names import BlockId, ObjectName
from forebay.storage.journal.pending_objects import BodyPart, PendingObjects
from forebay.write.back.drain.origin_uploads import READ_SIZE

Stage = Callable[[BlockId, Buffer], None]
"""Keeps a block in the tiers, if they have room (Tiers.stage)."""


class StagingReader:
    """Reads one body, once."""

    def __init__(
        self, pending: PendingObjects, stage: Stage, name: ObjectName, head: Head, parts: tuple[BodyPart, ...]
    ) -> None:
        self._pending = pending
        self._stage = stage
        self._name = name
        self._head = head
        self._parts = parts
        self.is_at_end = False
        """Whether all blocks were read and staged."""

    async def read(self) -> AsyncIterator[Buffer]:
        """Yields the body in pieces of a MiB, or of a block where that is larger. Several small blocks come together,
        as a body is verified by the MiB. Raises OSError, BodyDamaged."""
        size, block_size = self._head.size, self._head.block_size
        step = max(READ_SIZE, block_size)
        for start in range(0, size, step):
            content = await self._pending.read_parts(self._parts, Span(start, min(start + step, size)))
            for at in range(0, len(content), block_size):
                block = BlockId(self._name, self._head.generation, (start + at) // block_size)
                self._stage(block, content[at : at + block_size])
            self.is_at_end = start + step >= size
            yield content

"""The tiers together: memory in front of the SSD, which may be absent.

Blocks read from the SSD are offered to memory; blocks from the origin are admitted to both. Only this module knows the
order.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span
from forebay.core.heads import Head
from forebay.core.names import BlockId, Generation, ObjectName
from forebay.policy.pins import NO_PINS, PinSet
from forebay.policy.pools import Pool
from forebay.storage.journal.body_file import BodyDamaged
from forebay.storage.journal.pending_objects import Deleted, PendingObjects
from forebay.storage.memory.memory_tier import MemoryTier
from forebay.storage.ssd.segments.verified_extents import VerifiedExtent
from forebay.storage.tier_contract import BUSY, MISS, Busy, Miss

if TYPE_CHECKING:  # only with an SSD tier
    from forebay.storage.ssd.ssd_tier import SsdTier


class Tiers:
    """Memory, and the SSD where there is one, which the workers of a node share.

    `owns`: whether this worker writes the blocks and heads of an object to the SSD; other objects are written by their
    owners. `pool_of`: the pool of an object; None: it has none.
    """

    def __init__(
        self,
        memory: MemoryTier,
        ssd: "SsdTier | None",
        owns: Callable[[ObjectName], bool] = lambda _: True,
        pool_of: Callable[[ObjectName], Pool | None] = lambda _: None,
        pending: PendingObjects | None = None,
    ) -> None:
        self.memory = memory
        self.ssd = ssd
        self.pending = pending
        self.pins = NO_PINS
        """The pins of the SSD tier, whether there is one or not."""
        self._owns = owns
        self._pool_of = pool_of

    def head(self, name: ObjectName) -> Head | None:
        """Returns the head of an object, in microseconds. One from the SSD is kept in memory from then on."""
        # Pending writes first: memory may have what the origin had before them, stored since they were acknowledged.
        if self.pending is not None and (pending := self.pending.head(name)) is not None:
            return None if isinstance(pending, Deleted) else pending  # in no tier: it ends when the write is settled
        head = self.memory.head(name)
        if head is not None:
            return head
        if self.ssd is not None:
            head = self.ssd.head(name)
            if head is not None:
                self.put_head_in_memory(name, head)
        return head

    def put_head(self, name: ObjectName, head: Head) -> None:
        """Keeps a head, under the caller's guarantee of storage.tier_contract."""
        self.put_head_in_memory(name, head)
        if self.ssd is not None and self._owns(name):
            self.ssd.put_head(name, head)

    def put_head_in_memory(self, name: ObjectName, head: Head) -> None:
        """Keeps a head in memory alone, where it was before, or is on the SSD."""
        pool = self._pool_of(name)
        self.memory.put_head(name, head, passes=pool is not None and pool.eviction == "epoch")

    def admit(self, block: BlockId, buffer: Buffer) -> None:
        """Keeps a block, whole: with those fetched ahead of their readers if it is expected there, else in the tiers.

        A block of an object that another worker owns is admitted to memory as one from the SSD
        is: its owner has it as well, and copies must not displace what nobody else has."""
        if self.memory.ahead.is_expecting and self.memory.ahead.land(block, buffer):
            return
        owned = self._owns(block.object)
        pool = self._pool_of(block.object)
        if pool is not None and pool.eviction == "epoch":
            is_below = owned and self.ssd is not None and self.ssd.admit(block, buffer, pool)
            self.memory.admit_pooled(block, buffer, pool, share=owned and not is_below)
            return
        if owned or self.memory.is_admissible(block, len(buffer)):
            self.memory.admit(block, buffer)
        if self.ssd is not None and owned:
            self.ssd.admit(block, buffer, pool)

    def put_object(self, name: ObjectName, head: Head, block: BlockId, buffer: Buffer) -> None:
        """Keeps a head, as `put_head`, and the only block of its object, as `admit`: most objects are small and new
        here, and for these both are one step."""
        memory, ssd = self.memory, self.ssd
        if memory.ahead.is_expecting or self._pool_of(name) is not None:
            self.put_head(name, head)
            self.admit(block, buffer)
            return
        owned = self._owns(name)
        if not owned and not memory.is_admissible(block, len(buffer)):
            memory.put_head(name, head)
            return
        memory.put_object(name, head, block, buffer)
        if owned and ssd is not None and not ssd.admit(block, buffer, None, head):
            ssd.put_head(name, head)

    def stage(self, block: BlockId, buffer: Buffer) -> None:
        """Keeps a block of a write that passes through this worker, also of an object that another worker owns.

        Parts of an upload are no part of a stable share: all of them are needed to cut the object's own blocks."""
        pool = self._pool_of(block.object) if "\0" not in block.object.key else None
        if pool is None or pool.eviction != "epoch":
            self.memory.admit(block, buffer)
            if self.ssd is not None:
                self.ssd.admit(block, buffer, pool)
        else:
            is_below = self.ssd is not None and self.ssd.admit(block, buffer, pool)
            self.memory.admit_pooled(block, buffer, pool, share=not is_below)

    def has(self, block: BlockId) -> bool:
        """Returns whether a tier has the block. Not a use."""
        return self.memory.has(block) or self.has_on_disk(block)

    def has_in_memory(self, block: BlockId) -> bool:
        """Returns whether memory has the block. Not a use."""
        return self.memory.has(block)

    def has_on_disk(self, block: BlockId) -> bool:
        """Returns whether the SSD has the block, or a pending write."""
        return (self.ssd is not None and self.ssd.has(block)) or (self.pending is not None and self.pending.has(block))

    def damage(self, name: ObjectName, generation: Generation) -> str | None:
        """Returns why bytes of a pending write could not be read; None: that has not happened."""
        return self.pending.damage(name, generation) if self.pending is not None else None

    async def read(self, block: BlockId, length: int, within: Span) -> Buffer | None:
        """Reads bytes `within` a block of `length` bytes from the SSD, or returns None. A block read whole is promoted
        to memory if it is admissible there."""
        found = self.read_nowait(block, length, within)
        if not isinstance(found, Busy | Miss):
            return found
        buffer = None
        if isinstance(found, Busy) and self.ssd is not None:
            buffer = await self.ssd.read(block, length, within)
        if buffer is None and self.pending is not None:
            with suppress(OSError, BodyDamaged):
                buffer = await self.pending.read(block, within)
        if buffer is not None and len(buffer) == length and self.memory.is_admissible(block, length):
            self._promote(block, buffer)
        return buffer

    def read_nowait(self, block: BlockId, length: int, within: Span) -> Buffer | Miss | Busy:
        """Reads a block without waiting. Returns Busy if the disk would have to be waited for."""
        found = MISS if self.ssd is None else self.ssd.read_nowait(block, length, within)
        if isinstance(found, Miss) and self.pending is not None and self.pending.has(block):
            return BUSY
        if isinstance(found, memoryview) and len(found) == length and self.memory.is_admissible(block, length):
            self._promote(block, found)
        return found

    def _promote(self, block: BlockId, buffer: Buffer) -> None:
        """Admits a block that the SSD has to memory. There it passes if it is of a stable share: memory keeps what the
        SSD does not."""
        pool = self._pool_of(block.object)
        if pool is None or pool.eviction != "epoch":
            self.memory.admit(block, buffer)
        else:
            self.memory.admit_pooled(block, buffer, pool, share=False)

    def verify_nowait(self, block: BlockId, length: int, within: Span, *, read: bool) -> VerifiedExtent | Miss | Busy:
        """Verifies bytes `within` a block of `length` bytes on the SSD in place, to be sent from there; without
        waiting. Unless `read`, nothing is read, and bytes that were not verified recently are Busy."""
        return MISS if self.ssd is None else self.ssd.verify_nowait(block, length, within, read=read)

    def use_pins(self, pins: PinSet) -> None:
        """Replaces all pins."""
        self.pins = pins
        if self.ssd is not None:
            self.ssd.use_pins(pins)

    async def flush(self) -> None:
        """Waits until admitted blocks are durable."""
        if self.ssd is not None:
            await self.ssd.flush()

    async def forget(self, name: ObjectName, keep: Generation | None = None) -> None:
        """Removes everything of the object, so that nothing is found, also after a crash, except the blocks of the
        generation `keep`: bytes that were staged for the version that is about to become current."""
        self.memory.forget(name, keep)
        if self.ssd is not None:
            await self.ssd.forget(name, keep)
            self.memory.forget(name, keep)  # a reader may have copied the head from the SSD meanwhile

    async def forget_bucket(self, bucket: str) -> None:
        """Removes every object of a bucket."""
        self.memory.purge(bucket, "")
        if self.ssd is not None:
            await self.ssd.forget_bucket(bucket)
            self.memory.purge(bucket, "")

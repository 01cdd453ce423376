"""The tiers as one: memory in front of the SSD, which may be missing.

What the SSD tier gives is offered to memory; what the origin gives is admitted to both. The order is fixed here and
nowhere else.
"""

from collections.abc import Callable

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span
from forebay.core.heads import Head
from forebay.core.names import BlockId, Generation, ObjectName
from forebay.storage.memory.memory_tier import MemoryTier
from forebay.storage.ssd.record_reads import MISS, Busy, Miss
from forebay.storage.ssd.ssd_tier import SsdTier
from forebay.storage.ssd.verified_extents import VerifiedExtent


class Tiers:
    """Memory, and the SSD where there is one, which the workers of a node share. `owns`: whose blocks and heads this
    worker writes to it; what others own, they have written."""

    def __init__(
        self, memory: MemoryTier, ssd: SsdTier | None, owns: Callable[[ObjectName], bool] = lambda _: True
    ) -> None:
        self.memory = memory
        self.ssd = ssd
        self._owns = owns

    @property
    def trusted_from(self) -> float:
        """Heads validated before this time (seconds since the epoch) must not be believed: see storage.ssd."""
        return self.ssd.trusted_from if self.ssd is not None else 0.0

    def head(self, name: ObjectName) -> Head | None:
        """The head of an object, microseconds away. One found on the SSD is kept in memory from then on."""
        head = self.memory.head(name)
        if head is None and self.ssd is not None:
            head = self.ssd.head(name)
            if head is not None:
                self.memory.put_head(name, head)
        return head

    def put_head(self, name: ObjectName, head: Head) -> None:
        """Under the caller's guarantee of storage.tier_contract: no fence since its facts were asked for."""
        self.memory.put_head(name, head)
        if self.ssd is not None and self._owns(name):
            self.ssd.put_head(name, head)

    def admit(self, block: BlockId, buffer: Buffer) -> None:
        """What came over another worker that owns it displaces nothing in memory until it is read again soon: that
        worker has it as well, and copies must not push out what nobody else has."""
        owned = self._owns(block.object)
        if owned or self.memory.is_admissible(block, len(buffer)):
            self.memory.admit(block, buffer)
        if self.ssd is not None and owned:
            self.ssd.admit(block, buffer)

    def stage(self, block: BlockId, buffer: Buffer) -> None:
        """Admit a block of a write that passes through here, whoever owns the object."""
        self.memory.admit(block, buffer)
        if self.ssd is not None:
            self.ssd.admit(block, buffer)

    def has(self, block: BlockId) -> bool:
        return self.memory.has(block) or (self.ssd is not None and self.ssd.has(block))

    async def read(self, block: BlockId, length: int, within: Span) -> Buffer | None:
        """Bytes `within` a block of `length` bytes from the SSD, or None; a block read whole moves up into memory, if
        it is worth it (`MemoryTier.is_admissible`)."""
        found = self.read_nowait(block, length, within)
        if not isinstance(found, Busy) or self.ssd is None:
            return None if isinstance(found, Busy | Miss) else found
        buffer = await self.ssd.read(block, length, within)
        if buffer is not None and len(buffer) == length and self.memory.is_admissible(block, length):
            self.memory.admit(block, buffer)
        return buffer

    def read_nowait(self, block: BlockId, length: int, within: Span) -> Buffer | Miss | Busy:
        """The same without waiting: Busy where the disk would have to be waited for."""
        if self.ssd is None:
            return MISS
        found = self.ssd.read_nowait(block, length, within)
        if isinstance(found, memoryview) and len(found) == length and self.memory.is_admissible(block, length):
            self.memory.admit(block, found)
        return found

    def verify_nowait(self, block: BlockId, length: int, within: Span, *, read: bool) -> VerifiedExtent | Miss | Busy:
        """Bytes `within` a block of `length` bytes on the SSD, checked where they lie, for those who send them from
        there; without waiting, and unless `read` without reading them, so that they must have been checked lately."""
        return MISS if self.ssd is None else self.ssd.verify_nowait(block, length, within, read=read)

    async def flush(self) -> None:
        """Until what was admitted so far is where it is to stay. For those who must not outrun the SSD."""
        if self.ssd is not None:
            await self.ssd.flush()

    async def forget(self, name: ObjectName, keep: Generation | None = None) -> None:
        """After this nothing of the object is found, also after a crash, but the blocks of the generation `keep`: bytes
        that were staged for the version that is about to become current."""
        self.memory.forget(name, keep)
        if self.ssd is not None:
            await self.ssd.forget(name, keep)
            self.memory.forget(name, keep)  # a reader may have moved the head up from the SSD meanwhile

    async def forget_bucket(self, bucket: str) -> None:
        self.memory.forget_bucket(bucket)
        if self.ssd is not None:
            await self.ssd.forget_bucket(bucket)
            self.memory.forget_bucket(bucket)

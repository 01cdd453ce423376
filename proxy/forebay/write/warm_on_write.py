"""Warm on write: under a rule that says so, a body is cut into blocks on its way to the origin and staged in the tiers.

    PutObject                  staged as it passes, installed when the origin has confirmed it
    UploadPart                 staged as it passes under a name of the upload's own; the multipart registry keeps where
    CompleteMultipartUpload    the parts' blocks are cut anew into those of the object, and installed

Staged blocks have a random generation. No reader finds them until the origin has confirmed the write and a head names
that generation (metadata.staged_objects); until then they are the first to be evicted. So only the block that is being
filled needs memory beside the tiers, and that comes from the buffer budget: where the budget has none, and for a body
that proves bad, the staging is discarded.

Best effort throughout: an object that could not be staged is fetched by its first reader.
"""

import secrets
from collections.abc import Sequence
from typing import Final

from forebay.core.buffers import Buffer, Piece
from forebay.core.byte_ranges import Span, block_count, block_span
from forebay.core.fair_semaphore import FairSemaphore
from forebay.core.names import BlockId, Generation, ObjectName, UploadKey
from forebay.core.task_registry import TaskRegistry
from forebay.metadata.staged_objects import StagedBody, StagedObjects
from forebay.origin.origin_identity import OriginIdentity
from forebay.policy.rules import Decision
from forebay.storage.slab_allocator import allocate_buffer
from forebay.storage.tiers import Tiers
from forebay.write.forward_request import ForwardRequest
from forebay.write.multipart.multipart_registry import MultipartRegistry

_STAGED: Final = frozenset({"PutObject", "UploadPart"})
# With these the object is not, or is not only, the body that passes through.
_UNFIT: Final = ("x-amz-server-side-encryption-customer-", "x-amz-write-offset-bytes")


class WarmOnWrite:
    """Stages blocks of bodies, and installs them."""

    def __init__(
        self,
        tiers: Tiers,
        budget: FairSemaphore,
        staged: StagedObjects,
        registry: MultipartRegistry,
        tasks: TaskRegistry,
    ) -> None:
        self._tiers = tiers
        self._budget = budget
        self._staged = staged
        self._registry = registry
        self._tasks = tasks

    def staging(self, forward: ForwardRequest, decision: Decision | None) -> "BlockStaging | None":
        """Returns the staging for the body of a write; None where it is not staged."""
        if decision is None or not (decision.accelerate and decision.warm_on_write):
            return None
        if forward.operation.name not in _STAGED or not forward.request.has_body:
            return None
        if any(name.lower().startswith(_UNFIT) for name in forward.request.headers):
            return None
        name = forward.upload.staging_name if forward.operation.name == "UploadPart" else forward.target.name
        return BlockStaging(self._tiers, self._budget, name, decision.block)

    def install(self, name: ObjectName, staged: StagedBody, identity: OriginIdentity | None) -> None:
        """Makes staged blocks the bytes of the object, after its second invalidation. `identity`: in whose name it was
        written."""
        self._staged.install(name, staged, identity)

    def join(self, upload: UploadKey, parts: Sequence[StagedBody], etag: str, identity: OriginIdentity | None) -> None:
        """Cuts the blocks of a completed upload's parts anew into those of the object, and installs them. Runs in the
        background."""
        self._tasks.spawn(self._join(upload, parts, etag, identity), f"join {upload.name.path}")

    async def _join(
        self, upload: UploadKey, parts: Sequence[StagedBody], etag: str, identity: OriginIdentity | None
    ) -> None:
        joined = BlockStaging(self._tiers, self._budget, upload.name, parts[0].block_size)
        try:
            await self._registry.flush_staged()
            await self._tiers.flush()  # the last part may still be on its way to the SSD
            for part in parts:
                if not await restage(self._tiers, upload.staging_name, part, joined):
                    return
            staged = joined.complete(etag)
            if staged is not None:
                self.install(upload.name, staged, identity)
        finally:
            joined.discard()


class BlockStaging:
    """One body on its way into the tiers, in pieces of any size."""

    def __init__(self, tiers: Tiers, budget: FairSemaphore, name: ObjectName, block_size: int) -> None:
        self._tiers = tiers
        self._budget = budget
        self._name = name
        self._block_size = block_size
        self.generation = Generation(secrets.token_bytes(8))
        self._block: memoryview | None = None
        self._filled = 0
        self._number = 0
        self._ended = False

    def append(self, piece: Piece) -> None:
        """Adds the next bytes of the body."""
        view = memoryview(piece)
        if self._budget.waiting:  # readers need the memory more, and this body may drip
            self.discard()
        while view and not self._ended:
            if self._block is None:
                if not self._budget.try_acquire(self._block_size):
                    self._ended = True
                    return
                self._block = allocate_buffer(self._block_size)
            count = min(len(view), self._block_size - self._filled)
            self._block[self._filled : self._filled + count] = view[:count]
            self._filled += count
            view = view[count:]
            if self._filled == self._block_size:
                self._admit(self._block)

    def complete(self, etag: str) -> StagedBody | None:
        """Stages the last block. Returns the staged object, as the version with this ETag; None if it was discarded."""
        if self._ended:
            return None
        size = self._number * self._block_size + self._filled
        if self._block is not None:
            self._admit(memoryview(bytes(self._block[: self._filled])))
        self._ended = True
        return StagedBody(self.generation, self._block_size, size, etag)

    def discard(self) -> None:
        """Releases the block that is being filled. Idempotent, and harmless after `complete`."""
        self._ended = True
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
    """Reads staged blocks back and appends them to another staging; False if some are not there any more."""
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

"""The body of a hit: bytes in memory, or on the SSD and in the page cache. Nothing here waits.

    small, or through TLS        buffers        memory as it is; read from the SSD and verified
    large, on a plain socket     file extents   of shared blocks in memory, or of SSD segments that are verified now or
                                                were recently; the kernel sends them by itself
                                                (forebay.server.http.sendfile_writer)

Memory blocks of repeated large hits are moved into shared memory, from where they can be sent as extents
(`Promotion.record_hit`). An SSD block that is read whole is admitted to memory when that pays off
(`MemoryTier.is_admissible`), which takes a buffer. A block that can be sent from the SSD is admitted only into free
memory: sending it costs no more, and admitting it would evict blocks that do cost more.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span, blocks_touching
from forebay.core.fair_semaphore import SemaphoreShare
from forebay.core.names import BlockId
from forebay.core.request_record import CacheStatus
from forebay.server.fastpath.client_state import ClientState
from forebay.server.fastpath.direct_reply import MAX_JOINED_SIZE
from forebay.server.fastpath.lane_answer import FileExtent
from forebay.server.fastpath.prepared_response import PreparedResponse
from forebay.storage.memory.shared_blocks import MIN_SHARED_BYTES, SharedBlock
from forebay.storage.ssd.segments.verified_extents import VerifiedExtent
from forebay.storage.tiers import Tiers

HitBytes: TypeAlias = tuple[Sequence[Buffer], Sequence[FileExtent], CacheStatus]
"""The bytes as buffers or as file extents, and their cache status."""

MAX_BODY_SIZE: Final = 16 << 20
"""Bytes of a body up to which it is answered here. The full lane sends a larger one block by block at no greater
cost."""
MIN_SENDFILE_SIZE: Final = 64 << 10
"""Bytes of a body from which on it is sent from its SSD segment. A smaller one costs less to read."""
_MAX_READ_SIZE: Final = 1 << 20
"""Bytes of a body up to which it is read from the SSD here: reading and verifying blocks the loop, some 150 us for each
MiB. The full lane reads a larger body block by block; after that it is verified and sent from here."""


class HitBody:
    """Finds the bodies of hits in the tiers of one worker."""

    def __init__(self, tiers: Tiers, unsent: SemaphoreShare) -> None:
        """`unsent`: bytes that may wait for slow clients."""
        self._tiers = tiers
        self._unsent = unsent
        self._memory = tiers.memory

    def find(self, prepared: PreparedResponse, span: Span, client: ClientState) -> HitBytes | None:
        """Returns the bytes of the non-empty `span`; None: they are too many, or not readable without waiting."""
        start, stop = span
        length = stop - start
        if length > MAX_JOINED_SIZE and (length > MAX_BODY_SIZE or not self._unsent.has(length)):
            return None
        buffer = self._memory.get(prepared.block) if prepared.block is not None else None
        if buffer is not None and length < MIN_SHARED_BYTES:  # as most are
            return (buffer if length == prepared.size else buffer[start:stop],), (), "hit-memory"
        sender = client.sender if length >= MIN_SENDFILE_SIZE else None
        if sender is None:
            return self._buffers(prepared, span, length)
        if buffer is not None:
            shared = buffer.obj
            if isinstance(shared, SharedBlock):
                return (), ((shared, shared.offset + start, shared.offset + stop, None),), "hit-memory"
        return self._extents(prepared, span, length, sender.unpromoted_hits)

    def _buffers(self, prepared: PreparedResponse, span: Span, size: int) -> HitBytes | None:
        if size > _MAX_READ_SIZE and not all(self._memory.has(block) for block, _, _ in _blocks(prepared, span)):
            return None
        pieces: list[Buffer] = []
        cache: CacheStatus = "hit-memory"
        for block, length, within in _blocks(prepared, span):
            buffer = self._memory.get(block)
            if buffer is not None:
                pieces.append(buffer[within.start : within.stop])
                continue
            found = self._tiers.read_nowait(block, length, within)
            if not isinstance(found, memoryview):
                return None
            pieces.append(found)
            cache = "hit-ssd"
        return pieces, (), cache

    def _extents(self, prepared: PreparedResponse, span: Span, size: int, unpromoted_hits: int) -> HitBytes | None:
        """Returns buffers for blocks in memory that is not shared, and for blocks to be admitted to memory."""
        extents: list[FileExtent] = []
        cache: CacheStatus = "hit-memory"
        for block, length, within in _blocks(prepared, span):
            start, stop = within
            buffer = self._memory.get(block)
            if buffer is not None:
                shared = buffer.obj
                if not isinstance(shared, SharedBlock):
                    if size >= MIN_SHARED_BYTES:
                        self._memory.promotion.record_hit(
                            prepared.name, lambda: [block for block, _, _ in _blocks(prepared, span)], unpromoted_hits
                        )
                    return self._buffers(prepared, span, size)
                extents.append((shared, shared.offset + start, shared.offset + stop, None))
                continue
            if stop - start == length and self._memory.has_space(length):
                return self._buffers(prepared, span, size)
            found = self._tiers.verify_nowait(block, length, within, read=size <= _MAX_READ_SIZE)
            if not isinstance(found, VerifiedExtent):
                return None
            extents.append((found.file, found.offset, found.offset + stop - start, found))
            cache = "hit-ssd"
        return (), extents, cache


def _blocks(prepared: PreparedResponse, span: Span) -> Sequence[tuple[BlockId, int, Span]]:
    """The blocks that `span` touches, the length of each, and the part of it that lies in `span`."""
    if prepared.block is not None:
        return ((prepared.block, prepared.size, span),)
    head = prepared.head
    size, generation, name = head.block_size, head.generation, prepared.name
    start, stop = span
    number = start // size
    first = number * size
    if stop <= first + size:  # as most ranges are
        return ((BlockId(name, generation, number), min(size, head.size - first), Span(start - first, stop - first)),)
    blocks = []
    for number in blocks_touching(span, size):
        first = number * size
        within = Span(max(start - first, 0), min(stop - first, size))
        blocks.append((BlockId(name, generation, number), min(size, head.size - first), within))
    return blocks

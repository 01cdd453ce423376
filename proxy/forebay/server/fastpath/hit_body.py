"""The bytes of a hit: in memory, or on the SSD where the page cache has them. Nothing here waits.

    small, or through TLS        buffers           memory as it is; from the SSD read, and checked
    large, on a plain socket     stretches         of shared blocks in memory, or of segments on the SSD, checked now or
                                                   lately: the kernel sends them by itself
                                                   (forebay.server.http.sendfile_writer)

Blocks in memory that large hits ask for again and again are moved to where they can be sent as stretches
(forebay.storage.memory.promotion). What is read from the SSD whole moves up into memory when it is worth it
(MemoryTier.is_admissible), which takes a buffer. What can be sent from where it lies does so only where memory has
room: it costs no more there, and would push out what does.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span, blocks_touching
from forebay.core.names import BlockId
from forebay.core.request_record import CacheStatus
from forebay.server.fastpath.prepared_response import PreparedResponse
from forebay.server.http.sendfile_writer import FileExtent
from forebay.storage.memory.shared_blocks import MIN_SHARED_BYTES, SharedBlock
from forebay.storage.ssd.verified_blocks import VerifiedExtent
from forebay.storage.tiers import Tiers

HitBytes: TypeAlias = tuple[Sequence[Buffer], Sequence[FileExtent], CacheStatus]
"""The bytes in one form or the other, and where they were."""

MIN_SENDFILE_SIZE: Final = 64 << 10
"""Bytes of an answer from which on it is sent from where it lies on the SSD. Below, reading it costs less."""
_MAX_READ_SIZE: Final = 1 << 20
"""Bytes of an answer that may be read from the SSD here: reading and checking them keeps the loop, some 150 us for each
MiB. The full lane reads a larger one block by block; once it has, it is checked, and sent from here."""


class HitBody:
    """Finds them in the tiers of one worker."""

    def __init__(self, tiers: Tiers) -> None:
        self._tiers = tiers
        self._memory = tiers.memory

    def find(self, prepared: PreparedResponse, span: Span, *, direct: bool) -> HitBytes | None:
        """The bytes `span`, which is not empty; None if they can't be had without waiting. `direct`: the connection can
        send stretches now."""
        length = span.stop - span.start
        direct = direct and length >= MIN_SENDFILE_SIZE
        if prepared.block is not None and (not direct or length < MIN_SHARED_BYTES):
            block = self._memory.get(prepared.block)
            if block is not None:
                return (
                    (block if len(block) == length else block[span.start : span.stop],),
                    (),
                    "hit-memory",
                )
        return self._stretches(prepared, span, length) if direct else self._buffers(prepared, span, length)

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

    def _stretches(self, prepared: PreparedResponse, span: Span, size: int) -> HitBytes | None:
        """Buffers where some of the blocks are in memory, but not shared, or are to move up into it."""
        stretches: list[FileExtent] = []
        cache: CacheStatus = "hit-memory"
        for block, length, within in _blocks(prepared, span):
            start, stop = within
            buffer = self._memory.get(block)
            if buffer is not None:
                shared = buffer.obj
                if not isinstance(shared, SharedBlock):
                    if size >= MIN_SHARED_BYTES:
                        self._promote(prepared, span)
                    return self._buffers(prepared, span, size)
                stretches.append((shared, shared.offset + start, shared.offset + stop, None))
                continue
            if stop - start == length and self._memory.has_space(length):
                return self._buffers(prepared, span, size)
            found = self._tiers.verify_nowait(block, length, within, read=size <= _MAX_READ_SIZE)
            if not isinstance(found, VerifiedExtent):
                return None
            stretches.append((found.file, found.offset, found.offset + stop - start, found))
            cache = "hit-ssd"
        return (), stretches, cache

    def _promote(self, prepared: PreparedResponse, span: Span) -> None:
        self._memory.record_large_hit(prepared.name, lambda: [block for block, _, _ in _blocks(prepared, span)])


def _blocks(prepared: PreparedResponse, span: Span) -> Sequence[tuple[BlockId, int, Span]]:
    """The blocks that `span` touches, their lengths, and what is wanted of each."""
    if prepared.block is not None:
        return ((prepared.block, prepared.size, span),)
    head = prepared.head
    size, generation, name = head.block_size, head.generation, prepared.name
    start, stop = span
    number = start // size
    first = number * size
    if stop <= first + size:  # as most ranges are
        return ((BlockId(name, generation, number), min(size, head.size - first), Span(start - first, stop - first)),)
    touched = []
    for number in blocks_touching(span, size):
        first = number * size
        within = Span(max(start - first, 0), min(stop - first, size))
        touched.append((BlockId(name, generation, number), min(size, head.size - first), within))
    return touched

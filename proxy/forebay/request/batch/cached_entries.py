"""Entries of a batch that are in the tiers: found without waiting, as the fast lane finds hits.

Entries of one block, in memory, or on the SSD and in the page cache. All others take the way of a GET.
"""

from typing import Final, Literal, NamedTuple

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span
from forebay.core.events import ObjectRead
from forebay.core.heads import Head
from forebay.core.names import BlockId
from forebay.core.read_stream import ReadStream
from forebay.metadata.resolver import Resolver
from forebay.protocol.batch.batch_request import BatchEntry
from forebay.request.admission import Admission
from forebay.storage.tiers import Tiers

_MAX_READ_SIZE: Final = 1 << 20
"""Bytes that are read from the SSD here: reading and verifying them blocks the loop."""


class CachedEntry(NamedTuple):
    """The bytes of an entry."""

    head: Head
    span: Span
    buffer: Buffer
    source: Literal["memory", "ssd"]


class CachedEntries:
    """Finds entries in the tiers of one worker."""

    def __init__(self, resolver: Resolver, tiers: Tiers, reads: ReadStream) -> None:
        self._resolver = resolver
        self._tiers = tiers
        self._memory = tiers.memory
        self._reads = reads

    def find(self, admission: Admission, entry: BatchEntry, *, no_cache: bool) -> CachedEntry | None:
        """The bytes of an admitted entry, or None if they can't be had without waiting."""
        decision, name = admission.decision, admission.target.name
        if decision is None or not decision.accelerate or not admission.permit.covers(name):
            return None
        head = self._resolver.fresh_head(name, decision, no_cache=no_cache, identity=admission.identity)
        if head is None:
            return None
        if entry.start >= head.size and not entry.is_whole:
            return None
        span = Span(entry.start, head.size if entry.end is None else min(entry.end, head.size))
        if not span.length:
            return CachedEntry(head, span, memoryview(b""), "memory")
        number, last = span.start // head.block_size, (span.stop - 1) // head.block_size
        if number != last:
            return None
        first = number * head.block_size
        within = Span(span.start - first, span.stop - first)
        return self._read(head, span, BlockId(name, head.generation, number), within)

    def _read(self, head: Head, span: Span, block: BlockId, within: Span) -> CachedEntry | None:
        buffer = self._memory.get(block)
        if buffer is not None:
            return CachedEntry(head, span, buffer[within.start : within.stop], "memory")
        if span.length > _MAX_READ_SIZE:
            return None
        length = min(head.block_size, head.size - block.number * head.block_size)
        found = self._tiers.read_nowait(block, length, within)
        return CachedEntry(head, span, found, "ssd") if isinstance(found, memoryview) else None

    def report(self, admission: Admission, found: CachedEntry) -> None:
        """Adds the read to the worker's stream."""
        decision = admission.decision
        if not self._reads.is_open or decision is None or not found.span.length:
            return
        name, size, principal = admission.target.name, found.head.size, admission.principal.id
        cache: Literal["hit-memory", "hit-ssd"] = "hit-memory" if found.source == "memory" else "hit-ssd"
        self._reads.add(ObjectRead(name, found.span, size, principal, decision.rule, cache, 1.0, decision.track))

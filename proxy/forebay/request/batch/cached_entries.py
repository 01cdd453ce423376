"""Entries of a batch that are in the tiers: found without waiting, as the fast lane finds hits.

    admit > fresh head > range > tiers      entries of one block, in memory, or on the SSD and in the page cache

For an output that takes entries where they lie (file_output), large ones, of several blocks too, are found in the files
of the memory tier; reading one again and again brings its blocks there.

All others take the way of a GET. The result of these steps for an object in memory is kept beside its head
(PreparedEntry), for the next batch of the same principal under the same policy:

    policy > freshness of the head > range > memory

Members of packs whose shard is in the tiers are found likewise: their head is that of the pack's index, their bytes are
a span of the shard (metadata.packed_objects).
"""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span, blocks_touching
from forebay.core.events import ObjectRead
from forebay.core.heads import Head
from forebay.core.names import BlockId
from forebay.core.read_log import NO_LOG, LogContext, ReadLog
from forebay.core.read_stream import ReadStream
from forebay.metadata.packed_objects import PackedObjects
from forebay.metadata.resolver import Resolver
from forebay.policy.freshness import freshness_lifetime
from forebay.protocol.batch.batch_request import BatchEntry
from forebay.request.admission import Admission, AdmittedEntry, EntryAdmission, GatewayPolicy
from forebay.storage.memory.head_attachments import HeadAttachments
from forebay.storage.memory.promotion import MAPPED_HITS
from forebay.storage.memory.shared_blocks import MIN_SHARED_BYTES, SharedBlock, SharedExtent
from forebay.storage.tiers import Tiers

_MAX_READ_SIZE: Final = 1 << 20
"""Bytes that are read from the SSD here: reading and verifying them blocks the loop."""
_OVERHEAD: Final = 1050
"""Bytes of the objects of a prepared entry, beside the key."""

EntrySource: TypeAlias = Literal["memory", "ssd"]


class PreparedEntry:
    """The read of one object by one principal, admitted under one policy, and the head that answers it."""

    __slots__ = ("admitted", "block", "fresh_from", "fresh_until", "head", "policy", "read_code", "read_log")

    def __init__(self, policy: GatewayPolicy, admitted: AdmittedEntry, head: Head) -> None:
        self.policy, self.admitted, self.head = policy, admitted, head
        self.block = BlockId(admitted.name, head.generation, 0)
        """The first block."""
        self.fresh_from, self.fresh_until = freshness_lifetime(head.validated_at, admitted.decision.freshness)
        self.read_log: ReadLog = NO_LOG
        """The log that has reads of all of it, and the code of such a read there (core.read_stream.add_whole)."""
        self.read_code = 0

    @property
    def cost(self) -> int:
        """Bytes that it takes."""
        return _OVERHEAD + len(self.admitted.name.key)


CachedEntry: TypeAlias = tuple[PreparedEntry, Span | None, Buffer, EntrySource]
"""The bytes of an entry, and which of the object's they are; None: all. A plain tuple, as an instance of a class takes
ten times as long to make."""


class EntryInFiles(NamedTuple):
    """The extents of a large entry in files of the memory tier."""

    prepared: PreparedEntry
    span: Span
    extents: Sequence[SharedExtent]


class CachedEntries:
    """The tiers of one worker, as batches look into them."""

    def __init__(self, resolver: Resolver, packed: PackedObjects, tiers: Tiers, reads: ReadStream) -> None:
        self.resolver, self.packed, self.tiers, self.reads = resolver, packed, tiers, reads
        self.prepared = HeadAttachments[PreparedEntry](tiers.memory)


class BatchLookup:
    """Admits the entries of one batch, and looks for their bytes."""

    def __init__(self, cached: CachedEntries, admission: Admission, *, no_cache: bool, in_files: bool = False) -> None:
        """`admission`: of the batch. `no_cache`: each object is to be validated at the origin. `in_files`: large
        entries may be passed in files."""
        self._cached, self._policy, self._identity = cached, admission.policy, admission.identity
        self._principal = admission.principal.id
        self._resolver, self._tiers, self._memory = cached.resolver, cached.tiers, cached.tiers.memory
        self._packed = cached.packed
        self.admission = EntryAdmission(admission)
        self._no_cache, self._in_files = no_cache, in_files
        self._is_prepared = not no_cache and admission.identity is None
        self._prefix = f"{self._principal}\0{admission.target.bucket}\0".encode()
        self._get_prepared = cached.prepared.by_key.get
        self._get_block, self._mark_used = self._memory.get, self._memory.heads.mark_used
        self._in_doubt_writes, self._clock = cached.resolver.heads.in_doubt_writes, cached.resolver.heads.clock

    def find(self, entry: BatchEntry) -> CachedEntry | EntryInFiles | AdmittedEntry | None:
        """The bytes of an entry; it is only admitted if they can't be had without waiting, and None if it is denied."""
        key, start, end, _ = entry
        prepared = self._get_prepared(self._prefix + key.encode()) if self._is_prepared else None
        if (
            prepared is None
            or prepared.policy is not self._policy
            or self._in_doubt_writes.marked
            or not prepared.fresh_from <= self._clock() < prepared.fresh_until
        ):
            return self._find_unprepared(entry)
        buffer = self._get_block(prepared.block)
        if buffer is None:
            return self._find_unprepared(entry)
        self._mark_used(prepared.block.object)
        if not start and end is None:
            return prepared, None, buffer, "memory"
        size = prepared.head.size
        if start >= size:
            return prepared.admitted
        span = Span(start, size if end is None or end > size else end)
        return prepared, span, buffer[span.start : span.stop], "memory"

    def find_in_files(self, found: CachedEntry) -> EntryInFiles | None:
        """A large entry of one block in memory, if that is in a file."""
        prepared, span, buffer, _ = found
        if self._resolver.heads.current(prepared.admitted.name) is not prepared.head:  # a member of a pack
            return None
        return self._shared(prepared, span or Span(0, len(buffer)))

    def _shared(self, prepared: PreparedEntry, span: Span) -> EntryInFiles | None:
        """Returns the entry in files; None: not all of its blocks are in files. Those in memory will be, if they are
        read again and again."""
        name, head, extents = prepared.admitted.name, prepared.head, list[SharedExtent]()
        blocks = [BlockId(name, head.generation, number) for number in blocks_touching(span, head.block_size)]
        for block in blocks:
            buffer = self._get_block(block)
            if buffer is None:
                return None
            shared, first = buffer.obj, block.number * head.block_size
            if isinstance(shared, SharedBlock):
                start, stop = max(span.start - first, 0), min(span.stop - first, len(buffer))
                extents.append((shared, shared.offset + start, shared.offset + stop, None))
        if len(extents) == len(blocks):
            return EntryInFiles(prepared, span, extents)
        self._memory.promotion.record_hit(name, lambda: blocks, MAPPED_HITS)
        return None

    def _find_unprepared(self, entry: BatchEntry) -> CachedEntry | EntryInFiles | AdmittedEntry | None:
        admitted = self.admission.admit(entry.key)
        if admitted is None:
            return None
        name, _, decision = admitted
        if not decision.accelerate:
            return admitted
        head = self._resolver.fresh_head(name, decision, no_cache=self._no_cache, identity=self._identity)
        if head is None and decision.packed is not None:
            return self._find_member(entry, admitted)
        if head is None or (entry.start >= head.size and not entry.is_whole):
            return admitted
        prepared = PreparedEntry(self._policy, admitted, head)
        span = _span(entry, head)
        if not span.length:
            return prepared, span, memoryview(b""), "memory"
        number, last = span.start // head.block_size, (span.stop - 1) // head.block_size
        if number != last:
            is_large = self._in_files and span.length >= MIN_SHARED_BYTES
            return (self._shared(prepared, span) if is_large else None) or admitted
        first = number * head.block_size
        block, within = BlockId(name, head.generation, number), Span(span.start - first, span.stop - first)
        buffer = self._get_block(block)
        if buffer is not None:
            if self._is_prepared and head.size <= head.block_size:
                self._cached.prepared.attach(name, head, self._prefix + name.key.encode(), prepared)
            return prepared, span, buffer[within.start : within.stop], "memory"
        found = self._read_ssd(block, head, within)
        return (prepared, span, found, "ssd") if found is not None else admitted

    def _find_member(self, entry: BatchEntry, admitted: AdmittedEntry) -> CachedEntry | AdmittedEntry:
        """An entry that may be a member of a pack. One of two blocks is copied."""
        found = self._packed.member_nowait(admitted.name, admitted.decision) if self._is_prepared else None
        if found is None or (entry.start >= found[0].size and not entry.is_whole):
            return admitted
        shown, stored = found
        shard, head, offset = stored.name, stored.head, stored.offset
        span, pieces = _span(entry, shown), list[Buffer]()
        source: EntrySource = "memory"
        start, stop = span.start + offset, span.stop + offset
        if stop - start > _MAX_READ_SIZE:
            return admitted
        while start < stop:
            number = start // head.block_size
            first = number * head.block_size
            block = BlockId(shard, head.generation, number)
            within = Span(start - first, min(stop - first, head.block_size))
            buffer = self._get_block(block)
            if buffer is not None:
                pieces.append(buffer[within.start : within.stop])
            else:
                read = self._read_ssd(block, head, within)
                if read is None:
                    return admitted
                pieces.append(read)
                source = "ssd"
            start = first + within.stop
        self._memory.head(shard)  # a use
        content = pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))
        return PreparedEntry(self._policy, admitted, shown), span, content, source

    def _read_ssd(self, block: BlockId, head: Head, within: Span) -> Buffer | None:
        """A part of a block on the SSD, if it is in the page cache and small."""
        if within.length > _MAX_READ_SIZE:
            return None
        length = min(head.block_size, head.size - block.number * head.block_size)
        found = self._tiers.read_nowait(block, length, within)
        return found if isinstance(found, memoryview) else None

    def report(self, prepared: PreparedEntry, span: Span | None, source: EntrySource) -> None:
        """Adds a read to the worker's stream; `span` None: of all, from memory, of an entry that stays prepared."""
        reads = self._cached.reads
        if not reads.is_open:
            return
        name, _, decision = prepared.admitted
        if span is None:
            if prepared.read_log.is_active:
                prepared.read_log.append(prepared.read_code)
                return
            context, size = LogContext(name.bucket, self._principal, decision.rule, decision.track), prepared.head.size
            noted = reads.add_whole(context, name.key, size, prepared.read_log, prepared.read_code)
            prepared.read_log, prepared.read_code = noted
            return
        if not span.length:
            return
        cache: Literal["hit-memory", "hit-ssd"] = "hit-memory" if source == "memory" else "hit-ssd"
        size = prepared.head.size
        reads.add(ObjectRead(name, span, size, self._principal, decision.rule, cache, 1.0, decision.track))


def _span(entry: BatchEntry, head: Head) -> Span:
    """The bytes that an entry wants of an object with this head."""
    return Span(entry.start, head.size if entry.end is None else min(entry.end, head.size))

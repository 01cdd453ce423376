"""Reclaim (compaction): the oldest segment is deleted, its referenced blocks are rewritten first.

One bounded step at a time, on the writer's thread, never in a request:

    choose -> scan some hundred records: the referenced ones are rewritten, rows of the others are deleted -> ...
           -> heads of objects that have no blocks left are deleted -> the file is deleted

Segments are chosen by age, and reference bits give a block a second chance (CLOCK). An object that is read all the time
is rewritten again and again, which costs one sequential copy per turn of the whole tier.

Invariants:
- a row is changed only if it still points to the record in the old segment;
- the copy is written before the row points to it, and the row points elsewhere before the file is deleted;
- at most half of a segment's bytes is rewritten, so each deleted segment frees space;
- a failed rewrite costs the blocks, not the progress.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import lmdb

from forebay.core.byte_ranges import Span
from forebay.core.events import BlocksEvicted, CorruptionFound, Observe, TierFailed
from forebay.storage.ssd.addressing import OBJECT_ADDRESS
from forebay.storage.ssd.index import BlockLocation
from forebay.storage.ssd.index_updates import IndexUpdates
from forebay.storage.ssd.record_reads import Corrupt, read_record
from forebay.storage.ssd.recovery import OpenDirectory
from forebay.storage.ssd.segment_appender import EncodedRecord, SegmentAppender, encode_record
from forebay.storage.ssd.segments import ScannedRecord, SegmentFile, scan_segment
from forebay.storage.ssd.space_accounting import HEADS_SHARE
from forebay.storage.ssd.write_queue import WriteQueue

RECORDS_AT_ONCE: Final = 256
BYTES_AT_ONCE: Final = 8 * 1024 * 1024
HEADS_AT_ONCE: Final = 1024


@dataclass(slots=True)
class _Victim:
    """The segment that is being reclaimed."""

    number: int
    file: SegmentFile | None
    records: Iterator[ScannedRecord]
    allowance: int
    """Bytes that may still be rewritten."""
    objects: set[bytes] = field(default_factory=set)
    blocks: int = 0
    size: int = 0


class Reclaim:
    """Reclaims the segments of one directory."""

    def __init__(self, opened: OpenDirectory, appender: SegmentAppender, queue: WriteQueue, observe: Observe) -> None:
        self._index = opened.index
        self._segments = opened.segments
        self._space = opened.space
        self._references = opened.references
        self._appender = appender
        self._queue = queue
        self._observe = observe
        self._victim: _Victim | None = None
        self._hand = b""
        self._is_shrinking = False

    @property
    def is_running(self) -> bool:
        """Whether a segment is partly reclaimed."""
        return self._victim is not None

    def step(self) -> bool:
        """Does one step. Returns False if there was nothing to do. Raises lmdb.Error if the index fails."""
        if self._victim is None:
            self._victim = self._choose()
            if self._victim is None:
                return False
        victim = self._victim
        try:
            found = _next_records(victim.records)
        except OSError as error:
            # What can't be scanned can't be read either: its rows go when somebody reads them.
            self._observe(TierFailed("ssd", "reclaim", str(error)))
            found = []
        if found:
            self._reclaim_records(victim, found)
        else:
            self._finish(victim)
            self._victim = None
        return True

    def sweep_heads(self) -> bool:
        """Deletes some unreferenced heads without blocks, if heads take more than their share. Returns whether any was
        deleted. The hand goes round through all addresses."""
        if self._index.heads_size() * HEADS_SHARE <= self._space.capacity:
            return False
        heads = [address for address, _ in self._index.heads_after(self._hand, HEADS_AT_ONCE)]
        self._hand = heads[-1] if len(heads) == HEADS_AT_ONCE else b""
        return self._remove_heads([address for address in heads if not self._references.test_and_clear(address)])

    def _choose(self) -> _Victim | None:
        self._is_shrinking = self._space.is_exceeded
        for number in self._space.segments():
            if number == self._appender.current:
                if not self._is_shrinking or self._space.size_of(number) == 0:
                    continue
                self._appender.finish()  # all that is left is too much: the current segment goes as well
            elif self._segments.has_writer(number):
                continue
            try:
                file = self._segments.open_reader(number)
            except OSError as error:
                self._observe(TierFailed("ssd", "reclaim", str(error)))
                file = None
            if file is None:
                return _Victim(number, None, iter(()), 0)
            size = file.size()
            return _Victim(number, file, scan_segment(file, number, size), size // 2)
        return None

    def _reclaim_records(self, victim: _Victim, found: list[ScannedRecord]) -> None:
        victim.objects.update(record.address[:OBJECT_ADDRESS] for record in found)
        locations = self._index.locations([record.address for record in found])
        live = [record for record, location in zip(found, locations, strict=True) if location == record.location]
        rewritten = self._rewrite_referenced(victim, live)
        with self._index.write_transaction() as txn:
            updates = IndexUpdates(txn, self._index.tables)
            for record in live:
                new = rewritten.get(record.address)
                if updates.move_block(record.address, record.location, new) and new is None:
                    victim.blocks += 1
                    victim.size += record.location.length

    def _rewrite_referenced(self, victim: _Victim, live: list[ScannedRecord]) -> dict[bytes, BlockLocation]:
        """Appends the referenced records among the live ones again and returns their new locations."""
        addresses: list[bytes] = []
        records: list[EncodedRecord] = []
        for record in live:
            if not self._references.test_and_clear(record.address) or self._is_shrinking:
                continue
            copy = self._copy(victim, record)
            if copy is not None and copy.size <= victim.allowance:
                victim.allowance -= copy.size
                addresses.append(record.address)
                records.append(copy)
        if not records:
            return {}
        try:
            return dict(zip(addresses, self._appender.append(records), strict=True))
        except (OSError, lmdb.Error) as error:
            self._observe(TierFailed("ssd", "reclaim", str(error)))
            return {}

    def _copy(self, victim: _Victim, record: ScannedRecord) -> EncodedRecord | None:
        if victim.file is None:
            return None
        whole = Span(0, record.location.length)
        try:
            payload = read_record(victim.file, record.location, record.address, whole, wait=True)
        except OSError as error:
            self._observe(TierFailed("ssd", "reclaim", str(error)))
            return None
        if isinstance(payload, memoryview):
            return encode_record(record.address, payload)
        if isinstance(payload, Corrupt):
            self._observe(CorruptionFound("ssd", payload.reason))
        return None

    def _finish(self, victim: _Victim) -> None:
        for start in range(0, len(objects := list(victim.objects)), HEADS_AT_ONCE):
            self._remove_heads(objects[start : start + HEADS_AT_ONCE])
        with self._index.write_transaction() as txn:
            IndexUpdates(txn, self._index.tables).remove_segment(victim.number)
        self._space.remove(victim.number)
        try:
            self._segments.delete(victim.number)
        except OSError as error:
            self._observe(TierFailed("ssd", "reclaim", str(error)))
        if victim.blocks:
            self._observe(
                BlocksEvicted("ssd", victim.blocks, victim.size, "resize" if self._is_shrinking else "capacity")
            )

    def _remove_heads(self, addresses: list[bytes]) -> bool:
        """Removes the heads of those objects that have no blocks, and none queued. Returns whether there were any."""
        bare = [address for address in self._index.without_blocks(addresses) if not self._queue.has_pending(address)]
        if bare:
            with self._index.write_transaction() as txn:
                updates = IndexUpdates(txn, self._index.tables)
                for address in bare:
                    updates.remove_head_at(address)
        return bool(bare)


def _next_records(records: Iterator[ScannedRecord]) -> list[ScannedRecord]:
    found: list[ScannedRecord] = []
    size = 0
    for record in islice(records, RECORDS_AT_ONCE):
        found.append(record)
        size += record.location.length
        if size >= BYTES_AT_ONCE:
            break
    return found

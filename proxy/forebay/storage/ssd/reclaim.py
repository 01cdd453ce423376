"""Reclaim: the oldest segment goes, what was used of it goes on.

One bounded step at a time, on the writer's thread, never in a request:

    choose -> walk a few hundred records: the used ones are carried over, rows of the rest are deleted -> ...
           -> heads of objects that have no blocks left are deleted -> the file is deleted

Invariants:
- a row is changed only if it still points to the record that is being left;
- the new copy is written before the row points to it, and the row points elsewhere before the file is deleted;
- at most half of a segment's bytes is carried over, so each segment that goes makes room;
- a failure while carrying over costs the blocks, not the progress.

A segment goes by its age, not by its use: an object that is read all the time is carried over again and again, which
costs one sequential copy per turn of the whole tier.
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
from forebay.storage.ssd.segment_scan import ScannedRecord, scan_segment
from forebay.storage.ssd.segments import SegmentFile
from forebay.storage.ssd.space_accounting import HEADS_SHARE
from forebay.storage.ssd.write_queue import WriteQueue

RECORDS_AT_ONCE: Final = 256
BYTES_AT_ONCE: Final = 8 * 1024 * 1024
HEADS_AT_ONCE: Final = 1024


@dataclass(slots=True)
class _Victim:
    """The segment that is being left."""

    number: int
    file: SegmentFile | None
    records: Iterator[ScannedRecord]
    carry: int
    """Bytes that may still be carried over."""
    objects: set[bytes] = field(default_factory=set)
    blocks: int = 0
    size: int = 0


class Reclaim:
    """See the module."""

    def __init__(self, opened: OpenDirectory, appender: SegmentAppender, backlog: WriteQueue, observe: Observe) -> None:
        self._index = opened.index
        self._segments = opened.segments
        self._space = opened.space
        self._touched = opened.references
        self._appender = appender
        self._backlog = backlog
        self._observe = observe
        self._leaving: _Victim | None = None
        self._hand = b""
        self._shrinking = False

    @property
    def is_running(self) -> bool:
        return self._leaving is not None

    def step(self) -> bool:
        """Do a little; False if there was nothing that could be done. lmdb.Error if the index fails."""
        if self._leaving is None:
            self._leaving = self._choose()
            if self._leaving is None:
                return False
        leaving = self._leaving
        try:
            found = _some(leaving.records)
        except OSError as error:
            # What can't be walked can't be read either: its rows go when somebody asks for them.
            self._observe(TierFailed("ssd", "reclaim", str(error)))
            found = []
        if found:
            self._leave(leaving, found)
        else:
            self._finish(leaving)
            self._leaving = None
        return True

    def sweep_heads(self) -> bool:
        """Delete a few heads that have no blocks and were not used, if heads take more than their share; whether any
        was deleted. The hand goes round through all addresses."""
        if self._index.heads_size() * HEADS_SHARE <= self._space.capacity:
            return False
        heads = [address for address, _ in self._index.heads_after(self._hand, HEADS_AT_ONCE)]
        self._hand = heads[-1] if len(heads) == HEADS_AT_ONCE else b""
        return self._remove_heads([address for address in heads if not self._touched.test_and_clear(address)])

    def _choose(self) -> _Victim | None:
        self._shrinking = self._space.is_exceeded
        for number in self._space.segments():
            if number == self._appender.current:
                if not self._shrinking or self._space.size_of(number) == 0:
                    continue
                self._appender.finish()  # all that is left is too much: nothing is sacred
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

    def _leave(self, leaving: _Victim, found: list[ScannedRecord]) -> None:
        leaving.objects.update(record.address[:OBJECT_ADDRESS] for record in found)
        places = self._index.locations([record.address for record in found])
        live = [record for record, place in zip(found, places, strict=True) if place == record.place]
        moved = self._carry_over(leaving, live)
        with self._index.write_transaction() as txn:
            changes = IndexUpdates(txn, self._index.tables)
            for record in live:
                new = moved.get(record.address)
                if changes.move_block(record.address, record.place, new) and new is None:
                    leaving.blocks += 1
                    leaving.size += record.place.length

    def _carry_over(self, leaving: _Victim, live: list[ScannedRecord]) -> dict[bytes, BlockLocation]:
        """Write the used ones among the live again; where each lies now."""
        addresses: list[bytes] = []
        records: list[EncodedRecord] = []
        for record in live:
            if not self._touched.test_and_clear(record.address) or self._shrinking:
                continue
            copy = self._copy(leaving, record)
            if copy is not None and copy.size <= leaving.carry:
                leaving.carry -= copy.size
                addresses.append(record.address)
                records.append(copy)
        if not records:
            return {}
        try:
            return dict(zip(addresses, self._appender.append(records), strict=True))
        except (OSError, lmdb.Error) as error:
            self._observe(TierFailed("ssd", "reclaim", str(error)))
            return {}

    def _copy(self, leaving: _Victim, record: ScannedRecord) -> EncodedRecord | None:
        if leaving.file is None:
            return None
        whole = Span(0, record.place.length)
        try:
            payload = read_record(leaving.file, record.place, record.address, whole, wait=True)
        except OSError as error:
            self._observe(TierFailed("ssd", "reclaim", str(error)))
            return None
        if isinstance(payload, memoryview):
            return encode_record(record.address, payload)
        if isinstance(payload, Corrupt):
            self._observe(CorruptionFound("ssd", payload.reason))
        return None

    def _finish(self, leaving: _Victim) -> None:
        for start in range(0, len(objects := list(leaving.objects)), HEADS_AT_ONCE):
            self._remove_heads(objects[start : start + HEADS_AT_ONCE])
        with self._index.write_transaction() as txn:
            IndexUpdates(txn, self._index.tables).remove_segment(leaving.number)
        self._space.remove(leaving.number)
        try:
            self._segments.delete(leaving.number)
        except OSError as error:
            self._observe(TierFailed("ssd", "reclaim", str(error)))
        if leaving.blocks:
            self._observe(
                BlocksEvicted("ssd", leaving.blocks, leaving.size, "resize" if self._shrinking else "capacity")
            )

    def _remove_heads(self, addresses: list[bytes]) -> bool:
        """Remove the heads of those objects that have no blocks, and none on their way; whether there were any."""
        bare = [address for address in self._index.without_blocks(addresses) if not self._backlog.has_pending(address)]
        if bare:
            with self._index.write_transaction() as txn:
                changes = IndexUpdates(txn, self._index.tables)
                for address in bare:
                    changes.remove_head_at(address)
        return bool(bare)


def _some(records: Iterator[ScannedRecord]) -> list[ScannedRecord]:
    some: list[ScannedRecord] = []
    size = 0
    for record in islice(records, RECORDS_AT_ONCE):
        some.append(record)
        size += record.place.length
        if size >= BYTES_AT_ONCE:
            break
    return some

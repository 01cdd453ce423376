"""Reclaim (compaction): deletes a segment, after rewriting those of its blocks that stay.

One bounded step at a time, on the writer's thread, never in a request:

    choose -> scan some hundred records: those that stay are rewritten, rows of the others are deleted -> ...
           -> heads of objects that have no blocks left are deleted -> the file is deleted

The pool that gives way (ssd_pools.py) decides the order:

    LRU             the oldest segment; reference bits give a block a second chance (CLOCK). An object that is read all
                    the time is rewritten again and again, which costs one sequential copy per turn of the whole pool
    stable share    segments above the threshold, then those of the marginal band. Nothing of them is rewritten, and no
                    head is deleted: the next epoch reads these objects again. A segment with many dead records: all
                    others are rewritten
    pinned          never, unless the tier has become too small for all of them. Pinned blocks in segments of the other
                    kinds are rewritten to those of their pins; what was unpinned goes as in LRU order

Invariants:
- a row is changed only if it still points to the record in the old segment;
- the copy is written before the row points to it, and the row points elsewhere before the file is deleted;
- at most half of the bytes in LRU order is rewritten, so deleted segments free space;
- a failed rewrite costs the blocks, not the progress.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from typing import Final

import lmdb

from forebay.core.events import BlocksEvicted, Observe, TierFailed
from forebay.storage.ssd.index.head_codec import decode_head
from forebay.storage.ssd.index.index_updates import IndexUpdates
from forebay.storage.ssd.reclaim.record_copy import copy_record
from forebay.storage.ssd.reclaim.ssd_pins import SsdPins
from forebay.storage.ssd.reclaim.ssd_pools import SsdPools
from forebay.storage.ssd.recovery import OpenDirectory
from forebay.storage.ssd.segment_appender import EncodedRecord, SegmentAppenders
from forebay.storage.ssd.segments.addressing import GENERATION, OBJECT_ADDRESS
from forebay.storage.ssd.segments.block_location import BlockLocation
from forebay.storage.ssd.segments.record import record_size
from forebay.storage.ssd.segments.segment_label import LRU_BAND, PLAIN, SegmentLabel
from forebay.storage.ssd.segments.segments import ScannedRecord, SegmentFile, scan_segment
from forebay.storage.ssd.segments.space_accounting import HEADS_SHARE
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
    label: SegmentLabel
    is_compacted: bool
    objects: set[bytes] = field(default_factory=set)
    blocks: int = 0
    size: int = 0


class Reclaim:
    """Reclaims the segments of one directory."""

    def __init__(
        self,
        opened: OpenDirectory,
        appenders: SegmentAppenders,
        pools: SsdPools,
        pins: SsdPins,
        queue: WriteQueue,
        observe: Observe,
    ) -> None:
        self._index = opened.index
        self._directory = opened.directory
        self._segments = opened.segments
        self._space = opened.space
        self._references = opened.references
        self._appenders = appenders
        self._pools = pools
        self._pins = pins
        self._queue = queue
        self._observe = observe
        self._victim: _Victim | None = None
        self._hand = b""
        self._is_shrinking = False
        self._allowance = 0
        """Bytes in LRU order that may still be rewritten. The next segment gets some of the unused ones: it may have a
        single large block."""

    @property
    def is_running(self) -> bool:
        """Whether a segment is partly reclaimed."""
        return self._victim is not None

    def step(self, *, is_full: bool = True) -> bool:
        """Does one step. Returns False if there was nothing to do. Raises lmdb.Error if the index fails.

        `is_full`: space is needed; else only what is beyond its pool's quota or threshold is reclaimed."""
        if self._victim is None:
            self._victim = self._choose(is_full=is_full)
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

    def _choose(self, *, is_full: bool) -> _Victim | None:
        self._is_shrinking = self._space.is_exceeded
        is_written = cache(self._is_written)  # a threshold is lowered by the same segments that are then offered
        for number, is_compacted in self._pools.victims(is_written, is_full=is_full):
            label = self._space.label_of(number)
            if self._appenders.is_current(number):
                if not self._is_shrinking and label.band == LRU_BAND:
                    continue
                if self._space.size_of(number) == 0:
                    continue
                self._appenders.finish(label)  # all that is left is too much: the current segment goes as well
            elif is_written(number) or self._may_have_begun(number):
                continue
            try:
                file = self._segments.open_reader(number)
            except OSError as error:
                self._observe(TierFailed("ssd", "reclaim", str(error)))
                file = None
            if file is None:
                return _Victim(number, None, iter(()), label, is_compacted)
            size = file.size()
            self._allowance = min(self._allowance, BYTES_AT_ONCE) + size // 2
            return _Victim(number, file, scan_segment(file, number, size), label, is_compacted)
        return None

    def _is_written(self, number: int) -> bool:
        """Returns whether another process appends to a segment."""
        return not self._appenders.is_current(number) and self._segments.has_writer(number)

    def _may_have_begun(self, number: int) -> bool:
        """Returns whether another process may be about to write to a segment: its row comes before its file."""
        return self._space.size_of(number) == 0 and not self._directory.is_exclusive

    def _reclaim_records(self, victim: _Victim, found: list[ScannedRecord]) -> None:
        victim.objects.update(record.address[:OBJECT_ADDRESS] for record in found)
        locations = self._index.locations([record.address for record in found])
        live = [record for record, location in zip(found, locations, strict=True) if location == record.location]
        rewritten = self._rewrite(victim, live)
        with self._index.write_transaction() as txn:
            updates = IndexUpdates(txn, self._index.tables)
            for record in live:
                new = rewritten.get(record.address)
                if updates.move_block(record.address, record.location, new) and new is None:
                    victim.blocks += 1
                    victim.size += record.location.length

    def _stays(self, victim: _Victim, record: ScannedRecord) -> bool:
        if self._pools.is_epoch(victim.label):
            return victim.is_compacted and not self._pools.is_above(victim.label)
        if not self._references.test_and_clear(record.address) or self._is_shrinking:
            return False
        size = record_size(record.location.length)
        if size > self._allowance:
            return False
        self._allowance -= size
        return True

    def _rewrite(self, victim: _Victim, live: list[ScannedRecord]) -> dict[bytes, BlockLocation]:
        """Appends the records that stay among the live ones again and returns their new locations."""
        pinned = self._pinned(victim, live)
        by_label: dict[SegmentLabel, list[tuple[bytes, EncodedRecord]]] = {}
        for record in live:
            label = pinned.get(record.address)
            if label is None and self._stays(victim, record):
                label = PLAIN if victim.label.is_pinned else victim.label
            copy = self._copy(victim, record) if label is not None else None
            if label is not None and copy is not None:
                by_label.setdefault(label, []).append((record.address, copy))
        rewritten: dict[bytes, BlockLocation] = {}
        for label, copies in by_label.items():
            try:
                locations = self._appenders.append(label, [copy for _, copy in copies])
            except (OSError, lmdb.Error) as error:
                self._observe(TierFailed("ssd", "reclaim", str(error)))
                continue
            rewritten.update(zip((address for address, _ in copies), locations, strict=True))
        return rewritten

    def _pinned(self, victim: _Victim, live: list[ScannedRecord]) -> dict[bytes, SegmentLabel]:
        """Returns the labels of those records that are pinned, and have room as such."""
        if self._pins.is_empty:
            return {}
        self._pins.measure()
        if self._pins.is_current(victim.label):
            return {} if self._pins.is_exceeded else {record.address: victim.label for record in live}
        labels = self._pin_labels({record.address[:OBJECT_ADDRESS] for record in live})
        granted, pinned = 0, {}
        for record in live:
            label = labels.get(record.address[: OBJECT_ADDRESS + GENERATION])
            size = record_size(record.location.length)
            if label is not None and self._pins.room_for(label, size, granted):
                granted += size
                pinned[record.address] = label
        return pinned

    def _pin_labels(self, objects: set[bytes]) -> dict[bytes, SegmentLabel]:
        """Returns the labels of those objects that are pinned, by their addresses and current generations."""
        found = {}
        for address, raw in self._index.heads_at(objects).items():
            named = decode_head(raw)
            label = self._pins.label_of(named.name) if named is not None else None
            if named is not None and label is not None:
                found[address + named.head.generation] = label
        return found

    def _copy(self, victim: _Victim, record: ScannedRecord) -> EncodedRecord | None:
        if victim.file is None:
            return None
        return copy_record(victim.file, record.location, record.address, self._observe)

    def _finish(self, victim: _Victim) -> None:
        objects = [] if self._pools.is_epoch(victim.label) else list(victim.objects)
        for start in range(0, len(objects), HEADS_AT_ONCE):
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
        """Removes the heads of those objects that have no blocks, and none queued here. Returns whether there were any.
        Where the first block is still queued in another process, the head is fetched again."""
        bare = [address for address in self._index.without_blocks(addresses) if not self._queue.has_pending(address)]
        if not bare:
            return False
        with self._index.write_transaction() as txn:
            updates = IndexUpdates(txn, self._index.tables)
            removed = [updates.remove_bare_head(address) for address in bare]
        return any(removed)


def _next_records(records: Iterator[ScannedRecord]) -> list[ScannedRecord]:
    found: list[ScannedRecord] = []
    size = 0
    for record in islice(records, RECORDS_AT_ONCE):
        found.append(record)
        size += record.location.length
        if size >= BYTES_AT_ONCE:
            break
    return found

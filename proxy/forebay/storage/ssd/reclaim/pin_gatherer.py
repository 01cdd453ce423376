"""The pin gatherer: moves pinned blocks that are in other segments to those of their pins.

    start, or pins have changed ──> names under each pin ──> rows of their blocks ──> copied, unless they are in a
                                    segment of a pin already

So a pin also gets blocks that were cached before it was made, and those that it had no room for; and if one of two
overlapping pins is removed, the other one gets its blocks. One bounded step at a time, on the writer's thread of the
process that reclaims. Until a block is moved, reclaim looks after it (reclaim.py).

Invariant: a row is changed only if it still points to the old record, and only after the copy was written.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import lmdb

from forebay.core.events import Observe, TierFailed
from forebay.policy.pins import Pin
from forebay.storage.ssd.index.head_codec import decode_head
from forebay.storage.ssd.index.index_updates import IndexUpdates
from forebay.storage.ssd.index.listing_keys import listing_prefix
from forebay.storage.ssd.reclaim.record_copy import copy_record
from forebay.storage.ssd.reclaim.ssd_pins import SsdPins
from forebay.storage.ssd.recovery import OpenDirectory
from forebay.storage.ssd.segment_appender import EncodedRecord, SegmentAppenders
from forebay.storage.ssd.segments.block_location import BlockLocation
from forebay.storage.ssd.segments.record import record_size
from forebay.storage.ssd.segments.segment_label import SegmentLabel

NAMES_AT_ONCE: Final = 256
BLOCKS_AT_ONCE: Final = 256
BYTES_AT_ONCE: Final = 8 * 1024 * 1024


class _StrayBlock(NamedTuple):
    """A pinned block that is not in a segment of a pin."""

    label: SegmentLabel
    address: bytes
    location: BlockLocation


class PinGatherer:
    """Gathers the pinned blocks of one directory."""

    def __init__(self, opened: OpenDirectory, appenders: SegmentAppenders, pins: SsdPins, observe: Observe) -> None:
        self._index = opened.index
        self._segments = opened.segments
        self._space = opened.space
        self._addressing = opened.addressing
        self._appenders = appenders
        self._pins = pins
        self._observe = observe
        self._version = -1
        self._pages: Iterator[list[_StrayBlock]] = iter(())

    def step(self) -> bool:
        """Checks some blocks, and moves those in other segments. Returns whether more may follow. Raises lmdb.Error."""
        if self._version != self._pins.version or self._pins.has_room_again:
            self._pins.forget_refusals()
            self._version = self._pins.version
            self._pages = self._stray_blocks()
        page = next(self._pages, None)
        if page:
            self._move(page)
        return page is not None

    def _stray_blocks(self) -> Iterator[list[_StrayBlock]]:
        """Yields some at a time, perhaps none."""
        for pin in self._pins.pins.outermost():
            prefix, after = listing_prefix(pin.bucket, pin.prefix), b""
            while rows := self._index.list_names(prefix, after, NAMES_AT_ONCE):
                after = rows[-1][0]
                page: list[_StrayBlock] = []
                for _, raw in rows:
                    for found in self._blocks_of(pin, raw):
                        page += found
                        if len(page) >= BLOCKS_AT_ONCE:
                            yield page
                            page = []
                yield page

    def _blocks_of(self, pin: Pin, raw: bytes) -> Iterator[list[_StrayBlock]]:
        """Yields the stray blocks of an object's current version. `raw`: its head."""
        named = decode_head(raw)
        label = self._pins.label_of(named.name) if named is not None and pin.covers(named.name) else None
        if named is None or label is None:
            return
        address = self._addressing.object_address(named.name)
        if self._index.head(address) != raw:
            return  # of the origin that had the bucket before, or replaced meanwhile
        version = address + named.head.generation
        after = version
        while rows := self._index.blocks_from(version, after, BLOCKS_AT_ONCE):
            yield [
                _StrayBlock(label, block, location)
                for block, location in rows
                if self._space.knows(location.segment)
                and not self._pins.is_current(self._space.label_of(location.segment))
            ]
            after = rows[-1][0] + b"\0"

    def _move(self, blocks: list[_StrayBlock]) -> None:
        granted = 0
        by_label: dict[SegmentLabel, list[tuple[_StrayBlock, EncodedRecord]]] = {}
        self._pins.measure()
        for block in blocks:
            size = record_size(block.location.length)
            if not self._pins.room_for(block.label, size, granted):
                continue
            if (record := self._copy(block)) is not None:
                granted += size
                by_label.setdefault(block.label, []).append((block, record))
            if granted >= BYTES_AT_ONCE:
                self._append(by_label)
                granted, by_label = 0, {}
                self._pins.measure()
        self._append(by_label)

    def _copy(self, block: _StrayBlock) -> EncodedRecord | None:
        try:
            file = self._segments.open_reader(block.location.segment)
        except OSError as error:
            self._observe(TierFailed("ssd", "reclaim", str(error)))
            return None
        return None if file is None else copy_record(file, block.location, block.address, self._observe)

    def _append(self, by_label: dict[SegmentLabel, list[tuple[_StrayBlock, EncodedRecord]]]) -> None:
        for label, copies in by_label.items():
            try:
                locations = self._appenders.append(label, [record for _, record in copies])
            except (OSError, lmdb.Error) as error:
                self._observe(TierFailed("ssd", "reclaim", str(error)))
                continue
            with self._index.write_transaction() as txn:
                updates = IndexUpdates(txn, self._index.tables)
                for (block, record), location in zip(copies, locations, strict=True):
                    if updates.move_block(block.address, block.location, location):
                        updates.dead[block.location.segment] += record.size
                dead = updates.record_dead()
            for number, size in dead.items():
                self._space.add_dead(number, size)
        self._appenders.release_filled()

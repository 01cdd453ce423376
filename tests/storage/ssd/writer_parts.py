"""The parts of the SSD tier's writer over one directory that several processes may have, without its thread."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from forebay.core.events import unobserved
from forebay.policy.pins import NO_PINS
from forebay.storage.cache_origin import CacheOrigins
from forebay.storage.ssd.admission_selection import AdmissionSelection
from forebay.storage.ssd.index.index_updates import IndexUpdates
from forebay.storage.ssd.reclaim.reclaim import Reclaim
from forebay.storage.ssd.reclaim.reclaim_turns import ReclaimTurns
from forebay.storage.ssd.reclaim.ssd_pins import SsdPins
from forebay.storage.ssd.reclaim.ssd_pools import SsdPools
from forebay.storage.ssd.recovery import OpenDirectory, close_directory, open_directory
from forebay.storage.ssd.segment_appender import SegmentAppenders, encode_record
from forebay.storage.ssd.segments.block_location import BlockLocation
from forebay.storage.ssd.segments.segment_label import PLAIN, SegmentLabel
from forebay.storage.ssd.space_refresh import SpaceRefresh
from forebay.storage.ssd.write_queue import AdmitBlock, WriteQueue
from harness.ssd_rig import MIB, NOW, ORIGIN, RecordedEvents, block_id, content_of, trusting_run


@dataclass
class WriterParts:
    opened: OpenDirectory
    appenders: SegmentAppenders
    refresh: SpaceRefresh
    admissions: AdmissionSelection
    events: RecordedEvents = field(default_factory=RecordedEvents)

    def admission(self, key: str, size: int = 1000, label: SegmentLabel = PLAIN) -> AdmitBlock:
        block = block_id(key)
        return AdmitBlock(self.opened.addressing.block_address(block), content_of(block, size), label)

    def write(self, order: AdmitBlock) -> BlockLocation:
        """Appends a block and commits its row."""
        (location,) = self.appenders.append(order.label, [encode_record(order.address, order.buffer)])
        with self.opened.index.write_transaction() as txn:
            IndexUpdates(txn, self.opened.index.tables).put_block(order.address, location)
        return location


@contextmanager
def writer_parts(path: Path, capacity: int = 64 * MIB) -> Iterator[WriterParts]:
    run, origins, events = trusting_run(path), CacheOrigins.single(ORIGIN), RecordedEvents()
    opened = open_directory(path, capacity, origins, lambda: NOW, unobserved, run, family="node")
    pins = SsdPins(opened.addressing, opened.space, NO_PINS)
    pools, queue = SsdPools(opened.index, opened.space, pins, lambda: NOW), WriteQueue(MIB, MIB)
    appenders = SegmentAppenders(opened.index, opened.segments, opened.space)
    refresh = SpaceRefresh(opened, appenders, pools, pins)
    reclaim = Reclaim(opened, appenders, pools, pins, queue, events)
    turns = ReclaimTurns(opened.directory, reclaim, pools, queue, refresh.refresh)
    selection = AdmissionSelection(opened, pools, pins, turns, refresh, events)
    yield WriterParts(opened, appenders, refresh, selection, events)
    appenders.finish_all()
    appenders.release_filled()
    close_directory(opened)

from pathlib import Path
from random import Random

import pytest

from forebay.storage.ssd.index.index import Index
from forebay.storage.ssd.index.index_updates import IndexUpdates
from forebay.storage.ssd.index.segment_rescan import (
    ALL_ADDRESSES,
    MAX_RANGES,
    RECORDS_AT_ONCE,
    AddressRange,
    RescanPlan,
    SegmentRescan,
)
from forebay.storage.ssd.segment_appender import SegmentAppender, encode_record
from forebay.storage.ssd.segments.block_location import BlockLocation
from forebay.storage.ssd.segments.segments import Segments
from forebay.storage.ssd.segments.space_accounting import SpaceAccounting
from harness.ssd_rig import MIB

LENGTH = 90


class Written:
    """Segments with records, and an index that knows the segments and none of the blocks."""

    def __init__(self, path: Path) -> None:
        (path / "index").mkdir()
        (path / "segments").mkdir()
        self.index = Index.open(path / "index", 64 * MIB, exclusive=True)
        self.segments = Segments(path / "segments")
        self.appender = SegmentAppender(self.index, self.segments, SpaceAccounting(MIB, {}, 0))

    def append(self, *addresses: bytes) -> list[BlockLocation]:
        """Writes a segment with these blocks."""
        found = self.appender.append(
            [encode_record(address, memoryview(address[:1] * LENGTH)) for address in addresses]
        )
        self.appender.finish()
        self.appender.release_filled()
        return found

    def plan(self, end: int, *lost: AddressRange) -> None:
        with self.index.write_transaction() as txn:
            IndexUpdates(txn, self.index.tables).put_rescan(RescanPlan.of(end, lost).encode())

    def rescan(self) -> int:
        """Returns the number of steps."""
        rescan = SegmentRescan(self.index, self.segments)
        steps = 0
        while rescan.step():
            steps += 1
        return steps


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return Written(tmp_path)


def numbered(number: int) -> bytes:
    return Random(number).randbytes(28)


def test_every_lost_block_is_found_in_its_newest_record(written: Written) -> None:
    old = written.append(numbered(1), numbered(2))
    new = written.append(numbered(2), numbered(3))
    written.plan(2, ALL_ADDRESSES)
    written.rescan()
    assert written.index.locations([numbered(1), numbered(2), numbered(3)]) == [old[0], *new]
    assert written.index.rescan_plan() is None
    assert written.rescan() == 0


def test_blocks_beyond_the_lost_addresses_stay_removed(written: Written) -> None:
    written.append(b"b" * 28, b"d" * 28, b"f" * 28)
    written.plan(1, AddressRange(b"c" * 28, b"d" * 28), AddressRange(b"e" * 28, b"g" * 28))
    written.rescan()
    assert [written.index.location(letter * 28) is not None for letter in (b"b", b"d", b"f")] == [False, False, True]


def test_a_block_written_since_is_not_replaced(written: Written) -> None:
    written.append(numbered(1))
    written.plan(1, ALL_ADDRESSES)
    (new,) = written.append(numbered(1))
    with written.index.write_transaction() as txn:
        IndexUpdates(txn, written.index.tables).put_block(numbered(1), new)
    written.rescan()
    assert written.index.location(numbered(1)) == new


def test_segments_written_since_are_not_searched(written: Written) -> None:
    written.append(numbered(1))
    written.append(numbered(2))
    written.plan(1, ALL_ADDRESSES)
    written.rescan()
    assert written.index.location(numbered(2)) is None


def test_a_step_is_bounded_and_the_next_start_goes_on(written: Written) -> None:
    for start in range(0, 3 * RECORDS_AT_ONCE, RECORDS_AT_ONCE):
        written.append(*(numbered(start + number) for number in range(RECORDS_AT_ONCE)))
    written.plan(3, ALL_ADDRESSES)
    rescan = SegmentRescan(written.index, written.segments)
    counts = []
    for _ in range(4):
        assert rescan.step()
        counts.append(written.index.count()[0])
    assert counts == [0, RECORDS_AT_ONCE, RECORDS_AT_ONCE, RECORDS_AT_ONCE]
    written.rescan()
    assert written.index.count()[0] == 3 * RECORDS_AT_ONCE


def test_a_segment_that_is_gone_is_left_out(written: Written) -> None:
    written.append(numbered(1))
    written.append(numbered(2))
    written.append(numbered(3))
    written.segments.delete(1)
    written.plan(3, ALL_ADDRESSES)
    rescan = SegmentRescan(written.index, written.segments)
    assert rescan.step()
    with written.index.write_transaction() as txn:
        IndexUpdates(txn, written.index.tables).remove_segment(2)  # reclaimed between two steps
    while rescan.step():
        pass
    assert [written.index.location(numbered(number)) is not None for number in (1, 2, 3)] == [True, False, False]


def test_a_damaged_plan_is_none(written: Written) -> None:
    for raw in (b"", b"abc", bytes(20)):
        assert RescanPlan.decode(raw) is None
    with written.index.write_transaction() as txn:
        IndexUpdates(txn, written.index.tables).put_rescan(b"garbage")
    assert written.rescan() == 0


def test_a_plan_is_read_as_it_was_written() -> None:
    ranges = [AddressRange(bytes([number]) * 28, bytes([number]) * 27 + b"\xff") for number in range(MAX_RANGES)]
    plan = RescanPlan.of(7, ranges[::-1])
    assert RescanPlan.decode(plan.encode()) == plan == RescanPlan(7, tuple(ranges))


def test_many_ranges_become_one_around_them() -> None:
    ranges = [AddressRange(bytes([number]) * 28, bytes([number]) * 27 + b"\xff") for number in range(1, MAX_RANGES + 2)]
    assert RescanPlan.of(7, ranges).ranges == (AddressRange(ranges[0].lower, ranges[-1].upper),)
    assert RescanPlan.of(7, [*ranges[:3], ALL_ADDRESSES]).includes(bytes(28))

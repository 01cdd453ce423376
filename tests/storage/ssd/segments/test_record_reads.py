"""Reads of records: what is short is damage only to a read that waited for it."""

from pathlib import Path

import pytest

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span
from forebay.storage.ssd.segments.block_location import BlockLocation
from forebay.storage.ssd.segments.record import SLICE, encode_header
from forebay.storage.ssd.segments.record_reads import Corrupt, read_record
from forebay.storage.ssd.segments.segments import Segments
from forebay.storage.tier_contract import BUSY

LENGTH = 3 * SLICE
ADDRESS = bytes(range(28))
LOCATION = BlockLocation(1, 0, LENGTH)


@pytest.fixture
def segments(tmp_path: Path) -> Segments:
    return Segments(tmp_path)


@pytest.mark.parametrize("within", [Span(0, 10), Span(SLICE, SLICE + 10), Span(2 * SLICE, LENGTH)])
def test_a_short_record_is_damage_only_to_a_read_that_waits(segments: Segments, within: Span) -> None:
    payload = memoryview(bytes(range(256)) * (LENGTH // 256))
    record = encode_header(ADDRESS, payload) + payload
    file = segments.create(1)
    segments.path(1).write_bytes(record)
    found = read_record(file, LOCATION, ADDRESS, within, wait=True)
    assert isinstance(found, Buffer)
    assert found == payload[within.start : within.stop]
    missing = LENGTH - (within.stop - 1)
    for kept in (len(record) - missing, len(record) - LENGTH, 10):
        segments.path(1).write_bytes(record[:kept])
        short = read_record(file, LOCATION, ADDRESS, within, wait=True)
        assert isinstance(short, Corrupt)
        assert short.reason == "short record"
        # The page cache may not have the rest yet.
        assert read_record(file, LOCATION, ADDRESS, within, wait=False) is BUSY

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.names import BlockId
from forebay.storage.ssd.index.index import Index
from forebay.storage.ssd.segment_appender import SegmentAppender, encode_record
from forebay.storage.ssd.segments.record import SLICE
from forebay.storage.ssd.segments.segments import Segments, scan_segment
from forebay.storage.ssd.segments.space_accounting import MIN_SEGMENT_BYTES, SpaceAccounting
from harness.ssd_rig import MIB, block_id, content_of


class Bench:
    """An appender into segments of MIN_SEGMENT_BYTES."""

    def __init__(self, path: Path) -> None:
        (path / "index").mkdir()
        (path / "segments").mkdir()
        self.index = Index.open(path / "index", MIB, exclusive=True)
        self.segments = Segments(path / "segments")
        self.space = SpaceAccounting(MIB // 2, {}, 0)
        self.appender = SegmentAppender(self.index, self.segments, self.space)

    def append(self, *blocks: tuple[BlockId, int]) -> list[tuple[int, int, int]]:
        records = [encode_record(bytes(28), content_of(block, length)) for block, length in blocks]
        return list(self.appender.append(records))


def test_records_follow_each_other_and_segments_too(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert bench.append((block_id("a"), 100), (block_id("a", 1), 8)) == [(0, 0, 100), (0, 160, 8)]
    assert bench.append((block_id("a"), MIN_SEGMENT_BYTES - 500)) == [(0, 224, MIN_SEGMENT_BYTES - 500)]
    assert bench.append((block_id("a"), 1000)) == [(1, 0, 1000)]
    assert bench.index.segments() == {0: bench.segments.size(0), 1: 0}
    assert bench.space.used == bench.segments.size(0) + bench.segments.size(1)
    bench.appender.finish()
    assert bench.index.segments() == {0: bench.segments.size(0), 1: bench.segments.size(1)}
    assert bench.appender.current is None
    bench.index.close()


@given(st.lists(st.sampled_from([1, 100, 4096, SLICE - 1, SLICE, SLICE + 1, 300_000, MIB]), min_size=1, max_size=12))
def test_a_scan_finds_all_appended_records(lengths: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        bench.space.capacity = 64 * MIB
        records = [
            encode_record(nth.to_bytes(28, "big"), content_of(block_id("a"), n)) for nth, n in enumerate(lengths)
        ]
        locations = bench.appender.append(records[:3]) + bench.appender.append(records[3:])
        found = []
        for number in bench.segments.numbers():
            file = bench.segments.open_reader(number)
            assert file is not None
            found += [(record.address, record.location) for record in scan_segment(file, number, file.size())]
        assert found == [(nth.to_bytes(28, "big"), location) for nth, location in enumerate(locations)]
        bench.index.close()


def test_a_filled_segment_is_locked_until_its_rows_are_committed(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.append((block_id("a"), 100), (block_id("a", 1), MIN_SEGMENT_BYTES))
    assert bench.segments.has_writer(0)
    assert bench.segments.has_writer(1)
    bench.appender.release_filled()
    assert not bench.segments.has_writer(0)
    assert bench.segments.has_writer(1)
    bench.index.close()


def test_very_many_records_at_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.space.capacity = 64 * MIB
    locations = bench.append(*((block_id("a"), 9) for _ in range(3000)))
    assert locations == [(0, nth * 72, 9) for nth in range(3000)]
    assert bench.segments.size(0) == 3000 * 72
    bench.index.close()


def test_after_a_failure_it_never_appends_to_the_same_segment(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.append((block_id("a"), 100))
    (tmp_path / "segments" / "0000000001.seg").touch()
    with pytest.raises(FileExistsError):
        bench.append((block_id("a"), 100), (block_id("a"), MIN_SEGMENT_BYTES))
    assert bench.appender.current is None
    assert bench.append((block_id("a"), 100)) == [(2, 0, 100)]
    bench.index.close()

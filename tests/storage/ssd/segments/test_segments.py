import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.storage.ssd.segment_appender import encode_record
from forebay.storage.ssd.segments.block_location import BlockLocation
from forebay.storage.ssd.segments.record import encode_header, record_size
from forebay.storage.ssd.segments.segments import WINDOW, SegmentFile, Segments, scan_segment
from harness.ssd_rig import block_id, content_of


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_an_open_segment_is_readable_after_its_deletion(tmp_path: Path) -> None:
    segments = Segments(tmp_path)
    writer = segments.create(1)
    os.pwrite(writer.fd, b"bytes", 0)
    reader = segments.open_reader(1)
    assert reader is not None
    segments.delete(1)
    assert os.pread(reader.fd, 10, 0) == b"bytes"
    assert segments.open_reader(1) is None
    segments.delete(1)


def test_open_files_are_bounded_and_closed_after_their_last_use(tmp_path: Path) -> None:
    segments = Segments(tmp_path, max_open_files=2)
    for number in range(5):
        writer = segments.create(number)
        os.pwrite(writer.fd, b"%d" % number, 0)
    first = segments.open_reader(0)
    assert first is not None
    before = open_files()
    for number in range(1, 5):
        assert segments.open_reader(number) is not None
    assert open_files() <= before + 2
    assert os.pread(first.fd, 1, 0) == b"0"


def test_a_segment_is_never_created_twice(tmp_path: Path) -> None:
    segments = Segments(tmp_path)
    segments.create(1)
    with pytest.raises(FileExistsError):
        segments.create(1)


def test_a_segment_has_a_writer_until_that_closes_it(tmp_path: Path) -> None:
    segments = Segments(tmp_path)
    writer = segments.create(1)
    assert segments.has_writer(1)
    del writer
    assert not segments.has_writer(1)
    assert not segments.has_writer(2)


def test_numbers_lists_the_segment_files(tmp_path: Path) -> None:
    segments = Segments(tmp_path)
    for number in (12, 3):
        segments.create(number)
    (tmp_path / "1x.seg").touch()
    (tmp_path / "notes").touch()
    assert segments.numbers() == [3, 12]
    assert segments.size(3) == segments.size(99) == 0


LENGTHS = st.lists(st.sampled_from([1, 100, 4096, 65536, WINDOW, 300_000]), min_size=1, max_size=12)


def address(nth: int) -> bytes:
    return nth.to_bytes(28, "big")


def segment(path: Path, lengths: list[int]) -> tuple[bytearray, list[BlockLocation]]:
    content = bytearray()
    locations = []
    for nth, length in enumerate(lengths):
        locations.append(BlockLocation(7, len(content), length))
        for piece in encode_record(address(nth), content_of(block_id("a", nth), length)).pieces:
            content += piece
    path.write_bytes(content)
    return content, locations


def scanned(path: Path) -> list[tuple[bytes, BlockLocation]]:
    file = SegmentFile(path, os.O_RDONLY)
    return [(found.address, found.location) for found in scan_segment(file, 7, file.size())]


@given(LENGTHS)
def test_a_scan_finds_every_record(lengths: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.seg")
        _, locations = segment(path, lengths)
        assert scanned(path) == [(address(nth), location) for nth, location in enumerate(locations)]


@given(LENGTHS, st.data())
def test_a_damaged_header_hides_one_record(lengths: list[int], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.seg")
        content, locations = segment(path, lengths)
        victim = data.draw(st.integers(0, len(lengths) - 1))
        content[locations[victim].offset : locations[victim].offset + 12] = data.draw(
            st.sampled_from([bytes(12), b"\xff" * 12, b"FBR1" + b"\xff" * 8])
        )
        path.write_bytes(content)
        expected = [(address(nth), location) for nth, location in enumerate(locations) if nth != victim]
        assert scanned(path) == expected


@given(LENGTHS, st.integers(0, 100_000))
def test_a_torn_end_hides_no_more_than_the_last_record(lengths: list[int], torn: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.seg")
        content, locations = segment(path, lengths)
        size = max(0, len(content) - torn)
        path.write_bytes(content[:size])
        whole = [
            (address(nth), location)
            for nth, location in enumerate(locations)
            if location.offset + record_size(location.length) <= size
        ]
        assert scanned(path) == whole


def test_a_payload_that_looks_like_a_record_is_skipped(tmp_path: Path) -> None:
    forged = encode_header(address(99), memoryview(b"forged")) + b"forged\0\0"
    path = tmp_path / "x.seg"
    pieces = encode_record(address(0), memoryview(forged * 100)).pieces
    path.write_bytes(b"".join(pieces))
    assert [found for found, _ in scanned(path)] == [address(0)]


def test_a_scan_of_garbage_yields_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.seg"
    for content in (b"", b"F", b"FBR1" * 100_000, os.urandom(600_001), bytes(600_001)):
        path.write_bytes(content)
        assert scanned(path) == []

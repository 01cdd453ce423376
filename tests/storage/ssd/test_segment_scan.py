import os
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from forebay.storage.ssd.index import BlockLocation
from forebay.storage.ssd.record import encode_header, record_size
from forebay.storage.ssd.segment_appender import encode_record
from forebay.storage.ssd.segment_scan import WINDOW, scan_segment
from forebay.storage.ssd.segments import SegmentFile
from harness.ssd_rig import block_id, content_of

LENGTHS = st.lists(st.sampled_from([1, 100, 4096, 65536, WINDOW, 300_000]), min_size=1, max_size=12)


def address(nth: int) -> bytes:
    return nth.to_bytes(28, "big")


def segment(path: Path, lengths: list[int]) -> tuple[bytearray, list[BlockLocation]]:
    content = bytearray()
    places = []
    for nth, length in enumerate(lengths):
        places.append(BlockLocation(7, len(content), length))
        for piece in encode_record(address(nth), content_of(block_id("a", nth), length)).pieces:
            content += piece
    path.write_bytes(content)
    return content, places


def walked(path: Path) -> list[tuple[bytes, BlockLocation]]:
    file = SegmentFile(path, os.O_RDONLY)
    return [(found.address, found.place) for found in scan_segment(file, 7, file.size())]


@given(LENGTHS)
def test_it_finds_every_record(lengths: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.seg")
        _, places = segment(path, lengths)
        assert walked(path) == [(address(nth), place) for nth, place in enumerate(places)]


@given(LENGTHS, st.data())
def test_a_damaged_header_hides_one_record(lengths: list[int], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.seg")
        content, places = segment(path, lengths)
        victim = data.draw(st.integers(0, len(lengths) - 1))
        content[places[victim].offset : places[victim].offset + 12] = data.draw(
            st.sampled_from([bytes(12), b"\xff" * 12, b"FBR1" + b"\xff" * 8])
        )
        path.write_bytes(content)
        expected = [(address(nth), place) for nth, place in enumerate(places) if nth != victim]
        assert walked(path) == expected


@given(LENGTHS, st.integers(0, 100_000))
def test_a_torn_end_hides_no_more_than_the_last_record(lengths: list[int], torn: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.seg")
        content, places = segment(path, lengths)
        size = max(0, len(content) - torn)
        path.write_bytes(content[:size])
        whole = [
            (address(nth), place)
            for nth, place in enumerate(places)
            if place.offset + record_size(place.length) <= size
        ]
        assert walked(path) == whole


def test_a_payload_that_looks_like_a_record_costs_nothing_as_long_as_its_header_is_whole(tmp_path: Path) -> None:
    forged = encode_header(address(99), memoryview(b"forged")) + b"forged\0\0"
    path = tmp_path / "x.seg"
    pieces = encode_record(address(0), memoryview(forged * 100)).pieces
    path.write_bytes(b"".join(pieces))
    assert [found for found, _ in walked(path)] == [address(0)]


def test_what_is_no_segment_is_walked_through_in_vain(tmp_path: Path) -> None:
    path = tmp_path / "x.seg"
    for content in (b"", b"F", b"FBR1" * 100_000, os.urandom(600_001), bytes(600_001)):
        path.write_bytes(content)
        assert walked(path) == []

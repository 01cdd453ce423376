"""Files of recordings: written piece by piece, read whole, and every damage found."""

import zlib
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.errors import MalformedRecording
from forebay.core.events import RecordedRead
from forebay.protocol.recordings.numbered_page import NumberedSection
from forebay.protocol.recordings.recording_file import (
    SIGNATURE,
    RecordingDecoder,
    RecordingEncoder,
    RecordingHeader,
)
from forebay.protocol.recordings.recording_page import MAX_PAGE_BYTES, RecordingPage
from harness.recording_content import reads_of

PAGES = [
    RecordingPage.of((RecordedRead("a", 0, 5, True), RecordedRead("b", 7, 9, False)), 0),
    RecordingPage.of((RecordedRead("c", 0, 1 << 40, True),), 60),
]


def file_of(pages: list[RecordingPage]) -> bytes:
    encoder = RecordingEncoder()
    return b"".join([encoder.start(RecordingHeader(1_750_000_000)), *map(encoder.page, pages), encoder.end()])


FILE = file_of(PAGES)


def read_whole(content: bytes) -> list[RecordingPage]:
    return list(RecordingDecoder(content).pages())


def damaged_chunk(kind: bytes, content: bytes) -> bytes:
    """A chunk with a valid checksum, whatever is in it."""
    head = kind + len(content).to_bytes(4, "little")
    return head + zlib.crc32(content, zlib.crc32(head)).to_bytes(4, "little") + content


def test_a_file_has_its_pages_and_its_beginning() -> None:
    decoder = RecordingDecoder(FILE)
    assert list(decoder.pages()) == PAGES
    assert (decoder.header.began, decoder.read_count, decoder.page_count) == (1_750_000_000, 3, 2)
    assert decoder.is_complete
    assert [read.key for read in reads_of(RecordingDecoder(FILE).pages())] == ["a", "b", "c"]


@given(st.integers(0, len(FILE) * 8 - 1))
def test_each_bit_that_flips_is_found(bit: int) -> None:
    damaged = bytearray(FILE)
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(MalformedRecording):
        read_whole(bytes(damaged))


@pytest.mark.parametrize("size", range(len(FILE)))
def test_a_file_that_ends_early_is_truncated(size: int) -> None:
    with pytest.raises(MalformedRecording, match=r"truncated|no recording|does not fit|no chunk"):
        read_whole(FILE[:size])


def test_pages_that_are_missing_or_moved_are_found() -> None:
    encoder = RecordingEncoder()
    start, first, second, end = (
        encoder.start(RecordingHeader(1)),
        encoder.page(PAGES[0]),
        encoder.page(PAGES[1]),
        encoder.end(),
    )
    for content in (start + second + first + end, start + first + end):
        with pytest.raises(MalformedRecording, match="some are missing or moved"):
            read_whole(content)


def test_bytes_behind_the_end_are_refused() -> None:
    with pytest.raises(MalformedRecording, match=f"bytes behind its end .byte {len(FILE)}."):
        read_whole(FILE + b"\0")


def test_another_version_is_named() -> None:
    other = FILE[: len(SIGNATURE)] + b"\2\0" + FILE[len(SIGNATURE) + 2 :]
    with pytest.raises(MalformedRecording, match="its version is 2, and version 1 is read here"):
        RecordingDecoder(other)


def test_damage_is_told_with_its_position() -> None:
    decoder = RecordingDecoder(FILE)
    at = decoder.offset
    damaged = bytearray(FILE)
    damaged[at + 20] ^= 1
    with pytest.raises(MalformedRecording, match=f"a checksum does not match .chunk at byte {at}."):
        read_whole(bytes(damaged))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"no zlib", "can't be decompressed"),
        (zlib.compress(b"\0" * (MAX_PAGE_BYTES + 1)), "larger than a page can be"),
        (zlib.compress(b"") + b"more", "cut short"),
        (zlib.compress(b"\1\0\0\0\1\0\0\0" + bytes(5) + b"\1\0\xff" + bytes(4)), "key 0 of a page is not UTF-8"),
    ],
)
def test_a_bad_page_is_named(content: bytes, reason: str) -> None:
    start = RecordingEncoder().start(RecordingHeader(1))
    with pytest.raises(MalformedRecording, match=rf"{reason}.*page 0, at byte {len(start)}"):
        read_whole(start + damaged_chunk(b"P", content))


def test_numbers_without_names_are_refused() -> None:
    encoder = RecordingEncoder()
    start = encoder.start(RecordingHeader(1))
    numbers = encoder.numbered_page(0, [NumberedSection(b"12345678", array("I", [0]))], 10)
    with pytest.raises(MalformedRecording, match=f"no chunk P begins at byte {len(start)}"):
        read_whole(start + numbers + encoder.end())


@pytest.mark.parametrize("header", [b"", b"[]", b"{}", b'{"began": -1}', b'{"began": true}', b"\xff"])
def test_a_header_without_its_time_is_refused(header: bytes) -> None:
    with pytest.raises(MalformedRecording, match="when it began"):
        RecordingDecoder(SIGNATURE + b"\1\0" + damaged_chunk(b"H", header))


@given(st.binary(max_size=100))
def test_any_bytes_are_refused(content: bytes) -> None:
    with pytest.raises(MalformedRecording):
        read_whole(content)

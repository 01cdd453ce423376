"""Pages of recordings: every page survives its bytes, and bytes that are none are refused with a reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.errors import MalformedRecording
from forebay.core.events import RecordedRead
from forebay.protocol.recordings.recording_page import (
    MAX_OFFSET,
    MAX_PAGE_BYTES,
    PAGE_READS,
    RecordingPage,
    decode_page,
    encode_page,
)

KEYS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=40)
PARTS = st.builds(RecordedRead, KEYS, st.integers(0, MAX_OFFSET), st.integers(0, MAX_OFFSET), st.just(False))
WHOLES = st.builds(RecordedRead, KEYS, st.just(0), st.integers(0, 1 << 40), st.just(True))
PAGES = st.builds(
    RecordingPage.of,
    st.lists(PARTS | WHOLES, min_size=1, max_size=60).map(tuple),
    st.integers(0, (1 << 32) - 1),
)
PAGE = RecordingPage.of(
    (RecordedRead("a", 0, 5, True), RecordedRead("b", 7, 9, False), RecordedRead("a", 0, 5, True)), 3
)


@given(PAGES)
def test_a_page_survives_its_bytes(page: RecordingPage) -> None:
    assert decode_page(encode_page(page)) == page


@given(PAGES, st.data())
def test_a_page_that_is_cut_is_refused(page: RecordingPage, data: st.DataObject) -> None:
    raw = encode_page(page)
    with pytest.raises(MalformedRecording):
        decode_page(raw[: data.draw(st.integers(0, len(raw) - 1))])


@given(st.binary(max_size=200))
def test_any_bytes_are_a_page_or_refused(raw: bytes) -> None:
    try:
        page = decode_page(raw)
    except MalformedRecording:
        return
    assert decode_page(encode_page(page)) == page


def test_the_largest_page_is_within_the_bound() -> None:
    reads = tuple(RecordedRead(f"{number:01024}", 1 + number, 1 << 40, False) for number in range(PAGE_READS))
    assert len(encode_page(RecordingPage.of(reads))) <= MAX_PAGE_BYTES


def test_a_read_of_the_shuffled_small_objects_costs_few_bytes() -> None:
    reads = tuple(RecordedRead(f"train/{number:07}.jpg", 0, 20_000 + number, True) for number in range(PAGE_READS))
    assert len(encode_page(RecordingPage.of(reads))) == 13 + PAGE_READS * (2 + 17 + 4)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "without a head"),
        (encode_page(PAGE) + b"x", "behind the last column"),
        (encode_page(PAGE).replace(b"ab", b"a\xff"), "key 1 of a page is not UTF-8"),
        (encode_page(PAGE).replace(b"ab", b"a\0"), "key 1 of a page has a NUL"),
        (encode_page(PAGE).replace(b"ab", b"aa"), "stands in a page twice"),
        (encode_page(PAGE).replace(b"\1\0\1\0ab", b"\0\0\2\0ab"), "key 0 of a page has 0 bytes"),
        (encode_page(PAGE).replace(b"ab\0\0\1\0\0\0", b"ab\0\0\2\0\0\0"), "key 2 of 2"),
        (encode_page(RecordingPage.of((RecordedRead("k", 1, 5, True),))), "begins inside it"),
        (encode_page(RecordingPage.of((RecordedRead("k", MAX_OFFSET + 1, 5, False),))), "behind the end of any object"),
        (b"\xff" * 13, "a page of 4294967295 reads"),
    ],
)
def test_a_damaged_page_says_what_is_wrong(raw: bytes, reason: str) -> None:
    with pytest.raises(MalformedRecording, match=reason):
        decode_page(raw)

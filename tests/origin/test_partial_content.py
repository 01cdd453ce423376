"""Partial content: a 206 that contradicts itself or its request is broken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from forebay.core.errors import OriginBroken
from forebay.origin.partial_content import partial_length

BROKEN = None
# (Range of the request, Content-Range, Content-Length, the length of the body)
TABLE: list[tuple[str | None, str | None, str | None, int | None]] = [
    ("bytes=10-19", "bytes 10-19/100", "10", 10),
    ("bytes=10-19", "bytes 10-19/100", None, 10),
    ("bytes=10-19", "bytes 10-19/*", "10", 10),
    ("bytes=90-200", "bytes 90-99/100", "10", 10),
    ("bytes=90-", "bytes 90-99/100", "10", 10),
    ("bytes=-10", "bytes 90-99/100", "10", 10),
    ("bytes=-200", "bytes 0-99/100", "100", 100),
    ("bytes=0-1,5-6", "bytes 0-1/100", "2", 2),
    ("bytes=10-19", "bytes 10-19/100", "9", BROKEN),
    ("bytes=10-19", "bytes 10-19/100", "11", BROKEN),
    ("bytes=10-19", "bytes 10-19/100", "100", BROKEN),
    ("bytes=10-19", None, "10", BROKEN),
    ("bytes=10-19", "bytes 10-19", "10", BROKEN),
    ("bytes=10-19", "bytes */100", "10", BROKEN),
    ("bytes=10-19", "bytes 10-19/19", "10", BROKEN),
    ("bytes=10-19", "bytes 19-10/100", "10", BROKEN),
    ("bytes=10-19", "bytes 0-9/100", "10", BROKEN),
    ("bytes=10-19", "bytes 10-18/100", "9", BROKEN),
    ("bytes=10-19", "bytes 10-20/100", "11", BROKEN),
    ("bytes=10-19", "bytes 10-20/*", "11", BROKEN),
    ("bytes=10-19", "bytes 11-19/*", "9", BROKEN),
    ("bytes=-10", "bytes 80-99/100", "20", BROKEN),
    ("bytes=-10", "bytes 0-19/*", "20", BROKEN),
    (None, "bytes 0-9/100", "10", BROKEN),
]


def headers(content_range: str | None, length: str | None) -> CIMultiDict[str]:
    pairs = {"Content-Range": content_range, "Content-Length": length}
    return CIMultiDict({name: value for name, value in pairs.items() if value is not None})


@pytest.mark.parametrize(("requested", "content_range", "length", "expected"), TABLE)
def test_partial_content(
    requested: str | None, content_range: str | None, length: str | None, expected: int | None
) -> None:
    if expected is BROKEN:
        with pytest.raises(OriginBroken):
            partial_length(requested, headers(content_range, length))
    else:
        assert partial_length(requested, headers(content_range, length)) == expected


def test_two_content_ranges_are_broken() -> None:
    twice = headers("bytes 0-9/100", "10")
    twice.add("Content-Range", "bytes 0-9/100")
    with pytest.raises(OriginBroken):
        partial_length("bytes=0-9", twice)


def test_a_part_by_its_number_is_no_requested_range() -> None:
    assert partial_length(None, headers("bytes 10-19/100", "10"), is_part=True) == 10
    with pytest.raises(OriginBroken):
        partial_length(None, headers("bytes 10-19/100", "9"), is_part=True)


def test_a_multipart_body_describes_itself() -> None:
    several = CIMultiDict({"Content-Type": "multipart/byteranges; boundary=x", "Content-Length": "300"})
    assert partial_length("bytes=0-1,5-6", several) is None


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 60), st.integers(0, 60), st.integers(0, 70))
def test_what_is_accepted_is_the_requested_range(start: int, more: int, first: int, last: int, total: int) -> None:
    labelled = headers(f"bytes {first}-{last}/{total}", str(last - first + 1))
    try:
        length = partial_length(f"bytes={start}-{start + more}", labelled)
    except OriginBroken:
        return
    assert (first, last + 1) == (start, min(start + more + 1, total))
    assert length == last + 1 - first > 0


@pytest.mark.parametrize("content_range", ["bytes 0--1/0", None])
def test_an_empty_part_has_no_valid_content_range(content_range: str | None) -> None:
    assert partial_length(None, headers(content_range, "0"), is_part=True) == 0
    with pytest.raises(OriginBroken):
        partial_length(None, headers(content_range, "0"))
    with pytest.raises(OriginBroken):
        partial_length(None, headers(content_range, None), is_part=True)

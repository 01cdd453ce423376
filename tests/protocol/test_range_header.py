"""Ranges against a model that lists the selected bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.byte_ranges import Span
from forebay.protocol.range_header import WHOLE, ByteRange, SuffixRange, Unsatisfiable, parse_range, resolve

SIZES = st.integers(0, 40)
POSITIONS = st.integers(0, 50)


def selected(value: str, size: int) -> list[int] | None:
    """Returns the positions of the selected bytes; None: 416."""
    match resolve(parse_range(value), size):
        case Span(start, stop):
            return list(range(start, stop))
        case Unsatisfiable(object_size):
            assert object_size == size
            return None


@given(POSITIONS, POSITIONS, SIZES)
def test_closed_range_selects_the_bytes_between(first: int, last: int, size: int) -> None:
    expected = [byte for byte in range(size) if first <= byte <= last] if first <= last else list(range(size))
    assert selected(f"bytes={first}-{last}", size) == (expected or (None if first <= last else []))


@given(POSITIONS, SIZES)
def test_open_range_selects_the_rest(first: int, size: int) -> None:
    assert selected(f"bytes={first}-", size) == ([byte for byte in range(size) if byte >= first] or None)


@given(POSITIONS, SIZES)
def test_suffix_range_selects_the_last_bytes(length: int, size: int) -> None:
    assert selected(f"bytes=-{length}", size) == ([byte for byte in range(size) if byte >= size - length] or None)


@given(st.text(max_size=30) | st.from_regex(r"bytes=[0-9,\- ]{0,60}", fullmatch=True), SIZES)
def test_any_value_resolves_within_the_object(value: str, size: int) -> None:
    answered = selected(value, size)
    assert answered is None or answered == [byte for byte in range(size) if byte in answered]


@pytest.mark.parametrize(
    ("value", "spec"),
    [
        (None, WHOLE),
        ("bytes=0-0", ByteRange(0, 0)),
        ("bytes=5-", ByteRange(5, None)),
        ("bytes=-5", SuffixRange(5)),
        ("bytes=-0", SuffixRange(0)),
        ("Bytes=0-9", ByteRange(0, 9)),
        ("bytes= 0-9 ", ByteRange(0, 9)),
        ("bytes=007-0009", ByteRange(7, 9)),
    ],
)
def test_well_formed_range_is_parsed(value: str | None, spec: object) -> None:
    assert parse_range(value) == spec


@pytest.mark.parametrize(
    "value",
    [
        "",
        "bytes",
        "bytes=",
        "bytes=-",
        "bytes=a-b",
        "bytes=0",
        "bytes=--1",
        "bytes=5-4",
        "bytes=0x0-0x9",
        "bytes=٠-٩",
        "bytes 0-9",
        "items=0-9",
        "bytes=0-9,20-29",
        "bytes=0-9,",
        "bytes=0-9\n",
        "bytes=20-10,0-1",
    ],
)
def test_invalid_or_multiple_ranges_are_ignored(value: str) -> None:
    assert parse_range(value) is WHOLE


def test_numbers_beyond_any_object_size() -> None:
    huge = "9" * 5000
    assert resolve(parse_range(f"bytes={huge}-"), 10) == Unsatisfiable(10)
    assert resolve(parse_range(f"bytes=3-{huge}"), 10) == Span(3, 10)
    assert resolve(parse_range(f"bytes=-{huge}"), 10) == Span(0, 10)
    assert parse_range(f"bytes={huge}-{huge[:-1]}") is WHOLE
    assert resolve(parse_range(f"bytes={'0' * 5000}1-2"), 10) == Span(1, 3)


def test_any_range_of_an_empty_object_is_unsatisfiable() -> None:
    assert resolve(WHOLE, 0) == Span(0, 0)
    for value in ("bytes=0-", "bytes=0-0", "bytes=-1", "bytes=-0"):
        assert resolve(parse_range(value), 0) == Unsatisfiable(0)

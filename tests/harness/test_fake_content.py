"""Synthetic objects are the same bytes however they are read; stored ones are views of what was stored."""

from hypothesis import given
from hypothesis import strategies as st

from forebay.core.byte_ranges import Span
from harness.fake.content import Stored, Synthetic, joined

MIB = 1 << 20
TEN_GIB = 10 << 30


@given(st.integers(0, TEN_GIB - 1), st.integers(0, 3 * MIB), st.integers(0, 3 * MIB))
def test_a_synthetic_span_is_its_halves_joined(start: int, first: int, second: int) -> None:
    content = Synthetic(TEN_GIB, seed=7)
    middle, stop = min(start + first, TEN_GIB), min(start + first + second, TEN_GIB)
    whole = content.expected(Span(start, stop))
    assert len(whole) == stop - start
    assert whole == content.expected(Span(start, middle)) + content.expected(Span(middle, stop))


def test_no_two_blocks_of_a_synthetic_object_are_alike() -> None:
    content = Synthetic(TEN_GIB, seed=7)
    beginnings = {content.expected(Span(at, at + 64)) for at in range(0, TEN_GIB, 64 * MIB)}
    assert len(beginnings) == TEN_GIB // (64 * MIB)


def test_seeds_differ_and_are_stable() -> None:
    span = Span(MIB - 8, MIB + 8)
    assert Synthetic(2 * MIB, 1).expected(span) == Synthetic(2 * MIB, 1).expected(span)
    assert Synthetic(2 * MIB, 1).expected(span) != Synthetic(2 * MIB, 2).expected(span)
    assert Synthetic(2 * MIB, 1).etag != Synthetic(2 * MIB, 2).etag


@given(st.lists(st.binary(max_size=20), max_size=5), st.integers(0, 100), st.integers(0, 100))
def test_stored_buffers_read_as_one(buffers: list[bytes], one: int, other: int) -> None:
    whole = b"".join(buffers)
    start, stop = sorted((min(one, len(whole)), min(other, len(whole))))
    content = joined([Stored(each) for each in buffers])
    assert content.size == len(whole)
    assert b"".join(content.views(start, stop)) == whole[start:stop]

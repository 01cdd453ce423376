import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.byte_ranges import Span
from forebay.storage.ssd.segments.record import (
    SLICE,
    encode_header,
    header_size,
    parse_header,
    record_size,
    slices_of,
    verify_header,
    verify_payload,
)
from harness.ssd_rig import block_id, content_of

ADDRESS = bytes(range(28))
LENGTHS = st.one_of(st.integers(1, 300), st.sampled_from([SLICE - 1, SLICE, SLICE + 1, 3 * SLICE + 5]))


@given(LENGTHS)
def test_a_record_verifies_as_itself(length: int) -> None:
    payload = content_of(block_id("a"), length)
    header = encode_header(ADDRESS, payload)
    assert len(header) == header_size(length)
    assert record_size(length) % 8 == 0
    assert 0 <= record_size(length) - len(header) - length < 8
    sums = verify_header(memoryview(header), ADDRESS, length)
    assert not isinstance(sums, str)
    assert verify_payload(sums, 0, payload)
    assert parse_header(memoryview(header)) == (ADDRESS, length)


@given(LENGTHS, st.data())
def test_no_header_with_a_flipped_bit_verifies(length: int, data: st.DataObject) -> None:
    header = bytearray(encode_header(ADDRESS, content_of(block_id("a"), length)))
    bit = data.draw(st.integers(0, 8 * len(header) - 1))
    header[bit // 8] ^= 1 << bit % 8
    assert isinstance(verify_header(memoryview(header), ADDRESS, length), str)


@given(LENGTHS, st.data())
def test_no_payload_with_a_flipped_bit_verifies(length: int, data: st.DataObject) -> None:
    payload = content_of(block_id("a"), length)
    sums = verify_header(memoryview(encode_header(ADDRESS, payload)), ADDRESS, length)
    assert not isinstance(sums, str)
    torn = bytearray(payload)
    bit = data.draw(st.integers(0, 8 * length - 1))
    torn[bit // 8] ^= 1 << bit % 8
    assert not verify_payload(sums, 0, memoryview(torn))


@pytest.mark.parametrize("at", [0, 15, 16, 23, 24, 27])
def test_a_record_of_another_block_does_not_verify(at: int) -> None:
    header = memoryview(encode_header(ADDRESS, content_of(block_id("a"), 100)))
    other = bytearray(ADDRESS)
    other[at] ^= 1
    assert verify_header(header, bytes(other), 100) == "foreign header"


def test_a_record_of_another_length_does_not_verify() -> None:
    header = memoryview(encode_header(ADDRESS, content_of(block_id("a"), 100)))
    assert verify_header(header, ADDRESS, 101) == "foreign header"


def test_a_slice_is_verified_on_its_own() -> None:
    payload = content_of(block_id("a"), 3 * SLICE + 10)
    sums = verify_header(memoryview(encode_header(ADDRESS, payload)), ADDRESS, len(payload))
    assert not isinstance(sums, str)
    assert verify_payload(sums, 1, payload[SLICE : 2 * SLICE])
    assert not verify_payload(sums, 2, payload[SLICE : 2 * SLICE])
    assert verify_payload(sums, 3, payload[3 * SLICE :])


@pytest.mark.parametrize(
    ("within", "slices"),
    [
        (Span(0, 1), range(1)),
        (Span(SLICE - 1, SLICE), range(1)),
        (Span(SLICE - 1, SLICE + 1), range(2)),
        (Span(SLICE, 2 * SLICE), range(1, 2)),
    ],
)
def test_the_slices_that_a_range_touches(within: Span, slices: range) -> None:
    assert slices_of(within) == slices


def test_a_header_whose_start_is_damaged_is_not_parsed() -> None:
    """The fields before the length: a scan must not take other bytes for a record."""
    header = encode_header(ADDRESS, content_of(block_id("a"), 300))
    for bit in range(8 * header.index((300).to_bytes(4))):
        damaged = bytearray(header)
        damaged[bit // 8] ^= 1 << bit % 8
        assert parse_header(memoryview(damaged)) is None


@pytest.mark.parametrize("raw", [b"", b"FBR1", bytes(48), b"FBR1" + bytes(44), b"FBR1" + b"\xff" * 44])
def test_garbage_is_not_parsed_as_a_header(raw: bytes) -> None:
    assert parse_header(memoryview(raw)) is None

from __future__ import annotations

from array import array
from collections.abc import Callable
from mmap import mmap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.protocol.body.crc64 import combine, crc64

BYTES = st.binary(max_size=2000)


def slowly(told: bytes) -> int:
    """Bit by bit, as the catalogue of CRCs describes CRC-64/XZ."""
    register = 0xFFFF_FFFF_FFFF_FFFF
    for byte in told:
        register ^= byte
        for _ in range(8):
            register = (register >> 1) ^ (0xC96C5795D7870F42 if register & 1 else 0)
    return register ^ 0xFFFF_FFFF_FFFF_FFFF


def test_the_catalogue_s_check_value() -> None:
    assert crc64(b"123456789") == slowly(b"123456789") == 0x995DC9BBDF1939FA


def test_nothing_is_nought() -> None:
    assert crc64(b"") == slowly(b"") == 0


@given(BYTES)
def test_as_the_slow_one(told: bytes) -> None:
    assert crc64(told) == slowly(told)


@pytest.mark.parametrize("size", [1 << 16, (1 << 20) + 1])
def test_as_the_slow_one_where_the_fast_one_goes_wide(size: int) -> None:
    told = bytes(n * n % 251 for n in range(size))
    assert crc64(told) == slowly(told)


@given(st.lists(BYTES, max_size=5))
def test_piece_by_piece_and_joined(pieces: list[bytes]) -> None:
    running = joined = 0
    for piece in pieces:
        running = crc64(piece, running)
        joined = combine(joined, crc64(piece), len(piece))
    assert running == joined == crc64(b"".join(pieces))


@given(BYTES, st.integers(0, 70_000))
def test_joined_to_a_long_run(first: bytes, length: int) -> None:
    assert combine(crc64(first), crc64(bytes(length)), length) == crc64(first + bytes(length))


@given(
    st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 2**48),
    st.integers(0, 2**48),
)  # fmt: skip
def test_joining_in_any_order(first: int, second: int, third: int, size: int, last: int) -> None:
    """At the lengths of the largest objects too, which no test can run over."""
    left = combine(combine(first, second, size), third, last)
    assert left == combine(first, combine(second, third, last), size + last)


KINDS: list[Callable[[bytes], bytes | bytearray | memoryview | array[int]]] = [
    bytes, bytearray, memoryview, lambda told: memoryview(b"x" + told)[1:], lambda told: memoryview(bytearray(told)),
    lambda told: array("Q", told), lambda told: memoryview(told).cast("I"),
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_any_buffer(kind: Callable[[bytes], bytes | bytearray | memoryview | array[int]]) -> None:
    told = bytes(range(256)) * 4
    assert crc64(kind(told)) == crc64(told)


def test_a_mapped_file() -> None:
    with mmap(-1, 4096) as mapped:
        mapped[:] = bytes(range(256)) * 16
        assert crc64(mapped) == crc64(bytes(range(256)) * 16)


@pytest.mark.parametrize("start", [-1, 2**64])
def test_what_can_not_have_come_before(start: int) -> None:
    with pytest.raises(OverflowError):
        crc64(b"a", start)

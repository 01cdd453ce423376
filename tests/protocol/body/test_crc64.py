from __future__ import annotations

from array import array
from collections.abc import Callable
from mmap import mmap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.protocol.body.crc64 import crc64

BYTES = st.binary(max_size=2000)


def reference_crc64(content: bytes) -> int:
    """Bit by bit, as the catalogue of CRCs describes CRC-64/XZ."""
    register = 0xFFFF_FFFF_FFFF_FFFF
    for byte in content:
        register ^= byte
        for _ in range(8):
            register = (register >> 1) ^ (0xC96C5795D7870F42 if register & 1 else 0)
    return register ^ 0xFFFF_FFFF_FFFF_FFFF


def test_the_check_value_of_the_catalogue() -> None:
    assert crc64(b"123456789") == reference_crc64(b"123456789") == 0x995DC9BBDF1939FA


def test_the_crc_of_no_bytes_is_zero() -> None:
    assert crc64(b"") == reference_crc64(b"") == 0


@given(BYTES)
def test_any_bytes_match_the_reference(content: bytes) -> None:
    assert crc64(content) == reference_crc64(content)


@pytest.mark.parametrize("size", [1 << 16, (1 << 20) + 1])
def test_long_buffers_match_the_reference(size: int) -> None:
    content = bytes(n * n % 251 for n in range(size))
    assert crc64(content) == reference_crc64(content)


KINDS: list[Callable[[bytes], bytes | bytearray | memoryview | array[int]]] = [
    bytes, bytearray, memoryview, lambda raw: memoryview(b"x" + raw)[1:], lambda raw: memoryview(bytearray(raw)),
    lambda raw: array("Q", raw), lambda raw: memoryview(raw).cast("I"),
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_any_buffer_is_accepted(kind: Callable[[bytes], bytes | bytearray | memoryview | array[int]]) -> None:
    content = bytes(range(256)) * 4
    assert crc64(kind(content)) == crc64(content)


def test_a_mapped_file_is_accepted() -> None:
    with mmap(-1, 4096) as mapped:
        mapped[:] = bytes(range(256)) * 16
        assert crc64(mapped) == crc64(bytes(range(256)) * 16)


@pytest.mark.parametrize("start", [-1, 2**64])
def test_a_start_outside_64_bits_is_refused(start: int) -> None:
    with pytest.raises(OverflowError):
        crc64(b"a", start)

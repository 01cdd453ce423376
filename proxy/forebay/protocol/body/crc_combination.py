"""The combination of CRCs: that of a body from those of its parts, for the CRCs of S3 and OSS.

    crc(first + second) = crc(first) * x**(8 * len(second)) + crc(second)

over GF(2), modulo the polynomial P, in reflected order: bit 63 - n of a number is the coefficient of x**n, so 1 << 63
is the polynomial 1. All of them begin with all ones and are inverted at the end, which cancels.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity-upload.html
https://reveng.sourceforge.io/crc-catalogue/all.htm
"""

from collections.abc import Callable
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

from fastcrc import crc32

from forebay.protocol.body.crc64 import crc64


class _Crc(NamedTuple):
    bits: int
    update: Callable[[bytes, int], int]
    """Called with bytes, and the CRC of the bytes before them; returns the CRC."""
    ones: int
    """A mask for the product of two numbers with one byte for each bit: bytes of 1."""
    digits: int
    """The same mask, of bytes of the digit "0"."""


def _crc(bits: int, update: Callable[[bytes, int], int]) -> _Crc:
    digits = 2 * bits - 1
    return _Crc(bits, update, int.from_bytes(b"\1" * digits), int.from_bytes(b"0" * digits))


def _crc64nvme(content: bytes, before: int) -> int:
    from awscrt import checksums  # noqa: PLC0415 # takes 40 ms, so only when an upload needs it: docs/decisions/0023

    return int(checksums.crc64nvme(content, before))


_CRC64: Final = _crc(64, crc64)
_CRCS: Final = MappingProxyType(
    {"crc32": _crc(32, crc32.iso_hdlc), "crc32c": _crc(32, crc32.iscsi), "crc64nvme": _crc(64, _crc64nvme)}
)


def is_combinable(algorithm: str) -> bool:
    """Returns whether checksums of parts combine to that of the whole. `algorithm`: as in x-amz-checksum-ALGORITHM."""
    return algorithm in _CRCS


def combine_crcs(algorithm: str, first: bytes, second: bytes, second_length: int) -> bytes:
    """Returns the digest of two runs of bytes together, from their digests and the length of the second in bytes."""
    crc = _CRCS[algorithm]
    return _combine(crc, int.from_bytes(first), int.from_bytes(second), second_length).to_bytes(crc.bits // 8)


def combine_crc64(first: int, second: int, second_length: int) -> int:
    """Returns the same of two CRC-64/XZ."""
    return _combine(_CRC64, first, second, second_length)


def _combine(crc: _Crc, first: int, second: int, second_length: int) -> int:
    return _product(crc, first, _shift(crc, second_length)) ^ second


@lru_cache(maxsize=64)  # the parts of an upload usually have one length
def _shift(crc: _Crc, length: int) -> int:
    """x**(8 * length): the factor by which `length` more bytes multiply a CRC."""
    shift = 1 << crc.bits - 1
    square = shift >> 8
    while length:
        if length & 1:
            shift = _product(crc, shift, square)
        square = _product(crc, square, square)
        length >>= 1
    return shift


def _product(crc: _Crc, left: int, right: int) -> int:
    # With one byte for each bit, an ordinary product has no carry between bytes: each sum is at most 64, and its lowest
    # bit is the sum over GF(2).
    bits, update, ones, digits = crc
    spread = int.from_bytes(f"{left:b}".encode()) & ones, int.from_bytes(f"{right:b}".encode()) & ones
    product = int((spread[0] * spread[1] & ones | digits).to_bytes(2 * bits - 1), 2)
    # Of 127 bits, bit 126 - n is the coefficient of x**n. x**64 and above are reduced as bytes are: by a CRC that
    # begins with an empty register.
    full = (1 << bits) - 1
    above = (product << 1 & full).to_bytes(bits // 8, "little")
    return product >> bits - 1 ^ update(above, full) ^ full

"""The combination of CRCs: that of a body from those of its parts, for the CRCs of S3.

    crc(first + second) = crc(first) * x**(8 * len(second)) + crc(second)

over GF(2), modulo the polynomial, in reflected order: the highest bit of a number is the polynomial 1. All of them
begin with all ones and are inverted at the end, which cancels (see crc64, which has a faster product for CRC-64/XZ).

https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity-upload.html
https://reveng.sourceforge.io/crc-catalogue/all.htm
"""

from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple


class _Crc(NamedTuple):
    bits: int
    polynomial: int
    """Reflected."""


_CRCS: Final = MappingProxyType(
    {
        "crc32": _Crc(32, 0xEDB8_8320),
        "crc32c": _Crc(32, 0x82F6_3B78),
        "crc64nvme": _Crc(64, 0x9A6C_9329_AC4B_C9B5),
    }
)


def is_combinable(algorithm: str) -> bool:
    """Returns whether checksums of parts combine to that of the whole. `algorithm`: as in x-amz-checksum-ALGORITHM."""
    return algorithm in _CRCS


def combine_crcs(algorithm: str, first: bytes, second: bytes, second_length: int) -> bytes:
    """Returns the digest of two runs of bytes together, from their digests and the length of the second in bytes."""
    crc = _CRCS[algorithm]
    value = _product(int.from_bytes(first), _shift(crc, second_length), crc) ^ int.from_bytes(second)
    return value.to_bytes(crc.bits // 8)


@lru_cache(maxsize=64)  # the parts of an upload usually have one length
def _shift(crc: _Crc, length: int) -> int:
    """x**(8 * length)."""
    shift = 1 << crc.bits - 1
    square = shift >> 8
    while length:
        if length & 1:
            shift = _product(shift, square, crc)
        square = _product(square, square, crc)
        length >>= 1
    return shift


def _product(left: int, right: int, crc: _Crc) -> int:
    product, bit = 0, 1 << crc.bits - 1
    while left:
        if left & bit:
            product ^= right
            left ^= bit
        right = right >> 1 ^ (crc.polynomial if right & 1 else 0)
        bit >>= 1
    return product

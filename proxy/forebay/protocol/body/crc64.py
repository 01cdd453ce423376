"""CRC-64/XZ: the checksum of objects in Alibaba OSS (x-oss-hash-crc64ecma, decimal) and of records on the SSD.

    polynomial 0x42F0E1EBA9EA3693, reflected, all ones in and out; of b"123456789" it is 0x995DC9BBDF1939FA

Not CRC-64/NVME, which S3 uses: neither can be computed from the other. fastcrc computes the CRC of bytes
(docs/decisions/0013, 0023); this module only combines two CRCs.

`combine` works on polynomials over GF(2), modulo P, in reflected order: bit 63 - n of a number is the coefficient of
x**n, so 1 << 63 is the polynomial 1. The CRC of `first + second` is crc(first) * x**(8 * len(second)) + crc(second):
the initial and final inversions cancel.

https://reveng.sourceforge.io/crc-catalogue/17plus.htm#crc.cat.crc-64-xz
"""

from functools import lru_cache
from typing import Final

from fastcrc.crc64 import xz

_ALL: Final = 0xFFFF_FFFF_FFFF_FFFF
_POLYNOMIAL_ONE: Final = 1 << 63
# 127 bytes of 1, and of the digit "0": masks for numbers with one byte for each bit.
_BITS: Final = int.from_bytes(b"\1" * 127)
_DIGITS: Final = int.from_bytes(b"0" * 127)


crc64: Final = xz
"""Called with a contiguous buffer, and the CRC of the bytes before it if there are any; returns the CRC."""


def combine(first: int, second: int, second_length: int) -> int:
    """The CRC of two runs of bytes together, from their CRCs and the length of the second in bytes."""
    return _product(first, _shift(second_length)) ^ second


@lru_cache(maxsize=64)  # the parts of an upload usually have one length
def _shift(length: int) -> int:
    """x**(8 * length): the factor by which `length` more bytes multiply a CRC."""
    shift, square = _POLYNOMIAL_ONE, _POLYNOMIAL_ONE >> 8
    while length:
        if length & 1:
            shift = _product(shift, square)
        square = _product(square, square)
        length >>= 1
    return shift


def _product(left: int, right: int) -> int:
    # With one byte for each bit, an ordinary product has no carry between bytes: each sum is at most 64, and its lowest
    # bit is the sum over GF(2).
    spread = int.from_bytes(f"{left:b}".encode()) & _BITS, int.from_bytes(f"{right:b}".encode()) & _BITS
    product = int((spread[0] * spread[1] & _BITS | _DIGITS).to_bytes(127), 2)
    # 127 bits: bit 126 - n is the coefficient of x**n. x**64 and above are reduced as bytes are: by a CRC that begins
    # with an empty register.
    above = (product << 1 & _ALL).to_bytes(8, "little")
    return product >> 63 ^ xz(above, _ALL) ^ _ALL

"""CRC-64/XZ: the checksum that Alibaba OSS tells of an object, x-oss-hash-crc64ecma, as a decimal number; and the one
that records on the SSD carry.

    polynomial 0x42F0E1EBA9EA3693, reflected, all ones in and out; of b"123456789" it is 0x995DC9BBDF1939FA

Not CRC-64/NVME, which S3 uses: neither can be had from the other without the bytes. The bytes are run over by fastcrc
(docs/decisions/0013, 0023); only joining two checksums is done here.

`combine` works on polynomials over GF(2), modulo P, in reflected order: bit 63 - n of a number is the coefficient of
x**n, so 1 << 63 is the polynomial 1. The CRC of `first + second` is crc(first) * x**(8 * len(second)) + crc(second):
the initial and final inversions cancel.

https://reveng.sourceforge.io/crc-catalogue/17plus.htm#crc.cat.crc-64-xz
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from fastcrc.crc64 import xz

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_ALL: Final = 0xFFFF_FFFF_FFFF_FFFF
_ONE: Final = 1 << 63
# A number of one byte a bit, each 0 or 1, and the same as the digits "0" of its text in base 2.
_BITS: Final = int.from_bytes(b"\1" * 127)
_DIGITS: Final = int.from_bytes(b"0" * 127)


def crc64(buffer: "ReadableBuffer", start: int = 0) -> int:
    """Of the bytes of `buffer`, which is contiguous; `start` is the CRC of all that came before them."""
    return xz(buffer, start)


def combine(first: int, second: int, second_length: int) -> int:
    """The CRC of a run of bytes from the CRCs of its two halves and the length of the second, in bytes."""
    return _product(first, _shift(second_length)) ^ second


@lru_cache(maxsize=64)  # the parts of an upload are of one length, as a rule
def _shift(length: int) -> int:
    """x**(8 * length): what a run of bytes multiplies the CRC of all before it by."""
    shift, square = _ONE, _ONE >> 8
    while length:
        if length & 1:
            shift = _product(shift, square)
        square = _product(square, square)
        length >>= 1
    return shift


def _product(left: int, right: int) -> int:
    # With a byte for each bit an ordinary product carries nothing from one to the next: none is above 64, and the sum
    # over GF(2) is the lowest bit of it.
    spread = int.from_bytes(f"{left:b}".encode()) & _BITS, int.from_bytes(f"{right:b}".encode()) & _BITS
    product = int((spread[0] * spread[1] & _BITS | _DIGITS).to_bytes(127), 2)
    # 127 bits: bit 126 - n is the coefficient of x**n. Those of x**64 and above are reduced by what reduces bytes: a
    # CRC begun with an empty register.
    above = (product << 1 & _ALL).to_bytes(8, "little")
    return product >> 63 ^ xz(above, _ALL) ^ _ALL

"""Hashes of units by their numbers, for samples of reads (forebay.policy.reuse_distance)."""

from typing import Final

from forebay.policy.reuse_distance import HASH_BITS

_MIX: Final = 0x9E37_79B9_7F4A_7C15
_MASK: Final = (1 << 64) - 1


def unit_hash(number: int) -> int:
    number = (number & _MASK) * _MIX & _MASK
    number ^= number >> 32
    return number * _MIX >> 32 & (1 << HASH_BITS) - 1

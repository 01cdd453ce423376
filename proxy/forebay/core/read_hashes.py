"""Searches columns of read hashes (core.read_log.read_hash) in bulk, not hash by hash. Pure."""

import re
import sys
from array import array
from typing import Final, TypeAlias

ReadHashes: TypeAlias = "array[int]"
"""32 bits each."""

_TOP: Final = 3 if sys.byteorder == "little" else 0
_TOP_STEP: Final = 1 << 24
"""The least hash with 1 in its top byte."""
_NEAR_END: Final = 64
_FIND: Final = re.compile(b"\1").finditer
_TABLES: Final = {tops: bytes(int(top < tops) for top in range(256)) for tops in (1, 2, 4, 8, 16, 32, 64, 128)}
"""A table for each limit, with 1 for every byte below it."""


def flags_below(hashes: ReadHashes, threshold: int) -> bytes:
    """Returns for each hash whether it is below `threshold`, a power of two up to 2^31: for itertools.compress."""
    if threshold < _TOP_STEP:
        return bytes(found < threshold for found in hashes)
    return hashes.tobytes()[_TOP::4].translate(_TABLES[threshold // _TOP_STEP])


def numbers_below(hashes: ReadHashes, threshold: int) -> list[int]:
    """Returns the indices of the hashes that are below `threshold`, a power of two. Fast if there are few."""
    flags = flags_below(hashes, max(threshold, _TOP_STEP))
    numbers = [found.start() for found in _FIND(flags)]
    return numbers if threshold >= _TOP_STEP else [number for number in numbers if hashes[number] < threshold]


def count_distinct(hashes: ReadHashes) -> int:
    """Returns how many hashes there are before the first that is repeated. Fast if it is near the end, or none is."""
    behind = 0
    while True:
        first = max(0, len(hashes) - behind)
        seen = set(hashes[:first])
        if len(seen) == first:
            break
        behind = max(_NEAR_END, 4 * behind)
    for number in range(first, len(hashes)):
        if hashes[number] in seen:
            return number
        seen.add(hashes[number])
    return len(hashes)

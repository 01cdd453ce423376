"""The halves of numbers of 64 bits, in columns: copied with a stride, so that nothing is done for a single number."""

import sys
from array import array
from typing import Final

_LOW: Final = 0 if sys.byteorder == "little" else 1


def low_halves(column: "array[int]") -> "memoryview[int]":
    """Returns the low 32 bits of each number. A view: the column keeps its length while there is one."""
    return _halves(column, _LOW)


def high_halves(column: "array[int]") -> "memoryview[int]":
    """Returns the high 32 bits of each number, likewise."""
    return _halves(column, 1 - _LOW)


def _halves(column: "array[int]", which: int) -> "memoryview[int]":
    return memoryview(column).cast("B").cast("I")[which::2]

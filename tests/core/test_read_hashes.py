"""Columns of hashes: a search for few of them finds what a look at each does."""

from array import array
from itertools import compress

import pytest

from forebay.core.read_hashes import count_distinct, flags_below, numbers_below
from harness.loader_orders import hashes_of, sample_keys


@pytest.mark.parametrize("bits", [14, 20, 23, 24, 25, 28, 31])
def test_the_hashes_below_a_threshold_are_found(bits: int) -> None:
    hashes = hashes_of(sample_keys(3000)) + array("I", [0, (1 << bits) - 1, 1 << bits, (1 << 32) - 1])
    expected = [number for number, found in enumerate(hashes) if found < 1 << bits]
    assert numbers_below(hashes, 1 << bits) == expected
    assert list(compress(range(len(hashes)), flags_below(hashes, 1 << bits))) == expected
    assert len(expected) >= 2


@pytest.mark.parametrize("repeats", [(), (999,), (990,), (930, 960), (700,), (10, 999), (1,)])
def test_distinct_hashes_are_counted_up_to_the_first_repeated(repeats: tuple[int, ...]) -> None:
    hashes = hashes_of(sample_keys(1000))
    for number in repeats:
        hashes[number] = hashes[number // 2]
    assert count_distinct(hashes) == min(repeats, default=1000)
    assert count_distinct(hashes[:0]) == 0

"""Reuse distances from a sample of the reads, against caches that are carried out read by read."""

import random
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.policy.reuse_distance import HASH_BITS, ReuseCurve, ReuseSample
from harness.unit_hashes import unit_hash


def lru_hits(reads: Iterable[int], sizes: Sequence[int], capacity: int) -> float:
    """The share of bytes that an LRU cache hits, of what had been read before."""
    cache: OrderedDict[int, int] = OrderedDict()
    seen: set[int] = set()
    used = hit = again = 0
    for unit in reads:
        again += sizes[unit] * (unit in seen)
        seen.add(unit)
        if unit in cache:
            hit += sizes[unit]
            cache.move_to_end(unit)
        else:
            cache[unit] = sizes[unit]
            used += sizes[unit]
        while used > capacity:
            used -= cache.popitem(last=False)[1]
    return hit / again


def curve_of(reads: Iterable[int], sizes: Sequence[int], max_units: int = 8192) -> ReuseCurve:
    """The size of the set is known."""
    sample, read = ReuseSample(max_units), set[int]()
    for unit in reads:
        read.add(unit)
        sample.record(unit_hash(unit), sizes[unit], sizes[unit])
    return sample.curve(sum(sizes[unit] for unit in read))


def shuffled(units: int, epochs: int) -> Iterator[int]:
    order = random.Random(units)
    for _ in range(epochs):
        yield from order.sample(range(units), units)


@pytest.mark.parametrize("max_units", [8192, 1024])
def test_epochs_in_new_orders_follow_the_law_of_lru(max_units: int) -> None:
    sizes = [random.Random(unit).randrange(1, 200_000) for unit in range(5000)]
    curve = curve_of(shuffled(5000, 6), sizes, max_units)
    for x in (0.2, 0.35, 0.5, 0.65, 0.8):
        capacity = int(x * sum(sizes))
        assert curve.lru_share(capacity) == pytest.approx(x + (1 - x) * log(1 - x), abs=0.03)
        assert curve.stable_share(capacity) == pytest.approx(x, abs=0.03)


@pytest.mark.parametrize("max_units", [8192, 500])
def test_a_fixed_order_hits_nothing_below_the_size_of_the_set(max_units: int) -> None:
    sizes = [1000] * 3000
    curve = curve_of((unit for _ in range(4) for unit in range(3000)), sizes, max_units)
    assert curve.lru_share(2_700_000) < 0.01
    assert curve.lru_share(3_300_000) > 0.99
    assert curve.set_size == pytest.approx(3_000_000, rel=0.05)


def test_hot_units_are_hit_by_small_caches() -> None:
    choice = random.Random(3)
    reads = [min(int(choice.paretovariate(0.7)), 3999) for _ in range(60_000)]
    sizes = [100] * 4000
    curve = curve_of(reads, sizes)
    for capacity in (2_000, 20_000, 100_000, 300_000):
        assert curve.lru_share(capacity) == pytest.approx(lru_hits(reads, sizes, capacity), abs=0.02)


@given(st.lists(st.integers(0, 40), min_size=2, max_size=200), st.integers(1, 42))
def test_a_whole_sample_gives_the_hits_of_an_lru_cache(reads: list[int], capacity: int) -> None:
    """To the width of a column of the histogram, 2 %."""
    if len(set(reads)) == len(reads):
        reads.append(reads[0])
    sizes = [100] * 41
    share = curve_of(reads, sizes).lru_share(100 * capacity)
    assert lru_hits(reads, sizes, 97 * capacity) <= share + 1e-9
    assert share - 1e-9 <= lru_hits(reads, sizes, 103 * capacity)


def test_the_sample_keeps_its_size_and_all_reads_of_its_units() -> None:
    sample = ReuseSample(256)
    for _ in range(3):
        for number in range(20_000):
            unit = unit_hash(number)
            before = sample.threshold
            sample.record(unit, 10, 10)
            assert sample.threshold in (before, before // 2)
    assert sample.rate in (1 / 64, 1 / 128, 1 / 256)
    assert sample.curve().set_size == pytest.approx(200_000, rel=0.2)


def test_a_gap_in_what_was_recorded_makes_no_distance() -> None:
    sample = ReuseSample()
    for _ in range(2):
        for number in range(10):
            sample.record(unit_hash(number), 10, 10)
    before = sample.curve()
    sample.cut()
    for number in range(10):
        sample.record(unit_hash(number), 10, 10)
    assert sample.curve() == before


def test_what_was_read_lately_counts_more() -> None:
    sample = ReuseSample(128)
    for number in [1] * 40 + [number for _ in range(9) for number in range(2, 12)]:
        sample.record(unit_hash(number), 10, 10)
        sample.begin_epoch()  # after each 16 reads, at most
    assert sample.curve().lru_share(11) < 0.1


def test_units_gone_from_the_set_leave_the_sample() -> None:
    sample = ReuseSample(256)
    for first in range(0, 4000, 100):
        for _ in range(3):
            for number in range(first, first + 100):
                sample.record(unit_hash(number), 10, 10)
            sample.begin_epoch()
    assert sample.rate == 1
    assert sample.curve().set_size == 1000
    assert sample.curve().lru_share(1030) > 0.99


def test_nothing_recorded_predicts_nothing() -> None:
    curve = ReuseSample().curve()
    assert (curve.lru_share(1 << 40), curve.stable_share(1 << 40), curve.read_again) == (0.0, 0.0, 0.0)


def test_a_size_that_is_known_better_replaces_the_estimate() -> None:
    sample = ReuseSample()
    for _ in range(2):
        for number in range(10):
            sample.record(unit_hash(number), 10, 10)
    assert sample.curve().stable_share(50) == 0.5
    known = sample.curve(200)
    assert known.stable_share(50) == 0.25
    assert (known.lru_share(190), known.lru_share(205)) == (0.0, 1.0)


def test_hashes_of_neighbours_are_spread_evenly() -> None:
    hashes = [unit_hash(number) for number in range(-5000, 5000)]
    assert len(set(hashes)) > 9990
    for eighth in range(8):
        low = eighth << HASH_BITS - 3
        assert sum(low <= each < low + (1 << HASH_BITS - 3) for each in hashes) == pytest.approx(1250, rel=0.15)

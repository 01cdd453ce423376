"""Which blocks a stable share has: evenly chosen, by a hash that nobody can foresee, and for each object alike."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.policy.stable_share import OCTAVES, band_of, block_priority

PRIORITIES = st.integers(0, (1 << 64) - 1)


@given(PRIORITIES, PRIORITIES, st.integers(1, 8))
def test_bands_are_in_the_order_of_priorities(one: int, other: int, fineness: int) -> None:
    low, high = sorted((one, other))
    assert band_of(low, fineness) >= band_of(high, fineness)


@given(PRIORITIES, st.integers(1, 8))
def test_bands_are_numbered_from_the_highest_priorities(priority: int, fineness: int) -> None:
    assert 0 <= band_of(priority, fineness) <= OCTAVES << fineness
    assert band_of((1 << 64) - 1, fineness) == 0
    assert band_of(0, fineness) == OCTAVES << fineness


@pytest.mark.parametrize("fineness", [3, 6])
def test_a_halving_has_as_many_bands_as_its_fineness_says(fineness: int) -> None:
    for octave in range(OCTAVES):
        top = (1 << 64 - octave) - 1
        assert band_of(top, fineness) == octave << fineness
        assert band_of((top + 1) // 2, fineness) == (octave + 1 << fineness) - 1


def test_no_band_is_much_of_what_is_below_its_upper_edge() -> None:
    random = Random(1)
    bands = [band_of(random.getrandbits(64), 3) for _ in range(50_000)]
    for band in range(16):
        below = sum(other >= band for other in bands)
        assert bands.count(band) < below / 7


@given(PRIORITIES)
def test_any_run_of_blocks_of_one_object_is_spread_evenly(seed: int) -> None:
    kept = [block_priority(seed, number) < 1 << 63 for number in range(200)]
    for start in range(0, 200, 20):
        assert 8 <= sum(kept[start : start + 20]) <= 12


def test_the_first_block_has_the_priority_of_its_object() -> None:
    assert block_priority(12345, 0) == 12345

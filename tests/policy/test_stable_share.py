"""Which blocks a stable share has: evenly chosen, by a hash that nobody can foresee, and for each object alike."""

from bisect import bisect_right
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.policy.stable_share import OCTAVES, band_of, block_priority, risen_band

PRIORITIES = st.integers(0, (1 << 64) - 1)
EVEN_BANDS = sorted(band_of((2 * number + 1) << 51, 3) for number in range(1 << 12))
BELOW = [len(EVEN_BANDS) - bisect_right(EVEN_BANDS, band) for band in range((OCTAVES << 3) + 1)]
"""How many of 4,096 even priorities are below each band."""


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


@given(st.integers(1, 60), st.integers(1, 1_000_000), st.floats(0, 10))
def test_a_risen_share_is_the_largest_that_fits(band: int, used: int, more: float) -> None:
    room = int(more * used)
    risen = risen_band(band, 3, used, room)
    assert 0 <= risen < band
    if risen < band - 1:
        assert BELOW[risen] * used <= BELOW[band] * (used + room)
    if risen > 0:
        assert BELOW[risen - 1] * used > BELOW[band] * (used + room)


def test_a_share_without_room_rises_by_one_band() -> None:
    assert [risen_band(band, 3, 1000, 0) for band in (1, 2, 10, OCTAVES << 3)] == [0, 1, 9, (OCTAVES << 3) - 1]
    assert risen_band(10, 3, 0, 1000) == 0

"""What to set for a data set, by what was read of it."""

import random
from collections.abc import Callable, Iterable

import pytest

from forebay.policy.reuse_distance import ReuseCurve, ReuseSample
from forebay.policy.tier_advice import FACTORS, TierSpace, advise, outlooks
from harness.unit_hashes import unit_hash

MIB = 1 << 20


def of(size: int) -> Callable[[float], TierSpace]:
    """Tiers that keep `size` MiB, at each factor."""
    return lambda factor: TierSpace(round(size * factor) * MIB, round(size * factor) * MIB)


def curve_of(reads: Iterable[int], size: int = MIB) -> ReuseCurve:
    sample = ReuseSample()
    for unit in reads:
        sample.record(unit_hash(unit), size, size)
    return sample.curve()


def shuffled(units: int, epochs: int = 4) -> Iterable[int]:
    order = random.Random(units)
    return (unit for _ in range(epochs) for unit in order.sample(range(units), units))


def test_a_set_read_in_new_orders_that_does_not_fit_wants_epoch() -> None:
    advice = advise(curve_of(shuffled(1000)), of(500), "lru")
    assert (advice.eviction, advice.quota, advice.factor) == ("epoch", None, 2.0)
    assert [row.factor for row in advice.outlooks] == list(FACTORS)
    assert [row.epoch for row in advice.outlooks] == [0.25, 0.5, 1.0, 1.0]
    assert [row.lru for row in advice.outlooks] == pytest.approx([0.034, 0.153, 1.0, 1.0], abs=0.03)
    assert advice.reasons[1].startswith('Set eviction = "epoch": it hits 50 % of what is read again, 3')


def test_a_quota_is_named_where_it_bounds_the_space() -> None:
    """Larger tiers alone would gain nothing."""
    advice = advise(curve_of(shuffled(1000)), of(500), "epoch", has_quota=True)
    assert [advice.reasons[0], advice.reasons[2]] == [
        "The set has 1000 MiB, its quota and memory keep 500 MiB.",
        "A quota 2 times as large hits 100 %.",
    ]
    assert "A larger quota gains nothing." in advise(curve_of(shuffled(400)), of(1000), "lru", has_quota=True).reasons
    far = advise(curve_of(shuffled(1000)), of(100), "epoch", has_quota=True)
    assert far.reasons[2] == "Even 4 times the quota hits only 40 %."


def test_the_same_order_each_epoch_is_worth_nothing_under_lru() -> None:
    advice = advise(curve_of(unit for _ in range(3) for unit in range(1000)), of(800), "lru")
    assert advice.eviction == "epoch"
    assert advice.outlooks[1].lru == 0
    assert advise(curve_of(unit for _ in range(3) for unit in range(1000)), of(800), "epoch").eviction == "epoch"


def test_a_set_that_fits_is_left_alone_and_leaves_space() -> None:
    advice = advise(curve_of(shuffled(400)), of(1000), "lru")
    assert (advice.eviction, advice.quota, advice.factor) == ("lru", 440 * MIB, None)
    assert "Larger tiers gain nothing." in advice.reasons


def test_hot_objects_want_lru() -> None:
    order = random.Random(1)
    reads = [*range(2000), *(min(int(order.paretovariate(1.0)), 1999) for _ in range(30_000))]
    advice = advise(curve_of(reads), of(200), "epoch")
    assert (advice.eviction, advice.outlooks[1].epoch) == ("lru", 0.1)
    assert advice.outlooks[1].lru > 0.8


def test_a_tier_far_too_small_is_said_to_be() -> None:
    advice = advise(curve_of(shuffled(1000)), of(100), "epoch")
    assert (advice.eviction, advice.factor) == ("epoch", None)
    assert "Even 4 times the tiers hit only 40 %." in advice.reasons


def test_nothing_is_said_before_the_second_epoch() -> None:
    for reads in ([], range(1000), [*range(1000), *range(500)]):
        advice = advise(curve_of(reads), of(500), "lru")
        assert (advice.outlooks, advice.eviction) == ((), None)
        assert advice.reasons[0].startswith("No advice before the second epoch")


def test_a_set_of_unknown_size_gets_no_quota() -> None:
    advice = advise(curve_of(shuffled(400)), of(1000), "lru", is_whole=False)
    assert (advice.eviction, advice.quota) == ("lru", None)
    assert advice.reasons[0].startswith("The set may have more than the 400 MiB that were recorded")
    assert advice.reasons[1] == "The recorded epochs have 400 MiB, the tiers keep 1000 MiB."
    assert "Larger tiers gain nothing." not in advice.reasons


def test_nothing_read_again_is_zero_bytes() -> None:
    [reason] = advise(curve_of(range(1000)), of(500), "lru").reasons
    assert reason == "No advice before the second epoch: 0 B of 1000 MiB were read a second time so far."


def test_memory_that_the_ssd_has_too_counts_once_under_lru() -> None:
    rows = outlooks(
        curve_of(shuffled(100)), lambda factor: TierSpace(round(40 * factor) * MIB, round(50 * factor) * MIB)
    )
    assert [(row.space.of("lru") >> 20, row.space.of("epoch") >> 20) for row in rows] == [
        (20, 25),
        (40, 50),
        (80, 100),
        (160, 200),
    ]
    assert [row.epoch for row in rows] == [0.25, 0.5, 1.0, 1.0]

"""Who owns an object: the same answer everywhere, spread evenly, and hardly moved by another worker."""

from collections import Counter

import pytest

from forebay.core.names import ObjectName
from harness.owned_names import owner_of

NAMES = [ObjectName("bucket", f"datasets/train/{number:05}.tar") for number in range(4000)]


def test_one_worker_owns_everything() -> None:
    assert {owner_of(name, 1) for name in NAMES} == {0}


@pytest.mark.parametrize("workers", [2, 3, 8, 64])
def test_it_is_spread_evenly(workers: int) -> None:
    owned = Counter(owner_of(name, workers) for name in NAMES)
    assert len(owned) == workers
    assert max(owned.values()) < 1.2 * len(NAMES) / workers + 40


def test_a_further_worker_takes_only_its_share() -> None:
    moved = [name for name in NAMES if owner_of(name, 4) != owner_of(name, 5)]
    assert {owner_of(name, 5) for name in moved} == {4}
    assert len(moved) < 0.25 * len(NAMES)


def test_it_is_of_this_very_name() -> None:
    """Every process must say the same, so the numbers are written down; where a bucket ends is heeded."""
    assert [owner_of(name, 7) for name in NAMES[:8]] == [5, 3, 6, 6, 4, 0, 0, 5]
    one, other = ObjectName("ab", "c"), ObjectName("a", "bc")
    assert {owner_of(one, 1 << 12), owner_of(other, 1 << 12)} != {owner_of(one, 1 << 12)}
    owner_of(ObjectName("bucket", "\udcff"), 2)  # a key that is no UTF-8 has an owner too

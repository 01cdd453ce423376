"""How many distinct objects there are in a stream of reads."""

import random

import pytest

from forebay.policy.distinct_objects import MAX_OBJECTS, DistinctSample
from harness.unit_hashes import unit_hash


def test_few_objects_are_counted_exactly() -> None:
    sample = DistinctSample()
    for _ in range(3):
        for number in range(MAX_OBJECTS):
            sample.record(unit_hash(number), number)
    assert sample.estimate() == (MAX_OBJECTS, sum(range(MAX_OBJECTS)))


@pytest.mark.parametrize("objects", [5000, 200_000])
def test_many_objects_are_estimated_within_four_standard_errors(objects: int) -> None:
    sample, sizes = DistinctSample(), random.Random(objects)
    total = 0
    for number in range(objects):
        size = sizes.randrange(1, 1000)
        total += size
        sample.record(unit_hash(number), size)
    assert sample.estimate().objects == pytest.approx(objects, rel=0.125)
    assert sample.estimate().size == pytest.approx(total, rel=0.16)
    assert MAX_OBJECTS <= len(sample) < 2 * MAX_OBJECTS


def test_only_news_is_reported() -> None:
    sample = DistinctSample()
    assert [sample.record(unit_hash(1), size) for size in (10, 10, 12)] == [True, False, True]
    assert sample.estimate() == (1, 12)


def test_objects_above_the_threshold_are_no_news() -> None:
    sample = DistinctSample(4)
    for number in range(100):
        sample.record(unit_hash(number), 1)
    assert not sample.record(sample.threshold, 1)

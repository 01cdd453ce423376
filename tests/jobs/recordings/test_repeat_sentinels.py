"""Sentinels: an epoch that begins anew is noticed soon, by few of its reads."""

import pytest

from forebay.jobs.recordings.repeat_sentinels import EARLY, JUDGED, MAX_SENTINELS, REPEATED, RepeatSentinels
from harness.loader_orders import hashes_of, sample_keys, shuffled


@pytest.mark.parametrize("count", [20, 300, 5000, 90_000])
def test_a_second_epoch_is_noticed_soon(count: int) -> None:
    sentinels = RepeatSentinels()
    hashes = hashes_of(shuffled(sample_keys(count), 1))
    assert all(sentinels.add(hashes[start : start + 700]) for start in range(0, count, 700))
    again = hashes_of(shuffled(sample_keys(count), 2))
    late = REPEATED if count <= EARLY else max(200, count // 100)
    assert not sentinels.add(again[:late])


def test_many_repeated_reads_are_noticed_in_a_batch_and_over_two() -> None:
    hashes = hashes_of(sample_keys(50))
    repeated = hashes[7 : 7 + REPEATED]
    assert not RepeatSentinels().add(hashes + repeated)
    sentinels = RepeatSentinels()
    assert sentinels.add(hashes[:30])
    before = sentinels.unchecked
    assert sentinels.add(hashes[30:] + repeated[:-1])
    assert not sentinels.add(repeated[-1:])
    assert sentinels.unchecked == before + 20 + REPEATED - 1, "as far as the repeated ones may be"


def test_single_repeated_reads_are_passed_by() -> None:
    sentinels, hashes = RepeatSentinels(), hashes_of(sample_keys(200))
    assert sentinels.add(hashes[:10])
    for start in range(10, 190, JUDGED):
        assert sentinels.add(hashes[:3] + hashes[start : start + JUDGED])


@pytest.mark.parametrize("count", [1500, 5000])
def test_an_epoch_that_begins_with_reads_of_another_is_passed_by(count: int) -> None:
    orders = [hashes_of(shuffled(sample_keys(count), seed)) for seed in range(2)]
    sentinels, hashes = RepeatSentinels(), orders[0][-count // 50 :] + orders[1]  # as several workers deliver them
    assert all(sentinels.add(hashes[start : start + 512]) for start in range(0, len(hashes), 512))


def test_sentinels_of_a_large_epoch_are_few() -> None:
    sentinels, hashes = RepeatSentinels(), hashes_of(sample_keys(150_000))
    assert sentinels.add(hashes[:50_000])
    assert sentinels.add(hashes[50_000:])
    assert MAX_SENTINELS // 4 < len(sentinels) <= MAX_SENTINELS

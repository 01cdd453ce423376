"""Sentinels: an epoch that begins anew is noticed soon, by few of its reads."""

import pytest

from forebay.jobs.recordings.repeat_sentinels import EARLY, MAX_SENTINELS, RepeatSentinels
from harness.loader_orders import hashes_of, sample_keys, shuffled


@pytest.mark.parametrize("count", [20, 300, 5000, 90_000])
def test_a_second_epoch_is_noticed_soon(count: int) -> None:
    sentinels = RepeatSentinels()
    hashes = hashes_of(shuffled(sample_keys(count), 1))
    assert all(sentinels.add_unrepeated(hashes[start : start + 700]) for start in range(0, count, 700))
    again = hashes_of(shuffled(sample_keys(count), 2))
    late = max(1 if count <= EARLY else 200, count // 100)
    assert not sentinels.add_unrepeated(again[:late])


def test_a_read_that_is_repeated_in_a_batch_is_noticed() -> None:
    hashes = hashes_of(sample_keys(50))
    assert not RepeatSentinels().add_unrepeated(hashes + hashes[7:8])


def test_sentinels_of_a_large_epoch_are_few() -> None:
    sentinels, hashes = RepeatSentinels(), hashes_of(sample_keys(150_000))
    assert sentinels.add_unrepeated(hashes[:50_000])
    assert sentinels.add_unrepeated(hashes[50_000:])
    assert MAX_SENTINELS // 4 < len(sentinels) <= MAX_SENTINELS

"""Recognition: the same order is found soon, whatever the loader does to it; another order never is."""

from array import array
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.core.read_log import read_hash
from forebay.policy.anchor_index import MAX_ANCHORS, AnchorIndex
from forebay.policy.recognition import (
    PARTED_AT_ONCE,
    PARTED_OF,
    FollowedReader,
    Recogniser,
    RecordingMatch,
    judge,
)
from harness.loader_orders import alternating, arrivals, hashes_of, index_of, sample_keys, shuffled

LOADERS = [(1, 1), (2, 8), (4, 32), (8, 16)]


def reads_until_recognised(index: AnchorIndex, keys: list[str], step: int = 8) -> tuple[int, RecordingMatch] | None:
    recogniser = Recogniser(index)
    for start in range(0, len(keys), step):
        match = recogniser.observe(hashes_of(keys[start : start + step]))
        if match is not None:
            return start + step, match
    return None


@pytest.mark.parametrize(("workers", "batch"), LOADERS)
@pytest.mark.parametrize("count", [1000, 4000])
def test_a_fixed_seed_is_recognised_at_its_beginning(count: int, workers: int, batch: int) -> None:
    order = shuffled(sample_keys(count), 1)
    index = index_of(arrivals(order, workers, batch, seed=1))
    found = reads_until_recognised(index, arrivals(order, workers, batch, seed=2))
    assert found is not None
    reads, match = found
    assert reads <= 64
    assert match.position <= 4 * workers * batch


def test_a_restart_from_a_checkpoint_is_recognised_where_it_is() -> None:
    order = shuffled(sample_keys(4000), 1)
    found = reads_until_recognised(index_of(order), arrivals(order, 4, 16)[2500:])
    assert found is not None
    assert abs(found[1].position - 2500) < 4 * 2 * 16


@settings(max_examples=20)
@given(st.integers(0, 1 << 30), st.sampled_from(LOADERS))
def test_another_seed_is_not_recognised(seed: int, loader: tuple[int, int]) -> None:
    keys = sample_keys(1000)
    index = index_of(shuffled(keys, -1 - seed))
    assert reads_until_recognised(index, arrivals(shuffled(keys, seed), *loader)) is None


def test_a_job_is_recognised_between_the_reads_of_another() -> None:
    keys = sample_keys(4000)
    index = index_of(shuffled(keys, 1))
    mixed = alternating(arrivals(shuffled(keys, 1), 2, 16), arrivals(shuffled(keys, 2), 2, 16))
    found = reads_until_recognised(index, mixed)
    assert found is not None
    assert found[0] <= 128


def test_twenty_shards_are_recognised_by_eight_in_a_row() -> None:
    shards = shuffled(sample_keys(20), 3)
    index = index_of(shards)
    assert Recogniser(index).observe(hashes_of(shards[4:11])) is None
    match = Recogniser(index).observe(hashes_of(shards[4:12]))
    assert match is not None
    assert match.position == 4


def test_too_few_objects_are_not_recognised() -> None:
    few = sample_keys(6)
    assert Recogniser(index_of(few)).observe(hashes_of(few * 10)) is None


def test_an_object_that_is_read_again_and_again_is_no_order() -> None:
    keys = sample_keys(4000)
    assert Recogniser(index_of(keys)).observe(hashes_of([keys[7]] * 64)) is None


def test_a_large_recording_keeps_few_positions_and_is_recognised() -> None:
    order = shuffled(sample_keys(200_000), 1)
    index = index_of(order)
    assert len(index.positions) <= MAX_ANCHORS
    assert index.count == 200_000
    found = reads_until_recognised(index, arrivals(order, 8, 64), step=256)
    assert found is not None
    assert found[0] <= 1024


def test_ranges_of_an_object_are_reads_of_their_own() -> None:
    ranges = array("I", [read_hash("table.parquet", start << 20) for start in shuffled_numbers(500)])
    index = AnchorIndex()
    index.extend(ranges)
    match = Recogniser(index).observe(ranges[100:116])
    assert match is not None
    assert match.position == 100


def shuffled_numbers(count: int) -> list[int]:
    numbers = list(range(count))
    Random(1).shuffle(numbers)
    return numbers


@given(st.lists(st.integers(-1, 9999), max_size=64))
def test_chance_positions_are_rarely_judged_a_match(positions: list[int]) -> None:
    match = judge(positions, 10_000)
    if match is not None:
        near = {each for each in positions if match.position <= each <= match.position + match.spread}
        assert len(near) >= 6


# Following


def followed(order: list[str]) -> FollowedReader:
    index = index_of(order)
    match = Recogniser(index).observe(hashes_of(order[:16]))
    assert match is not None
    return FollowedReader(index, match)


@pytest.mark.parametrize(("workers", "batch"), LOADERS)
def test_a_reader_is_followed_to_the_end(workers: int, batch: int) -> None:
    order = shuffled(sample_keys(4000), 1)
    index = index_of(arrivals(order, workers, batch, seed=1))
    again = arrivals(order, workers, batch, seed=2)
    match = Recogniser(index).observe(hashes_of(again[:64]))
    assert match is not None
    reader = FollowedReader(index, match)
    for start in range(64, 4000, 50):
        assert not reader.is_at_end or start > 3700
        assert reader.observe(hashes_of(again[start : start + 50]))
        assert abs(reader.position - start) < 100 + 4 * workers * batch
    assert reader.is_at_end


def test_the_next_epoch_of_a_small_recording_is_not_looked_at() -> None:
    order = shuffled(sample_keys(110), 1)
    reader = followed(order)
    for start in range(16, 80, 32):
        assert reader.observe(hashes_of(order[start : start + 32]))
    assert reader.observe(hashes_of(order[80:] + order[:5]))
    assert reader.is_at_end
    assert reader.looked_at < 30


@pytest.mark.parametrize("count", [5000, 20_000])
def test_a_reader_of_few_anchors_is_where_it_reads(count: int) -> None:
    """Of so many reads not all are anchors: those of a batch are sometimes more, sometimes fewer than on average."""
    order = shuffled(sample_keys(count), 1)
    index = index_of(order)
    reader = FollowedReader(index, RecordingMatch(0, 15, 30.0))
    for start in range(16, count // 2, 512):
        assert reader.observe(hashes_of(order[start : start + 512]))
        assert reader.looked_at == 512
        assert 0 <= start + 512 - reader.position <= (PARTED_OF + 16) * index.spacing
        assert reader.is_certain or start < 600 * index.spacing


def test_a_reader_with_another_order_has_parted() -> None:
    keys = sample_keys(4000)
    reader = followed(shuffled(keys, 1))
    other = hashes_of(shuffled(keys, 2)[: PARTED_AT_ONCE * 4])
    assert not reader.observe(other)


def test_a_reader_of_other_objects_has_parted() -> None:
    reader = followed(shuffled(sample_keys(4000), 1))
    assert reader.observe(hashes_of([f"other/{number}" for number in range(PARTED_AT_ONCE - 1)]))
    assert not reader.observe(hashes_of(["other/last"]))


def test_a_second_job_between_does_not_part_them() -> None:
    keys = sample_keys(4000)
    order = shuffled(keys, 1)
    reader = followed(order)
    mixed = alternating(order[16:], shuffled(keys, 2))
    assert all(reader.observe(hashes_of(mixed[start : start + 64])) for start in range(0, 4000, 64))
    assert len(mixed) > PARTED_OF

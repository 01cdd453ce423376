"""Epochs: found by repetition, not by what only looks like one."""

import pytest

from forebay.policy.epoch_boundary import EpochBoundary
from harness.loader_orders import arrivals, hashes_of, sample_keys, shuffled


def boundary_after(keys: list[str], step: int = 50) -> int | None:
    epoch = EpochBoundary()
    for start in range(0, len(keys), step):
        found = epoch.add(hashes_of(keys[start : start + step]))
        if found is not None:
            return found
    return None


@pytest.mark.parametrize(("workers", "batch"), [(1, 1), (2, 8), (4, 32)])
@pytest.mark.parametrize("count", [200, 1000, 4000])
def test_the_second_epoch_begins_where_keys_repeat(count: int, workers: int, batch: int) -> None:
    keys = sample_keys(count)
    reads = arrivals(shuffled(keys, 1), workers, batch) + arrivals(shuffled(keys, 2), workers, batch)
    assert boundary_after(reads) == pytest.approx(count, abs=3)


@pytest.mark.parametrize("step", [16, 700, 3000])
def test_the_boundary_is_found_within_a_batch(step: int) -> None:
    keys = sample_keys(1000)
    assert boundary_after(keys + shuffled(keys, 2), step) == pytest.approx(1000, abs=3)


def test_a_job_that_is_started_again_begins_an_epoch() -> None:
    order = shuffled(sample_keys(1000), 1)
    assert boundary_after(order[:600] + order) == 600


def test_one_epoch_has_no_boundary() -> None:
    assert boundary_after(arrivals(shuffled(sample_keys(4000), 1), 4, 32)) is None


def test_ranks_that_read_the_same_samples_are_one_epoch() -> None:
    order = shuffled(sample_keys(2000), 1)
    assert boundary_after([key for key in order for _ in range(8)]) is None


def test_an_index_that_is_read_now_and_then_is_no_epoch() -> None:
    order = shuffled(sample_keys(2000), 1)
    reads = [each for position, key in enumerate(order) for each in ([key, "index"] if position % 20 == 0 else [key])]
    assert boundary_after(reads) is None

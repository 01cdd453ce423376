"""Epochs found by the repetition of units."""

import random
from collections.abc import Iterable, Iterator

import pytest

from forebay.policy.epochs import MAX_UNITS, WINDOW, EpochDetector
from harness.unit_hashes import unit_hash


def starts(reads: Iterable[int], epoch: int, detector: EpochDetector[int] | None = None) -> list[float]:
    """Where a new pass was found to have begun, in reads over `epoch`."""
    detector = EpochDetector() if detector is None else detector
    marks = (detector.record(unit_hash(unit), 1000, number) for number, unit in enumerate(reads))
    return [mark / epoch for mark in marks if mark is not None]


def shuffled(units: int, epochs: int, seed: int = 0) -> Iterator[int]:
    order = random.Random(seed)
    for _ in range(epochs):
        yield from order.sample(range(units), units)


def by_workers(units: int, epochs: int, workers: int = 6, batch: int = 32) -> Iterator[int]:
    """As a DataLoader reads: worker w has the batches w, w + workers ...; they run at different speeds."""
    pace = random.Random(1)
    for epoch in range(epochs):
        order = random.Random(epoch).sample(range(units), units)
        batches = [order[start : start + batch] for start in range(0, units, batch)]
        queues = [[unit for each in batches[worker::workers] for unit in each] for worker in range(workers)]
        while waiting := [queue for queue in queues if queue]:
            yield pace.choice(waiting).pop(0)


@pytest.mark.parametrize("units", [20, 100, 1000, 20_000])
def test_a_new_order_each_epoch(units: int) -> None:
    assert starts(shuffled(units, 5), units) == pytest.approx([1, 2, 3, 4], abs=max(4 / units, 0.01) + 0.002)


@pytest.mark.parametrize("units", [8, 20, 100, 1000, 20_000])
def test_the_same_order_each_epoch(units: int) -> None:
    assert starts((unit for _ in range(5) for unit in range(units)), units) == pytest.approx([1, 2, 3, 4], abs=0.005)


@pytest.mark.parametrize("units", [400, 1000, 20_000])
def test_several_workers_that_read_in_batches(units: int) -> None:
    assert starts(by_workers(units, 5), units) == pytest.approx([1, 2, 3, 4], abs=0.05)


@pytest.mark.parametrize("units", [100, 1000, 20_000])
def test_ranges_of_one_unit_read_after_each_other(units: int) -> None:
    reads = (unit for unit in shuffled(units, 5) for _ in range(8))
    assert starts(reads, 8 * units) == pytest.approx([1, 2, 3, 4], abs=0.05)


@pytest.mark.parametrize("units", [1000, 20_000])
def test_two_jobs_at_once_make_passes_of_what_both_read(units: int) -> None:
    """12 epochs of two jobs, one of which is ahead by a third of an epoch."""
    ahead, behind, turn = shuffled(units, 6, 1), shuffled(units, 6, 2), random.Random(3)
    reads = [next(ahead) for _ in range(units // 3)]
    for unit in behind:
        reads.append(unit)
        if turn.random() < 0.95 and (other := next(ahead, None)) is not None:
            reads.append(other)
    found = starts(reads, units)
    assert 5 <= len(found) <= 12
    assert all(later - earlier > 0.8 for earlier, later in zip([0.0, *found], found, strict=False))


def test_two_jobs_in_step_are_one() -> None:
    reads = (unit for unit in shuffled(1000, 4) for _ in range(2))
    assert starts(reads, 2000) == pytest.approx([1, 2, 3], abs=0.05)


def test_a_small_set_beside_a_large_one_does_not_end_its_pass() -> None:
    small, large = shuffled(200, 20), shuffled(4000, 3)
    reads = [unit for each in large for unit in (each + 1000, next(small, each + 1000))]
    assert len(starts(reads, 1)) <= 3


def test_the_first_pass_has_no_end_yet() -> None:
    detector = EpochDetector[int]()
    assert starts(shuffled(5000, 1), 5000, detector) == []
    assert (detector.epoch, detector.last) == (1, None)
    assert detector.current.units == pytest.approx(5000, rel=0.1)


def test_a_pass_tells_how_much_it_read() -> None:
    detector = EpochDetector[int]()
    starts(shuffled(300, 3), 300, detector)
    assert detector.last is not None
    assert detector.last.units == pytest.approx(300, abs=15)
    assert detector.last.size == detector.last.units * 1000
    assert repr(detector).startswith("<EpochDetector epoch 3, ")


def test_units_that_grow_are_counted_whole() -> None:
    """A unit is known in full only when its last range was read."""
    detector = EpochDetector[None]()
    for size in (100, 700, 400):
        detector.record(unit_hash(1), size, None)
        for filler in range(10, 14):
            detector.record(unit_hash(filler), 1, None)
    assert detector.current.size in (704, 104)


def test_units_gone_from_the_set_leave_the_sample() -> None:
    """Thirty sets after each other, each read three times."""
    detector = EpochDetector[int]()
    for first in range(0, 30_000, 1000):
        starts((first + unit for unit in shuffled(600, 3)), 600, detector)
        assert len(detector) <= MAX_UNITS
    assert detector.epoch == pytest.approx(60, abs=15)
    assert detector.current.units < 2500


def test_a_window_without_repetitions_begins_nothing() -> None:
    detector = EpochDetector[int]()
    assert starts(range(10 * WINDOW), 1, detector) == []

"""Readers of plans of several short epochs: one in a later epoch is found soon, one that is followed is left alone."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from random import Random

import pytest

from forebay.core.byte_ranges import Span
from forebay.jobs.plans.plan_entries import PlanEntry
from forebay.jobs.plans.plan_window import PlanStart, PlanWindow
from forebay.jobs.plans.scattered_reads import MOST_READS, READS, ScatteredReads

WHOLE = Span(0, 1 << 40)


class ScatteredPlan:
    """A plan whose window is matched by reads, and moved where the reader is found."""

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = keys
        self.window = PlanWindow(len(keys), PlanStart())
        self.reads = ScatteredReads()
        self.moves: list[int] = []
        self.searches = 0
        self._places = defaultdict[str, list[int]](list)
        for number, key in enumerate(keys):
            self._places[key].append(number)

    def find(self, key: str, after: int) -> int | None:
        places = self._places[key]
        at = bisect_left(places, after)
        return places[at] if at < len(places) else None

    def read(self, key: str) -> None:
        while missing := self.window.missing():
            self.window.load([PlanEntry(key) for key in self.keys[missing.start : missing.stop]])
        for entry in self.window.match(key, WHOLE):
            self.reads.entry_read(entry.key, entry.number)
        self.window.give_up_stragglers(1 << 30)
        if not self.reads.is_due():
            return
        self.searches += 1
        found = self.reads.begin()(self.find, self.window.front)
        self.reads.end(found is not None)
        if found is not None:
            self.moves.append(found)
            self.window.give_up_before(found)


def epochs(count: int, size: int, seed: int = 1) -> list[str]:
    random, keys = Random(seed), [f"k{number}" for number in range(size)]
    found = []
    for _ in range(count):
        random.shuffle(keys)
        found += keys
    return found


def by_workers(keys: Sequence[str], workers: int, batch: int, epoch: int) -> Iterator[str]:
    """The reads of a loader, each worker at a random pace within its batch, epoch after epoch."""
    random = Random(5)
    for start in range(0, len(keys), epoch):
        batches = [keys[at : min(at + batch, start + epoch)] for at in range(start, start + epoch, batch)]
        for first in range(0, len(batches), workers):
            left = [list(each) for each in batches[first : first + workers]]
            while left:
                mine = random.choice(left)
                yield mine.pop(0)
                left = [each for each in left if each]


@pytest.mark.parametrize("size", [200, 1000, 3000, 8000])
@pytest.mark.parametrize("epoch", [1, 2, 7, 15])
@pytest.mark.parametrize("offset", [0.0, 0.5])
def test_a_reader_in_a_later_epoch_is_found_soon(size: int, epoch: int, offset: float) -> None:
    """One that begins with an epoch is so near the end of the one before that it is found somewhat later."""
    keys, at = epochs(16, size), epoch * size + int(offset * size)
    plan = ScatteredPlan(keys)
    for number, key in enumerate(keys[at : at + size // 2], 1):
        plan.read(key)
        if plan.moves:
            assert number <= max(8 * READS, size // 8)
            assert abs(plan.moves[0] - at) <= number, "it was passed, or is far behind"
            break
    assert plan.moves
    for key in keys[at + number : at + number + size // 4]:
        plan.read(key)
    assert (plan.window.front, len(plan.moves)) == (at + number + size // 4, 1), "it is followed from there"


@pytest.mark.parametrize(("workers", "batch"), [(4, 16), (4, 64)])
def test_a_loader_with_workers_is_found_as_well(workers: int, batch: int) -> None:
    keys = epochs(10, 4096)
    plan = ScatteredPlan(keys)
    for key in list(by_workers(keys[5 * 4096 :], workers, batch, 4096))[:2000]:
        plan.read(key)
    assert len(plan.moves) == 1
    assert abs(plan.window.front - 5 * 4096 - 2000) < workers * batch


@pytest.mark.parametrize("size", [100, 300, 1000, 5000])
@pytest.mark.parametrize(("workers", "batch"), [(1, 32), (4, 32), (16, 64), (16, 256)])
def test_a_reader_that_is_followed_is_left_alone(size: int, workers: int, batch: int) -> None:
    count = max(4, 20_000 // size)
    keys = epochs(count, size)
    plan = ScatteredPlan(keys)
    for key in by_workers(keys, workers, batch, size):
        plan.read(key)
    assert plan.moves == []
    assert plan.window.is_read


@pytest.mark.parametrize("size", [50, 500, 3000])
def test_an_oversampled_plan_is_left_alone(size: int) -> None:
    random = Random(2)
    keys = [f"k{random.randrange(size)}" for _ in range(20_000)]
    plan = ScatteredPlan(keys)
    for key in by_workers(keys, 16, 64, 20_000):
        plan.read(key)
    assert plan.moves == []


def test_an_order_that_is_always_the_same_is_left_alone() -> None:
    keys = [f"k{number}" for number in range(1000)] * 20
    plan = ScatteredPlan(keys)
    for key in by_workers(keys, 8, 64, 1000):
        plan.read(key)
    assert plan.moves == []


def test_a_rank_that_reads_its_part_of_each_epoch_is_followed() -> None:
    """What the others read is left unread, and would be taken for the next epoch's."""
    keys = epochs(6, 4000)
    plan = ScatteredPlan(keys)
    for start in range(0, len(keys), 4000):
        for key in keys[start : start + 4000 : 4]:
            plan.read(key)
    assert plan.window.front > 23_900


def test_keys_that_come_no_more_are_searched_once() -> None:
    keys = [f"k{number}" for number in range(20_000)]
    plan = ScatteredPlan(keys)
    for key in by_workers(keys, 16, 64, 20_000):
        plan.read(key)
    assert (plan.searches, plan.moves) == (1, [])


def test_a_loader_that_is_scattered_is_searched_ever_less() -> None:
    keys = epochs(40, 1000)
    plan = ScatteredPlan(keys)
    for key in by_workers(keys, 16, 32, 1000):
        plan.read(key)
    assert plan.searches <= 8 + len(keys) // MOST_READS

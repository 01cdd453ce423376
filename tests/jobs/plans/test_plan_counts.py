"""The counts of a plan, and what metrics hear of them."""

from collections import Counter

from forebay.jobs.plans.plan_counts import UNCOUNTED, RunnerCounts
from forebay.jobs.plans.plan_entries import PlanEntry
from forebay.jobs.plans.plan_window import WindowEntry
from forebay.jobs.prefetch.prefetch_request import PrefetchOutcome


class Metrics:
    """Implements PlanMetrics."""

    def __init__(self) -> None:
        self.counted = Counter[str]()

    def count_entries(self, result: str, by: int) -> None:
        self.counted[result] += by

    def count_fetched(self, blocks: int, size: int) -> None:
        self.counted.update(blocks=blocks, fetched=size)

    def count_useless(self, size: int) -> None:
        self.counted["useless"] += size


def fetched(blocks: int, size: int) -> PrefetchOutcome:
    return PrefetchOutcome("fetched", size, size, fetched_blocks=blocks, fetched_bytes=size)


def test_what_was_fetched_is_useless_once_it_is_dropped() -> None:
    metrics = Metrics()
    counts, kept, dropped = RunnerCounts(metrics), WindowEntry(0, PlanEntry("a")), WindowEntry(1, PlanEntry("b"))
    counts.note_fetched(kept, fetched(1, 10))
    counts.note_fetched(dropped, fetched(2, 30))
    counts.note_fetched(dropped, fetched(1, 5))
    for _ in range(2):  # what is fetched again for it counts anew, what was counted does not
        counts.note_dropped((dropped,))
    assert (counts.fetched_blocks, counts.fetched_bytes, counts.useless_bytes) == (4, 45, 35)
    counts.note_fetched(dropped, fetched(1, 5))
    counts.note_dropped((dropped, kept))
    assert (counts.fetched_bytes, counts.useless_bytes) == (50, 50)
    assert metrics.counted == {"blocks": 5, "fetched": 50, "useless": 50}


def test_what_was_here_already_was_not_fetched() -> None:
    metrics = Metrics()
    counts, entry = RunnerCounts(metrics), WindowEntry(0, PlanEntry("a"))
    counts.note_fetched(entry, PrefetchOutcome("fetched", 10, 10))
    counts.note_dropped((entry,))
    assert (counts.fetched_blocks, counts.useless_bytes) == (0, 0)
    assert not metrics.counted


def test_entries_are_counted_by_what_became_of_them() -> None:
    metrics = Metrics()
    for counts in (RunnerCounts(metrics), RunnerCounts(UNCOUNTED)):
        counts.note_read(3, 2)
        counts.note_given_up(4)
        counts.note_failed()
        assert (counts.read, counts.late, counts.given_up, counts.failed) == (5, 2, 4, 1)
    assert metrics.counted == {"ready": 3, "late": 2, "given_up": 4, "failed": 1}

"""Plan counts: the outcomes of one plan's entries, and the bytes fetched for it. Metrics have the sums of all plans.

fetched ──> read in time, or late
   └──────> dropped unread: useless
"""

from collections.abc import Iterable
from typing import Final, Protocol

from forebay.jobs.plans.plan_window import WindowEntry
from forebay.jobs.prefetch.prefetch_request import PrefetchOutcome


class PlanMetrics(Protocol):
    """The counters of all plans of a node."""

    def count_entries(self, result: str, by: int) -> None:
        """Counts entries that were read "ready" or "late", or "given_up", "failed" or "dropped"."""

    def count_fetched(self, blocks: int, size: int) -> None:
        """Counts blocks that were fetched for plans, and their bytes."""

    def count_useless(self, size: int) -> None:
        """Counts the unread bytes of these entries."""


class UncountedPlans:
    """Counts nothing. Implements PlanMetrics."""

    def count_entries(self, result: str, by: int) -> None:
        """See PlanMetrics."""

    def count_fetched(self, blocks: int, size: int) -> None:
        """See PlanMetrics."""

    def count_useless(self, size: int) -> None:
        """See PlanMetrics."""


UNCOUNTED: Final = UncountedPlans()


class RunnerCounts:
    """The counts of one plan since it runs in this process."""

    __slots__ = ("_metrics", "failed", "fetched_blocks", "fetched_bytes", "given_up", "late", "read", "useless_bytes")

    def __init__(self, metrics: PlanMetrics) -> None:
        self._metrics = metrics
        self.read = 0
        """The number of entries that were read. The next three count entries as well."""
        self.late = 0
        self.given_up = 0
        self.failed = 0
        self.fetched_blocks = 0
        self.fetched_bytes = 0
        """Bytes of the fetched blocks."""
        self.useless_bytes = 0
        """Bytes that were fetched and dropped unread."""

    def note_read(self, ready: int, late: int) -> None:
        """Counts entries that were read in time, and late."""
        self.read += ready + late
        self.late += late
        self._metrics.count_entries("ready", ready)
        self._metrics.count_entries("late", late)

    def note_given_up(self, entries: int) -> None:
        """Counts entries that the reader has passed over."""
        self.given_up += entries
        self._metrics.count_entries("given_up", entries)

    def note_failed(self) -> None:
        """Counts an entry that could not be fetched."""
        self.failed += 1
        self._metrics.count_entries("failed", 1)

    def note_fetched(self, entry: WindowEntry, outcome: PrefetchOutcome) -> None:
        """A piece of an entry came, some of its blocks from the origin."""
        if outcome.fetched_blocks:
            entry.fetched += outcome.fetched_bytes
            self.fetched_blocks += outcome.fetched_blocks
            self.fetched_bytes += outcome.fetched_bytes
            self._metrics.count_fetched(outcome.fetched_blocks, outcome.fetched_bytes)

    def note_dropped(self, entries: Iterable[WindowEntry]) -> None:
        """The fetched bytes of entries were dropped."""
        size = 0
        for entry in entries:
            size += entry.fetched
            entry.fetched = 0
        if size:
            self.useless_bytes += size
            self._metrics.count_useless(size)

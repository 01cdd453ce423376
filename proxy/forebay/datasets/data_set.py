"""A data set: statistics of the reads of all workers under one rule.

Totals, the current pass and the one before, the distinct objects, and the sample of reuse distances that predicts the
hits of other tiers. Memory is bounded: 2 MiB, whatever the set's size. For one event loop; time is an argument.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from forebay.datasets.read_report import ReadTotals, SetReport
from forebay.policy.distinct_objects import DistinctSample, ObjectEstimate
from forebay.policy.epochs import Coverage, EpochDetector
from forebay.policy.reuse_distance import HASH_BITS, ReuseCurve, ReuseSample

RATE_SECONDS: Final = 10.0
"""The rate is that of the latest so many seconds, at least, and twice as many at most."""


class SetLimits(NamedTuple):
    """The bounds of the samples: blocks with a hash below `units` are reported read by read, and objects with one below
    `objects` as seen."""

    units: int
    objects: int


NO_LIMITS: Final = SetLimits(1 << HASH_BITS, 1 << HASH_BITS)
"""The limits of samples that have everything."""


@dataclass(frozen=True, slots=True)
class DataSetState:
    """A data set at one moment. Sizes are bytes."""

    name: str
    objects: ObjectEstimate
    """Objects that were read."""
    totals: ReadTotals
    reads_per_second: float
    epoch: int
    """The number of the current pass, from 1."""
    current: ReadTotals
    covered: Coverage
    """Blocks that the current pass has read."""
    last: ReadTotals | None
    """The pass before; None in the first."""
    last_covered: Coverage | None
    curve: ReuseCurve


class DataSet:
    """The reads under one rule."""

    def __init__(self, name: str, now: float) -> None:
        self.name = name
        self._totals = ReadTotals()
        self._objects = DistinctSample()
        self._detector = EpochDetector[ReadTotals]()
        self._epoch_start = ReadTotals()
        self._last: ReadTotals | None = None
        self._reuse = ReuseSample()
        self._marks = ((now, 0), (now, 0))
        """Time and number of reads, at the starts of the last two windows of RATE_SECONDS."""

    @property
    def limits(self) -> SetLimits:
        """The limits for later reports."""
        return SetLimits(max(self._detector.threshold, self._reuse.threshold), self._objects.threshold)

    def receive(self, report: SetReport, now: float) -> None:
        """Adds a worker's report."""
        if report.is_cut:
            self._reuse.cut()
        before = self._totals
        for unit, size, sent, offset in report.sampled:
            if unit < self._detector.threshold:
                start = self._detector.record(unit, size, before.plus(offset))
                if start is not None:
                    self._begin_epoch(start)
            if unit < self._reuse.threshold:
                self._reuse.record(unit, size, sent)
        for hashed, size in report.objects:
            self._objects.record(hashed, size)
        self._totals = before.plus(report.totals)
        if now - self._marks[1][0] >= RATE_SECONDS:
            self._marks = self._marks[1], (now, self._totals.reads)

    def state(self, now: float) -> DataSetState:
        """Returns the statistics so far."""
        (since, reads), (later, _) = self._marks
        if now - later >= RATE_SECONDS:
            since, reads = self._marks[1]
        seconds = now - since
        known = self._objects.estimate()
        return DataSetState(
            self.name,
            known,
            self._totals,
            (self._totals.reads - reads) / seconds if seconds > 0 else 0.0,
            self._detector.epoch,
            self._totals.minus(self._epoch_start),
            self._detector.current,
            self._last,
            self._detector.last,
            self._reuse.curve(),
        )

    def _begin_epoch(self, start: ReadTotals) -> None:
        self._last, self._epoch_start = start.minus(self._epoch_start), start
        self._reuse.begin_epoch()

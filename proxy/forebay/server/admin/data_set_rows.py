"""The rows of GET /v1/datasets: what the collector knows of the reads, and what the tiers have."""

from collections.abc import Iterable

from forebay.datasets.data_set import DataSetState
from forebay.datasets.read_report import ReadTotals
from forebay.policy.epochs import Coverage
from forebay.server.admin.data_set_schema import DataSetStats, EpochStats


def data_set_rows(states: Iterable[DataSetState]) -> tuple[DataSetStats, ...]:
    """The rows of one worker."""
    return tuple(map(_row, states))


def _row(state: DataSetState) -> DataSetStats:
    return DataSetStats(
        name=state.name,
        eviction="lru",
        quota=None,
        objects=state.objects.objects,
        size=state.objects.size,
        memory=None,
        ssd=None,
        pinned=None,
        reads=state.totals.reads,
        sent=state.totals.sent,
        hit_share=state.totals.hit_share,
        reads_per_second=state.reads_per_second,
        epoch=_epoch(state.epoch, state.current, state.covered),
        last_epoch=_epoch(state.epoch - 1, state.last, state.last_covered)
        if state.last is not None and state.last_covered is not None
        else None,
        plan_lead_size=None,
        plan_lead_seconds=None,
    )


def _epoch(number: int, totals: ReadTotals, covered: Coverage) -> EpochStats:
    return EpochStats(number, totals.reads, totals.sent, totals.hit_share, covered.size)

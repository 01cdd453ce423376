"""The rows of GET /v1/datasets: the collector's counts of reads, and the cached bytes in the tiers."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from forebay.core.names import ObjectName
from forebay.core.plan_progress import PlanProgress
from forebay.datasets.data_set import DataSetState
from forebay.datasets.data_set_stats import DataSetStats, EpochStats
from forebay.datasets.read_report import ReadTotals
from forebay.policy.epochs import Coverage
from forebay.policy.pins import Pin
from forebay.policy.pools import Pool
from forebay.policy.rules import Rules
from forebay.storage.tiers import Tiers


def data_set_rows(
    states: Iterable[DataSetState],
    rules: Rules,
    tiers: Tiers,
    plans: Iterable[PlanProgress],
) -> tuple[DataSetStats, ...]:
    """The rows of one worker: the data sets whose reads it knows, those that its tiers keep a pool of, and those that
    its plans fetch."""
    rows = {state.name: _read_row(state) for state in states}
    pinned: Counter[str] = Counter()
    if tiers.ssd is not None:
        for pin, used in tiers.ssd.pins.used_by().items():
            pinned[_data_set_of(pin, rules)] += used
    leads: Counter[str] = Counter()
    for plan in plans:
        if plan.lead_bytes and plan.data_set in rules.data_sets:
            leads[plan.data_set] += plan.lead_bytes
    pools = {each.pool.name for each in tiers.memory.pooled.pools()}
    if tiers.ssd is not None:
        pools |= {each.name for each in tiers.ssd.pools() if each.name}  # an empty one: all objects without a pool
    for name in rows.keys() | leads.keys() | {rules.data_set_of(pool) for pool in pools}:
        pool = rules.pool_of(name)
        row = replace(rows.get(name) or _unread_row(name), pinned=pinned[name], plan_lead=leads[name])
        rows[name] = _with_tiers(row, pool, tiers)
    return tuple(rows[name] for name in sorted(rows))


def _data_set_of(pin: Pin, rules: Rules) -> str:
    """The data set that has everything under a pin, as far as its prefix tells: that of a key in it."""
    return rules.decide(ObjectName(pin.bucket, f"{pin.prefix}/" if pin.prefix else "")).rule


def _with_tiers(row: DataSetStats, pool: Pool | None, tiers: Tiers) -> DataSetStats:
    if pool is None:
        return row
    row = replace(row, eviction=pool.eviction, quota=pool.quota)
    if pool.eviction == "epoch":
        row = replace(row, memory=sum(each.used for each in tiers.memory.pooled.pools() if each.pool.name == pool.name))
    if tiers.ssd is not None:
        row = replace(row, ssd=sum(each.used for each in tiers.ssd.pools() if each.name == pool.name))
    return row


def _read_row(state: DataSetState) -> DataSetStats:
    last = None
    if state.last is not None and state.last_covered is not None:
        last = _epoch(state.epoch - 1, state.last, state.last_covered)
    return replace(
        _unread_row(state.name),
        objects=state.objects.objects,
        size=state.objects.size,
        reads=state.totals.reads,
        sent=state.totals.sent,
        hit_share=state.totals.hit_share,
        reads_per_second=state.reads_per_second,
        epoch=_epoch(state.epoch, state.current, state.covered),
        last_epoch=last,
    )


def _unread_row(name: str) -> DataSetStats:
    """Returns the row of a data set without reads, as far as this worker knows."""
    return DataSetStats(
        name=name,
        eviction="lru",
        quota=None,
        objects=0,
        size=0,
        memory=None,
        ssd=None,
        reads=0,
        sent=0,
        hit_share=None,
        reads_per_second=0.0,
        plan_lead=0,
        epoch=_epoch(1, ReadTotals(), Coverage(0, 0)),
        last_epoch=None,
    )


def _epoch(number: int, totals: ReadTotals, covered: Coverage) -> EpochStats:
    return EpochStats(number, totals.reads, totals.sent, totals.hit_share, covered.size)

"""The answers of the admin port about data sets, as dataclasses.

As in admin_schema: a field may be added, none is renamed or dropped; sizes are bytes, ratios 0 to 1, or null where
nothing is known.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

EvictionName: TypeAlias = Literal["lru", "epoch"]
AdviceSource: TypeAlias = Literal["reads", "recordings"]
"""The source of advice: the reads since the start, or the epochs that were recorded."""


def check_source(value: object, name: str) -> AdviceSource:
    """One of the sources."""
    if value == "recordings":
        return "recordings"
    if value == "reads":
        return "reads"
    raise ValueError(f"{name!r} must be reads or recordings.")


@dataclass(frozen=True, slots=True)
class EpochStats:
    """One pass over a data set, found by the repetition of its blocks."""

    number: int
    """The number of the epoch since the start of the process, from 1."""
    reads: int
    sent: int
    """Bytes."""
    hit_share: float | None
    """The share of these bytes that was in a tier."""
    read_size: int
    """Bytes of distinct blocks that were read, estimated."""


@dataclass(frozen=True, slots=True)
class DataSetStats:
    """One data set: the objects under a rule, or under the rules of one name."""

    name: str
    eviction: EvictionName
    quota: int | None
    """None: no bound of its own."""
    objects: int
    """Objects that were read since the start of the process, estimated above 2,048 of them."""
    size: int
    """Their bytes."""
    memory: int | None
    """Bytes of it in memory, of all workers. Known where a rule sets `eviction` or `quota`."""
    ssd: int | None
    reads: int
    """Since the start of the process, as `sent` and `hit_share`."""
    sent: int
    hit_share: float | None
    reads_per_second: float
    """The rate of the latest 10 to 20 seconds."""
    plan_lead: int
    """Bytes that plans have fetched, or are fetching, and that were not read yet."""
    epoch: EpochStats
    """The current one."""
    last_epoch: EpochStats | None
    """None: in the first."""
    pinned: int = 0
    """Bytes of it on the SSD that stay there, by the pins whose prefixes lie in it."""


@dataclass(frozen=True, slots=True)
class DataSetList:
    """GET /v1/datasets: the data sets that were read or have a place in a tier, by name."""

    data_sets: tuple[DataSetStats, ...]


def merged_rows(workers: Iterable[Iterable[DataSetStats]]) -> tuple[DataSetStats, ...]:
    """The rows of a node. Its collector knows the reads; each worker has memory of its own, and all share the SSD."""
    merged: dict[str, DataSetStats] = {}
    for rows in workers:
        for row in rows:
            known = merged.get(row.name)
            merged[row.name] = row if known is None else _merge(known, row)
    return tuple(merged[name] for name in sorted(merged))


def _merge(left: DataSetStats, right: DataSetStats) -> DataSetStats:
    collected = left if left.reads >= right.reads else right
    memory = [each.memory for each in (left, right) if each.memory is not None]
    return replace(
        collected,
        memory=sum(memory) if memory else None,
        pinned=max(left.pinned, right.pinned),
        plan_lead=left.plan_lead + right.plan_lead,
    )


@dataclass(frozen=True, slots=True)
class HitOutlook:
    """The hit shares that tiers of another size would give."""

    factor: float
    """Over the present size of the tiers."""
    lru_size: int
    """Bytes of objects that they keep under `eviction = "lru"`, and their hit share."""
    lru: float
    epoch_size: int
    epoch: float


@dataclass(frozen=True, slots=True)
class DataSetAdvice:
    """The settings to choose for one data set. The shares are of bytes that had been read before, in tiers that it has
    alone."""

    name: str
    size: int
    """Bytes of its blocks that were read lately, estimated."""
    is_whole: bool
    """Whether that is all of the set; false: of the recordings none is known to have a whole epoch."""
    current: EvictionName
    outlooks: tuple[HitOutlook, ...]
    """Empty: no advice yet."""
    eviction: EvictionName | None
    quota: int | None
    """Bytes that hold all of it, where the tiers have more."""
    factor: float | None
    """How many times as large the tiers have to be to hit nearly everything; None: they do, or are too small by far."""
    reasons: tuple[str, ...]
    """Sentences."""


@dataclass(frozen=True, slots=True)
class AdviceList:
    """GET /v1/advice."""

    data_sets: tuple[DataSetAdvice, ...]

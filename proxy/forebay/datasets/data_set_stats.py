"""The statistics of one data set, as its readers and operators see them.

Their field names are those of the JSON documents (docs/admin-port.md): a field may be added, none is renamed or
dropped. Sizes are bytes, ratios 0 to 1, or null where nothing is known.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

EvictionName: TypeAlias = Literal["lru", "epoch"]


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
    """Reads since the start of the process, as are `sent` and `hit_share`."""
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

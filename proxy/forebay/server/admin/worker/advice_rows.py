"""The rows of GET /v1/advice: the space of the tiers for each data set, and the policy's advice.

A tier keeps less of a set than the tier's size: each block and each head has an overhead, which matters for small
objects. Under `lru`, memory is charged with the heads of all objects of the set before it has space
for blocks; under `epoch` with those of the objects that it keeps blocks of (storage.memory.memory_heads).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from forebay.datasets.data_set import DataSetState
from forebay.jobs.recordings.recorded_reuse import RecordedReuse
from forebay.policy.pools import Pool
from forebay.policy.reuse_distance import ReuseCurve
from forebay.policy.tier_advice import TierAdvice, TierSpace, advise
from forebay.server.admin.schema.data_set_schema import DataSetAdvice, HitOutlook
from forebay.storage.memory.memory_heads import transient_window
from forebay.storage.memory.memory_tier import BLOCK_OVERHEAD
from forebay.storage.tiers import Tiers

SSD_BLOCK_OVERHEAD: Final = 250
"""Bytes of a block's header and checksums in a segment, and of its row in the index."""


@dataclass(frozen=True, slots=True)
class AdvisedSet:
    """The measurements that advice on a data set is computed from."""

    name: str
    curve: ReuseCurve
    objects: int
    block: float
    """Mean bytes of a block."""
    is_whole: bool = True
    """Whether all of the set was read, as far as is known."""

    @classmethod
    def of_reads(cls, state: DataSetState) -> Self:
        """Returns the advice that follows from the reads of this process."""
        covered = state.last_covered or state.covered
        block = covered.size / covered.units if covered.units else 1.0
        return cls(state.name, state.curve, state.objects.objects, block)

    @classmethod
    def of_recordings(cls, name: str, recorded: RecordedReuse, *, is_whole: bool) -> Self:
        """Returns the advice that follows from recordings. `is_whole`: whether one of them has a whole epoch."""
        return cls(name, recorded.curve, recorded.objects, recorded.block, is_whole)


def tier_space(advised: AdvisedSet, pool: Pool | None, tiers: Tiers, workers: int, factor: float) -> TierSpace:
    """Bytes of the data set's objects that the tiers, or its quota, would keep if they were so many times as large.
    `workers`: each has memory of its own."""
    block = advised.block
    memory, ssd = tiers.memory, tiers.ssd
    occupancy = memory.occupancy()
    head = memory.heads.used / occupancy.heads if occupancy.heads else 0.0
    capacity = round(factor * occupancy.capacity)
    cost = block + BLOCK_OVERHEAD
    heads = min(head * advised.objects, capacity / 2)
    lru_blocks = (capacity - heads) / cost
    rest = capacity - transient_window(capacity)
    epoch_blocks = max(rest / (cost + head), (rest - heads) / cost)
    bound = ssd.lasting_capacity if ssd is not None else 0
    if pool is not None and pool.quota is not None:
        bound = min(bound, pool.quota)
    on_ssd = factor * bound * block / (block + SSD_BLOCK_OVERHEAD)
    return TierSpace(
        round(max(workers * lru_blocks * block, on_ssd)),
        round(workers * epoch_blocks * block + on_ssd),
    )


def advice_rows(
    sets: Iterable[tuple[AdvisedSet, Pool | None]], tiers: Tiers, workers: int
) -> tuple[DataSetAdvice, ...]:
    """The advice for data sets, each with its pool."""
    return tuple(_row(advised, pool, _advice(advised, pool, tiers, workers)) for advised, pool in sets)


def _advice(advised: AdvisedSet, pool: Pool | None, tiers: Tiers, workers: int) -> TierAdvice:
    ssd, quota = tiers.ssd, pool.quota if pool is not None else None
    return advise(
        advised.curve,
        lambda factor: tier_space(advised, pool, tiers, workers, factor),
        pool.eviction if pool is not None else "lru",
        has_quota=quota is not None and ssd is not None and quota < ssd.lasting_capacity,
        is_whole=advised.is_whole,
    )


def _row(advised: AdvisedSet, pool: Pool | None, advice: TierAdvice) -> DataSetAdvice:
    outlooks = tuple(
        HitOutlook(each.factor, each.space.lru, each.lru, each.space.epoch, each.epoch) for each in advice.outlooks
    )
    return DataSetAdvice(
        advised.name,
        advised.curve.set_size,
        advised.is_whole,
        pool.eviction if pool is not None else "lru",
        outlooks,
        advice.eviction,
        advice.quota,
        advice.factor,
        advice.reasons,
    )

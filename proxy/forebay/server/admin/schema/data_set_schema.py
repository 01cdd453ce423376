"""The answers of the admin port about data sets, as dataclasses.

As in admin_schema: a field may be added, none is renamed or dropped; sizes are bytes, ratios 0 to 1, or null where
nothing is known.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from forebay.datasets.data_set_stats import DataSetStats, EvictionName

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
class DataSetList:
    """GET /v1/datasets: the data sets that were read or have a place in a tier, by name."""

    data_sets: tuple[DataSetStats, ...]


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
    """The size of the tiers that hit nearly everything, over their present one; None: they do, or are too small by
    far."""
    reasons: tuple[str, ...]
    """Sentences."""


@dataclass(frozen=True, slots=True)
class AdviceList:
    """GET /v1/advice."""

    data_sets: tuple[DataSetAdvice, ...]

"""A rule of the configuration: a path, and the fields that it sets for matching objects. None: a later rule decides.

forebay.policy.rules combines several rules into one decision.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from forebay.settings.freshness_values import Freshness, Listing

Write: TypeAlias = Literal["through", "around", "back"]
"""`through`: the origin has the object before it is acknowledged, and `warm_on_write` may cache the bytes. `around`:
the same, but the bytes are never cached; the next read fetches them. `back`: acknowledged from the journal where it may
be, and cached once the origin has it; else `through`."""

Conflict: TypeAlias = Literal["keep", "overwrite"]
"""The treatment of a pending write if somebody else wrote the object meanwhile. `keep`: it waits for a person."""

Eviction: TypeAlias = Literal["lru", "epoch"]
"""`lru`: what was read last stays. `epoch`: a stable share of the blocks stays (forebay.policy.stable_share)."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One of `[[rules]]`."""

    path: str
    name: str | None = None
    """The name of the data set that its objects are counted as; None: the path."""
    accelerate: bool | None = None
    freshness: Freshness | None = None
    block: int | None = None
    """Bytes."""
    warm_on_write: bool | None = None
    warm_on_head: bool | None = None
    read_ahead: int | None = None
    """Bytes."""
    write: Write | None = None
    conflict: Conflict | None = None
    fence: tuple[str, ...] | None = None
    """Patterns of the keys among them whose writes are acknowledged once the bucket has them."""
    listing: Listing | None = None
    """The freshness of listings that Forebay answers itself."""
    packed: str | None = None
    """A pattern of keys of the same bucket: where the packs of these objects are."""
    plan_horizon: int | None = None
    """Bytes that a plan has fetched ahead of its reader."""
    record: bool | None = None
    follow: bool | None = None
    eviction: Eviction | None = None
    quota: int | None = None
    """Bytes."""

"""A rule as it is written: a path, and whatever it sets for the objects under it. None: left to the rules below.

How several rules make one decision is in forebay.policy.rules.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from forebay.settings.freshness_values import Freshness

Write: TypeAlias = Literal["through", "around"]
"""`through`: the origin has it before it is acknowledged, and `warm_on_write` may keep the bytes. `around`: the same,
and the bytes are never kept: the next read fetches them."""


@dataclass(frozen=True, slots=True)
class Rule:
    path: str
    accelerate: bool | None = None
    freshness: Freshness | None = None
    block: int | None = None
    """Bytes."""
    warm_on_write: bool | None = None
    write: Write | None = None

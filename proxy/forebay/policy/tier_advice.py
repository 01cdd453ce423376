"""Advice on the tiers: the hit shares of a data set with other sizes and evictions, and the settings to choose.

The hit shares are those of warm tiers that this data set has to itself: of the bytes read that had been read before. A
first epoch is not in them, as no tier hits it.

    lru     by the distances between reads of the same block      ReuseCurve.lru_share
    epoch   the share of the set that the tiers hold, whatever    ReuseCurve.stable_share
            the order, and whoever else reads it

Under `lru` memory keeps a part of what the SSD tier has, under `epoch` what the SSD tier has not. So the tiers keep
different numbers of bytes, and these are bytes of objects: overhead is the caller's concern.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from forebay.policy.reuse_distance import ReuseCurve
from forebay.settings.rule_settings import Eviction

FACTORS: Final = (0.5, 1.0, 2.0, 4.0)
NOTICEABLE: Final = 0.03
"""A smaller difference of hit shares is within the error of a prediction."""
ENOUGH: Final = 0.97
"""A hit share beyond which more space is not worth its price."""
HEADROOM: Final = 10
"""A set is given one in so many bytes more than it has: new blocks are written before old ones are reclaimed."""
MIN_EPOCHS: Final = 1.0
"""Advice needs so many epochs' bytes that were read again."""
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class TierSpace:
    """Bytes of objects that the tiers keep under each eviction."""

    lru: int
    epoch: int

    def of(self, eviction: Eviction) -> int:
        """The bytes under one of the evictions."""
        return self.epoch if eviction == "epoch" else self.lru


@dataclass(frozen=True, slots=True)
class TierOutlook:
    """The hit shares of one size."""

    factor: float
    """Over the present size."""
    space: TierSpace
    lru: float
    epoch: float

    def share(self, eviction: Eviction) -> float:
        """The hit share under one of the evictions."""
        return self.epoch if eviction == "epoch" else self.lru


@dataclass(frozen=True, slots=True)
class TierAdvice:
    """The settings to choose for one data set."""

    outlooks: tuple[TierOutlook, ...]
    """The outlooks by size. Empty: too little was read again to say anything."""
    eviction: Eviction | None
    """The eviction to choose; None: no advice."""
    quota: int | None
    """Bytes that hold the whole set, if the tiers have them; None: all of the tiers is needed."""
    factor: float | None
    """The smallest sufficient size of the tiers, over their present one; None: larger ones are of no use, or FACTORS
    are not enough."""
    reasons: tuple[str, ...]
    """Sentences."""


def outlooks(curve: ReuseCurve, space_at: Callable[[float], TierSpace]) -> tuple[TierOutlook, ...]:
    """Returns the hit shares at each of FACTORS. `space_at`: the space of tiers that are so many times as large."""
    spaces = [(factor, space_at(factor)) for factor in FACTORS]
    return tuple(
        TierOutlook(factor, each, curve.lru_share(each.lru), curve.stable_share(each.epoch)) for factor, each in spaces
    )


def advise(
    curve: ReuseCurve,
    space_at: Callable[[float], TierSpace],
    current: Eviction,
    *,
    has_quota: bool = False,
    is_whole: bool = True,
) -> TierAdvice:
    """Returns what to set for a data set with this curve where `current` is set now. `space_at`: see `outlooks`.
    `has_quota`: whether a quota bounds the space, so that larger tiers alone would gain nothing. `is_whole`: whether
    all of the set was read; otherwise its size is a lower bound, and no quota is advised."""
    if not curve.set_size or curve.read_again < MIN_EPOCHS * curve.set_size * 0.9:
        known = f"{_text(round(curve.read_again))} of {_text(curve.set_size)} were read a second time so far"
        return TierAdvice((), None, None, None, (f"No advice before the second epoch: {known}.",))
    rows = outlooks(curve, space_at)
    present = next(row for row in rows if row.factor == 1.0)
    eviction = _eviction(present, current)
    reasons = [
        *_size_reasons(curve.set_size, present.space.of(current), has_quota=has_quota, is_whole=is_whole),
        _eviction_reason(present, eviction, current),
    ]
    factor = None
    if present.share(eviction) < ENOUGH:
        factor, reason = _growth(rows, eviction, has_quota=has_quota)
        reasons.append(reason)
    elif is_whole:
        reasons.append(f"{'A larger quota gains' if has_quota else 'Larger tiers gain'} nothing.")
    quota = _quota(curve, present.space.of(eviction)) if is_whole else None
    if quota is not None:
        reasons.append(f"A quota of {_text(quota)} is enough for it, and leaves the rest to others.")
    return TierAdvice(rows, eviction, quota, factor, tuple(reasons))


def _size_reasons(set_size: int, space: int, *, has_quota: bool, is_whole: bool) -> list[str]:
    """Returns sentences on the size of the set and the space that it has."""
    size, kept = _text(set_size), f"{'its quota and memory keep' if has_quota else 'the tiers keep'} {_text(space)}."
    if is_whole:
        return [f"The set has {size}, {kept}"]
    doubt = f"The set may have more than the {size} that were recorded, and the tiers then hit less:"
    return [f"{doubt} no recorded epoch is known to be whole.", f"The recorded epochs have {size}, {kept}"]


def _eviction_reason(present: TierOutlook, eviction: Eviction, current: Eviction) -> str:
    hits = f"it hits {_percent(present.share(eviction))} of what is read again"
    if eviction == current:
        return f'Leave eviction = "{current}": {hits}.'
    gain = present.share(eviction) - present.share(current)
    return f'Set eviction = "{eviction}": {hits}, {_percent(gain)} more than {current}.'


def _growth(rows: Sequence[TierOutlook], eviction: Eviction, *, has_quota: bool) -> tuple[float | None, str]:
    """Returns the smallest factor of the space that hits ENOUGH, None if none does, and a sentence on it."""
    enough = next((row for row in rows if row.share(eviction) >= ENOUGH), None)
    if enough is not None:
        larger, hits = ("A quota", "hits") if has_quota else ("Tiers", "hit")
        return enough.factor, f"{larger} {enough.factor:g} times as large {hits} {_percent(enough.share(eviction))}."
    best = rows[-1]
    bound = "the quota hits" if has_quota else "the tiers hit"
    return None, f"Even {best.factor:g} times {bound} only {_percent(best.share(eviction))}."


def _eviction(present: TierOutlook, current: Eviction) -> Eviction:
    other: Eviction = "lru" if current == "epoch" else "epoch"
    return other if present.share(other) - present.share(current) >= NOTICEABLE else current


def _quota(curve: ReuseCurve, size: int) -> int | None:
    wanted = _with_headroom(curve.set_size)
    return wanted if wanted <= size else None


def _with_headroom(size: int) -> int:
    return ceil((size + size // HEADROOM) / _MIB) * _MIB


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _text(size: int) -> str:
    """Rounds to three digits; further digits are the sample's noise."""
    for unit, factor in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}" if size < 1000 * factor else f"{size // factor} {unit}"
    return f"{size} B"

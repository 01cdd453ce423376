"""Freshness of a rule: its values, and how they are written.

    "immutable"   fresh for ever: for data sets whose objects are never overwritten
    "60s"         fresh that long after the last validation at the origin, then one conditional request (max-age)
    "always"      every read revalidates: one round trip, no body if the object is unchanged (no-cache)

forebay.policy.freshness applies them. Writes through Forebay are seen at once under all three.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

from forebay.core.units import format_duration, parse_duration

LISTING_ALLOWED: Final = '"off", "immutable", or a duration with its unit, such as 10m or 1h'
FRESHNESS_ALLOWED: Final = '"immutable", "always", or a duration with its unit, such as 60s or 1h'


@dataclass(frozen=True, slots=True)
class Immutable:
    """Fresh for ever."""


@dataclass(frozen=True, slots=True)
class MaxAge:
    """Fresh for `seconds` after the last validation at the origin."""

    seconds: float


@dataclass(frozen=True, slots=True)
class AlwaysRevalidate:
    """Never fresh: each read revalidates."""


@dataclass(frozen=True, slots=True)
class ListingOff:
    """Listings are passed on to the origin."""


Freshness: TypeAlias = Immutable | MaxAge | AlwaysRevalidate
Listing: TypeAlias = Immutable | MaxAge | ListingOff
"""The freshness of a listing that Forebay answers from a snapshot of the namespace."""


def parse_freshness(text: str) -> Freshness:
    """The freshness written in a rule. Raises ValueError with the allowed forms."""
    if text == "immutable":
        return Immutable()
    if text == "always":
        return AlwaysRevalidate()
    try:
        return MaxAge(parse_duration(text))
    except ValueError:
        raise ValueError(FRESHNESS_ALLOWED) from None


def parse_listing(text: str) -> Listing:
    """The `listing` of a rule. Raises ValueError with the allowed forms."""
    if text == "off":
        return ListingOff()
    try:
        listing = parse_freshness(text)
    except ValueError:
        raise ValueError(LISTING_ALLOWED) from None
    if isinstance(listing, AlwaysRevalidate):
        raise ValueError(LISTING_ALLOWED)
    return listing


def format_freshness(freshness: Freshness | ListingOff) -> str:
    """The text that a rule would have for it."""
    match freshness:
        case ListingOff():
            return "off"
        case Immutable():
            return "immutable"
        case AlwaysRevalidate():
            return "always"
        case MaxAge(seconds):
            return format_duration(seconds)

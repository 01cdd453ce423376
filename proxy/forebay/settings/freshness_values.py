"""How fresh a rule wants an answer to be: the words for it, and how they are written.

    "immutable"   a version, once seen, is believed for ever: for data sets whose keys never change their content
    "60s"         believed that long after the origin last vouched for it, then asked for with one conditional request
    "always"      every read asks: one round trip, no body when nothing has changed

What follows from it is judged in forebay.policy.freshness; writes through Forebay are seen at once under all three.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

from forebay.core.units import format_duration, parse_duration

FRESHNESS_ALLOWED: Final = '"immutable", "always", or a duration with its unit, such as 60s or 1h'


@dataclass(frozen=True, slots=True)
class Immutable:
    """Never asks again."""


@dataclass(frozen=True, slots=True)
class For:
    """Believed for `seconds` after the origin last vouched for it."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Always:
    """Asks at each read."""


Freshness: TypeAlias = Immutable | For | Always


def parse_freshness(given: str) -> Freshness:
    """The freshness that a rule names. Raises ValueError with what is allowed."""
    if given == "immutable":
        return Immutable()
    if given == "always":
        return Always()
    try:
        return For(parse_duration(given))
    except ValueError:
        raise ValueError(FRESHNESS_ALLOWED) from None


def format_freshness(freshness: Freshness) -> str:
    """As it would be written in a rule."""
    match freshness:
        case Immutable():
            return "immutable"
        case Always():
            return "always"
        case For(seconds):
            return format_duration(seconds)

"""Whether what is known of an object may still be believed.

    validated_at              trusted_from                    now
    the origin last   ....    before this, nothing we    ....
    vouched for it            remember is believed

Pure: the caller reads the clock. Wall-clock seconds, as heads outlive the process; so a clock that was set back is
expected, and makes what seems to come from the future stale rather than fresh for hours.

A request may ask for a revalidation (RFC 9111 section 5.2.1): `no-cache`, `max-age=0`, and `Pragma: no-cache` where
there is no Cache-Control. A client's `no-store` is taken as `no-cache`: it gets an answer the origin has just vouched
for. It does not keep the object out of the cache: that is for the rules, one client must not decide it for all others.
Other directives (`max-age=30`, `max-stale`, `only-if-cached`) are not heeded: freshness is set by the rules.
"""

import math
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from forebay.protocol.header_map import Headers
from forebay.settings.freshness_values import AlwaysRevalidate, Freshness, Immutable, MaxAge, parse_freshness

__all__ = [
    "FRESH",
    "AlwaysRevalidate",
    "Fresh",
    "Freshness",
    "FreshnessResult",
    "Immutable",
    "MaxAge",
    "Stale",
    "evaluate_freshness",
    "freshness_lifetime",
    "parse_freshness",
    "requests_revalidation",
]

CLOCK_SKEW: Final = 1.0
"""Seconds by which a validation may seem to lie in the future: a clock that is being slewed, not one that was set."""


@dataclass(frozen=True, slots=True)
class Fresh:
    """May be answered without asking the origin."""


@dataclass(frozen=True, slots=True)
class Stale:
    """The origin is asked first, with one conditional request."""

    reason: Literal["asked", "clock", "untrusted", "always", "expired"]


FreshnessResult: TypeAlias = Fresh | Stale

# One object each: this is judged for every hit.
FRESH: Final = Fresh()
_ASKED: Final = Stale("asked")
_CLOCK: Final = Stale("clock")
_UNTRUSTED: Final = Stale("untrusted")
_ALWAYS: Final = Stale("always")
_EXPIRED: Final = Stale("expired")


def evaluate_freshness(
    validated_at: float, freshness: Freshness, now: float, trusted_from: float, no_cache: bool
) -> FreshnessResult:
    """Whether a head that the origin vouched for at `validated_at` may be used at `now`.

    `trusted_from`: nothing validated before it is believed, whatever the rule says: a write may have been missed.
    `no_cache`: the client asked for a revalidation.
    """
    if no_cache:
        return _ASKED
    if validated_at > now + CLOCK_SKEW:
        return _CLOCK
    if validated_at < trusted_from:
        return _UNTRUSTED
    match freshness:
        case Immutable():
            return FRESH
        case MaxAge(seconds):
            # Not negative: within the skew, `For(0)` must not become fresh.
            return FRESH if max(0.0, now - validated_at) < seconds else _EXPIRED
        case AlwaysRevalidate():
            return _ALWAYS


def freshness_lifetime(validated_at: float, freshness: Freshness, trusted_from: float) -> tuple[float, float]:
    """From when (inclusive) until when (exclusive) `judge` says Fresh, where no client asks for a revalidation.

    For those who are asked again and again about the same head. An empty time if it never does.
    """
    if validated_at < trusted_from:
        return math.inf, -math.inf
    match freshness:
        case Immutable():
            return validated_at - CLOCK_SKEW, math.inf
        case MaxAge(seconds):
            return (validated_at - CLOCK_SKEW, validated_at + seconds) if seconds > 0 else (math.inf, -math.inf)
        case AlwaysRevalidate():
            return math.inf, -math.inf


def requests_revalidation(headers: Headers) -> bool:
    """Whether the client wants the origin asked, whatever the rules say."""
    lines = headers.getall("Cache-Control", [])
    if not lines:
        return any("no-cache" in line.lower() for line in headers.getall("Pragma", []))
    return any(_is_revalidation(directive) for line in lines for directive in line.split(","))


def _is_revalidation(directive: str) -> bool:
    name, _, argument = directive.partition("=")
    match name.strip().lower():
        case "no-cache" | "no-store":
            return True
        case "max-age":
            # What is not a number of seconds counts as none, which is the safe reading (RFC 9111 section 4.2.1).
            age = argument.strip().strip('"')
            return not (age.isascii() and age.isdigit()) or int(age[:20]) == 0
        case _:
            return False

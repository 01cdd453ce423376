"""Freshness (RFC 9111): whether a cached head may be used without a validation at the origin.

    validated_at               trusted_from                  now
    last validation    ....    older validations      ....
    at the origin              are not trusted

Pure: the caller reads the clock. Times are wall-clock seconds, as heads outlive the process. A clock that was set back
is expected: a validation in the future makes a head stale, not fresh for hours.

A request may demand a revalidation (RFC 9111, 5.2.1): `no-cache`, `max-age=0`, and `Pragma: no-cache` without
Cache-Control. A client's `no-store` acts as `no-cache`; it does not keep the object out of the cache, which is for the
rules: one client must not decide it for all others. Other directives (`max-age=30`, `max-stale`, `only-if-cached`) are
ignored: the rules set the freshness.
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
"""Seconds by which a validation may lie in the future: as much as a slewed clock causes, less than a reset one."""


@dataclass(frozen=True, slots=True)
class Fresh:
    """The head may be used without a request to the origin."""


@dataclass(frozen=True, slots=True)
class Stale:
    """The head needs a conditional request first. `reason` says why."""

    reason: Literal["asked", "clock", "untrusted", "always", "expired"]


FreshnessResult: TypeAlias = Fresh | Stale

# One instance each: they are returned for every hit.
FRESH: Final = Fresh()
_NO_CACHE: Final = Stale("asked")
_CLOCK: Final = Stale("clock")
_UNTRUSTED: Final = Stale("untrusted")
_ALWAYS: Final = Stale("always")
_EXPIRED: Final = Stale("expired")


def evaluate_freshness(
    validated_at: float, freshness: Freshness, now: float, trusted_from: float, no_cache: bool
) -> FreshnessResult:
    """Whether a head validated at `validated_at` is fresh at `now` (seconds since the epoch).

    `trusted_from`: earlier validations are not trusted, whatever the rule says: a write may have been missed.
    `no_cache`: the client demands a revalidation.
    """
    if no_cache:
        return _NO_CACHE
    if validated_at > now + CLOCK_SKEW:
        return _CLOCK
    if validated_at < trusted_from:
        return _UNTRUSTED
    match freshness:
        case Immutable():
            return FRESH
        case MaxAge(seconds):
            # Not negative: within the skew, `MaxAge(0)` must not become fresh.
            return FRESH if max(0.0, now - validated_at) < seconds else _EXPIRED
        case AlwaysRevalidate():
            return _ALWAYS


def freshness_lifetime(validated_at: float, freshness: Freshness) -> tuple[float, float]:
    """The times from (inclusive) and until (exclusive) which a head is fresh for clients that demand no revalidation.

    Agrees with `evaluate_freshness` where no write is in doubt, for callers that evaluate one head many times. (inf,
    -inf) if it is never fresh.
    """
    if validated_at < 0.0:  # never validated
        return math.inf, -math.inf
    match freshness:
        case Immutable():
            return validated_at - CLOCK_SKEW, math.inf
        case MaxAge(seconds):
            return (validated_at - CLOCK_SKEW, validated_at + seconds) if seconds > 0 else (math.inf, -math.inf)
        case AlwaysRevalidate():
            return math.inf, -math.inf


def requests_revalidation(headers: Headers) -> bool:
    """Whether the client demands a revalidation, beyond the rules."""
    if "Cache-Control" in headers:
        lines = headers.getall("Cache-Control")
        return any(_is_revalidation(directive) for line in lines for directive in line.split(","))
    return "Pragma" in headers and any("no-cache" in line.lower() for line in headers.getall("Pragma"))


def _is_revalidation(directive: str) -> bool:
    name, _, argument = directive.partition("=")
    match name.strip().lower():
        case "no-cache" | "no-store":
            return True
        case "max-age":
            # A malformed number of seconds counts as 0, the safe reading (RFC 9111, 4.2.1).
            age = argument.strip().strip('"')
            return not (age.isascii() and age.isdigit()) or int(age[:20]) == 0
        case _:
            return False

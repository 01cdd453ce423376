"""Listing scopes: which listings may be answered from a snapshot by the rules, of which namespace, and how fresh.

    rule                                   request                     scope
    datasets/imagenet/**  listing = 10m    datasets?prefix=imagenet/v  imagenet/, 10m
    datasets/**           listing = 1h     datasets?prefix=a           a listing of imagenet/ has 10m, all of the bucket
                                                                       too (the strictest), the rest 1h

A listing is answered here if the rules let it for every key that it may show: rules are read from the top, as for
objects, until a rule covers the whole prefix. `off`, or no rule, for any of these keys: the origin answers. The
namespace that is listed is the widest one around the prefix for which the same holds, so that listings share it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from forebay.policy.path_patterns import Pattern
from forebay.settings.freshness_values import Immutable, ListingOff, MaxAge
from forebay.settings.rule_settings import Rule


class ListingScope(NamedTuple):
    """A namespace from whose snapshot a listing may be answered."""

    prefix: str
    """The prefix of all its keys; empty: the whole bucket."""
    freshness: MaxAge | Immutable
    """The freshness of this listing. Another one of the same namespace may have a longer one."""


class ListingScopes:
    """The scopes of a set of rules."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = [(Pattern(rule.path), rule.listing) for rule in rules if rule.listing is not None]
        self.is_empty = all(isinstance(listing, ListingOff) for _, listing in self._rules)
        """Whether the origin answers all listings."""

    def scope(self, bucket: str, prefix: str) -> ListingScope | None:
        """The scope of a listing; None: the origin answers it."""
        if self.is_empty:
            return None
        freshness = self._freshness(f"{bucket}/{prefix}")
        if freshness is None:
            return None
        # A shorter prefix has more keys: where it may be answered, so may each longer one.
        low, high = 0, len(prefix)
        while low < high:
            middle = (low + high) // 2
            if self._freshness(f"{bucket}/{prefix[:middle]}") is not None:
                high = middle
            else:
                low = middle + 1
        return ListingScope(prefix[:high], freshness)

    def _freshness(self, path: str) -> MaxAge | Immutable | None:
        """The strictest listing of all keys that begin with `path`; None: some of them have none."""
        strictest: MaxAge | Immutable = Immutable()
        for pattern, listing in self._rules:
            if not pattern.reaches_into(path) and not pattern.covers_prefix(path) and not pattern.matches(path):
                continue
            if isinstance(listing, ListingOff) or listing is None:
                return None
            if isinstance(listing, MaxAge) and (
                isinstance(strictest, Immutable) or listing.seconds < strictest.seconds
            ):
                strictest = listing
            if pattern.covers_prefix(path):
                return strictest
        return None

"""Packed scopes: the packs whose members a listing may have.

    rule                                                   request                    scope
    b/train/**  packed = "packed/**"  freshness = "10m"    b?prefix=train/cats/       packed/**, 10m
                                                           b?prefix=t                 the same: some of its keys are
                                                           b?prefix=test/             none

The freshness of the packs is that of the same rule, or the default.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from forebay.policy.path_patterns import Pattern
from forebay.settings.freshness_values import Freshness, Immutable, MaxAge
from forebay.settings.rule_settings import Rule

LEAST_AGE: Final = 60.0
"""Seconds that the packs of an `always` rule may be old: it is the objects themselves that every read looks up."""


class PackedScope(NamedTuple):
    """Packs whose members a listing may have."""

    packed: str
    """The pattern of their indexes' keys."""
    freshness: MaxAge | Immutable


class PackedScopes:
    """The scopes of a set of rules."""

    def __init__(self, rules: Sequence[Rule], freshness: Freshness) -> None:
        """`freshness`: of rules that set none."""
        self._rules = [
            (Pattern(rule.path), PackedScope(rule.packed, pack_freshness(rule.freshness or freshness)))
            for rule in rules
            if rule.packed is not None
        ]
        self.is_empty = not self._rules
        """Whether no object is a member of a pack."""

    def scopes(self, bucket: str, prefix: str) -> list[PackedScope]:
        """The packs that keys with this prefix may be members of, each pattern once."""
        if self.is_empty:
            return []
        path, found = f"{bucket}/{prefix}", dict[str, PackedScope]()
        for pattern, scope in self._rules:
            if pattern.reaches_into(path) or pattern.covers_prefix(path) or pattern.matches(path):
                found.setdefault(scope.packed, scope)
        return list(found.values())

    def has_pack(self, bucket: str, prefix: str, index_key: str) -> bool:
        """Whether some key with this prefix may be a member of the pack of this index."""
        return any(Pattern(scope.packed).matches(index_key) for scope in self.scopes(bucket, prefix))


def pack_freshness(freshness: Freshness) -> MaxAge | Immutable:
    """Returns how old the packs may be under a rule."""
    return freshness if isinstance(freshness, MaxAge | Immutable) else MaxAge(LEAST_AGE)

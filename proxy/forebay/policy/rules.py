"""Rules: the acceleration policy for one object.

Rules are read from the top; the first rule that matches and sets a field decides that field. So a narrow rule sets a
few fields and leaves the rest to a wider one below it:

    path                     freshness     block         an object under datasets/video/ is
    datasets/video/**                      8 MiB         immutable, and cut at 8 MiB
    datasets/**              immutable
    **                       60s           1 MiB

Decisions are cached by the set of matching rules, never by key: a scan over a million keys adds no entry.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final

from forebay.core.names import ObjectName, is_reserved
from forebay.policy.freshness import Freshness, MaxAge
from forebay.policy.listing_scopes import ListingScopes
from forebay.policy.packed_scopes import PackedScopes
from forebay.policy.path_patterns import Pattern
from forebay.policy.pools import Pool
from forebay.settings.freshness_values import Listing, ListingOff
from forebay.settings.rule_settings import Conflict, Eviction, Rule, Write

__all__ = ["DEFAULTS", "MAX_REMEMBERED_DECISIONS", "Decision", "Rule", "Rules", "Write"]

MAX_REMEMBERED_DECISIONS: Final = 1024
"""Cached decisions. Real policies need a dozen; this bounds an odd one."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The combined rules for one object: every field is set."""

    accelerate: bool
    """Whether it is cached; if not, its requests are forwarded."""
    freshness: Freshness
    block: int
    """Bytes of a block of newly cached versions; cached ones keep their block size."""
    warm_on_write: bool
    warm_on_head: bool
    """Whether a HEAD of the first byte starts the object's warm-up."""
    read_ahead: int
    """Bytes that are fetched ahead of a sequential reader, over separate requests; 0: none."""
    write: Write
    conflict: Conflict
    fence: tuple[Pattern, ...]
    """The patterns of objects whose writes are acknowledged once the origin has them."""
    listing: Listing
    """Whether a listing of the object's key may be answered here; for a whole prefix see policy.listing_scopes."""
    packed: str | None
    """A pattern of keys of its bucket: where the packs are that it may be a member of; None: it is in none."""
    plan_horizon: int
    """Bytes that a plan has fetched ahead of its reader at most."""
    record: bool
    """Whether its reads are recorded."""
    follow: bool
    """Whether reads that match a recording make a plan of its rest."""
    eviction: Eviction
    quota: int | None
    """Bytes of a tier that the objects of `pool` may take; None: no bound of their own."""
    pool: Pool | None
    """The pool that bounds its space in the tiers; None: it shares the LRU order of all objects without one."""
    rule: str
    """The data set that it counts as, a label of metrics: the first name that a rule gives it, else the path of the
    rule that makes its pool, else that of the first rule that matches, "default" if none does."""
    track: str
    """`rule`, if its reads are recorded or may follow a recording; else empty."""


DEFAULTS: Final = Decision(
    accelerate=True,
    freshness=MaxAge(60.0),
    block=1 << 20,
    warm_on_write=False,
    warm_on_head=False,
    read_ahead=0,
    write="through",
    conflict="keep",
    fence=(),
    listing=ListingOff(),
    packed=None,
    plan_horizon=256 << 20,
    record=False,
    follow=False,
    eviction="lru",
    quota=None,
    pool=None,
    rule="default",
    track="",
)


class Rules:
    """Compiled rules; immutable, replaced on a reload. Raises ValueError for a malformed path."""

    def __init__(self, rules: Sequence[Rule], defaults: Decision = DEFAULTS) -> None:
        self._rules = tuple(rules)
        self._defaults = defaults
        self._patterns = tuple((1 << position, Pattern(rule.path)) for position, rule in enumerate(rules))
        self._decisions: dict[int, Decision] = {}
        self._has_pools = any(rule.eviction is not None or rule.quota is not None for rule in rules)
        self._reserved = replace(defaults, accelerate=False)
        self.listings = ListingScopes(rules)
        """The listings that are answered here."""
        self.packed = PackedScopes(rules, defaults.freshness)
        """The listings that include members of packs."""

    @property
    def reads_ahead(self) -> bool:
        """Whether some rule sets `read_ahead`."""
        return any(rule.read_ahead for rule in self._rules)

    @property
    def data_sets(self) -> frozenset[str]:
        """The data sets whose reads are counted: those that a rule names, or makes a pool for. Counting costs a hit
        about a microsecond, so it is off for all other rules."""
        named = {rule.name for rule in self._rules if rule.name is not None}
        return frozenset(
            named | {rule.path for rule in self._rules if rule.eviction is not None or rule.quota is not None}
        )

    def patterns_of(self, data_set: str) -> list[Pattern]:
        """The paths of the rules that make a data set: those with its name, or the one that it is named after."""
        numbered = enumerate(self._rules)
        return [self._patterns[number][1] for number, rule in numbered if data_set in {rule.name, rule.path}]

    @property
    def has_tracks(self) -> bool:
        """Whether a rule has reads recorded, or recordings followed."""
        return any(rule.record or rule.follow for rule in self._rules)

    def pool_of(self, data_set: str) -> Pool | None:
        """The pool of a data set, by the objects decided so far, else by its own rules; None if it has none."""
        for decision in self._decisions.values():
            if decision.rule == data_set:
                return decision.pool
        return self._combine(rule for rule in self._rules if data_set in {rule.name, rule.path}).pool

    def data_set_of(self, pool: str) -> str:
        """The data set that has a pool, by the objects decided so far, else by the rule that named the pool."""
        decided = (each.rule for each in self._decisions.values() if each.pool is not None and each.pool.name == pool)
        named = (rule.name for rule in self._rules if rule.path == pool and rule.name is not None)
        return next(decided, None) or next(named, pool)

    def decide(self, name: ObjectName) -> Decision:
        """Returns the decision for an object. No rule makes one of Forebay's own resources cacheable."""
        if is_reserved(name.key):
            return self._reserved
        path = name.path
        matching = 0
        for bit, pattern in self._patterns:
            if pattern.matches(path):
                matching |= bit
        decision = self._decisions.get(matching)
        if decision is None:
            decision = self._combine(rule for position, rule in enumerate(self._rules) if matching >> position & 1)
            if len(self._decisions) < MAX_REMEMBERED_DECISIONS:
                self._decisions[matching] = decision
        return decision

    def pool(self, name: ObjectName) -> Pool | None:
        """The pool of an object. Costs nothing where no rule makes one."""
        return self.decide(name).pool if self._has_pools else None

    def _combine(self, matching: Iterable[Rule]) -> Decision:
        rules = list(matching)
        decision = self._defaults
        pool = ""
        # From the last rule to the first, so that the first overrides.
        for rule in reversed(rules):
            chosen = {name: value for name in _RULE_FIELDS if (value := getattr(rule, name)) is not None}
            if "eviction" in chosen or "quota" in chosen:
                pool = rule.path
            if "fence" in chosen:
                chosen["fence"] = tuple(map(Pattern, chosen["fence"]))
            decision = replace(decision, **chosen)
        if decision.eviction == "epoch" or decision.quota is not None:
            decision = replace(decision, pool=Pool(pool, decision.eviction, decision.quota))
        decision = replace(decision, rule=_data_set(rules, decision))
        if decision.record or decision.follow:
            decision = replace(decision, track=decision.rule)
        return replace(decision, warm_on_write=False) if decision.write == "around" else decision


_RULE_FIELDS: Final = tuple(field.name for field in fields(Rule) if field.name not in {"path", "name"})


def _data_set(matching: Sequence[Rule], decision: Decision) -> str:
    """The name of the data set: see Decision.rule."""
    names = [rule.name for rule in matching if rule.name is not None]
    pools = [decision.pool.name] if decision.pool is not None else []
    paths = [rule.path for rule in matching]
    return [*names, *pools, *paths, decision.rule][0]

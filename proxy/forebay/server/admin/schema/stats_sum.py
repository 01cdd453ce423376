"""The sum of the stats of a node's workers, with the counters of those that have exited.

The gauges of exited workers are not in it. Shared parts (the SSD tier, the journal) are counted once.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from functools import reduce
from typing import Any, TypeVar

from forebay.server.admin.schema.stats_schema import (
    BudgetStats,
    FlightStats,
    JobStats,
    JournalStats,
    OriginStats,
    RequestStats,
    RuleReads,
    Stats,
    TierStats,
)

_T = TypeVar("_T", RuleReads, TierStats, FlightStats, JobStats, BudgetStats, OriginStats, Stats)


def counters_of(stats: Stats) -> Stats:
    """Returns the counters of a worker that has exited, with its gauges at zero."""
    return replace(
        stats,
        workers_alive=0,
        tiers=(),
        listings=(),
        journal=None,
        flights=FlightStats(0, 0),
        jobs=JobStats(0),
        budget=replace(stats.budget, capacity=0, used=0),
        origin=_without_state(stats.origin),
        origins=tuple(map(_without_state, stats.origins)),
    )


def _without_state(origin: OriginStats) -> OriginStats:
    return replace(
        origin,
        state="unknown",
        breaker="closed",
        cause=None,
        unreachable_for=None,
        credential="unknown",
        credential_fault=None,
    )


def total_of(empty: Stats, alive: Sequence[Stats], exited: Iterable[Stats]) -> Stats:
    """The stats of a node. `exited`: of `counters_of`; `empty`: the node without any worker, with its uptime."""
    everyone = [*alive, *exited]
    if not everyone:
        return empty
    total = reduce(add_stats, everyone)
    return replace(
        total,
        version=alive[0].version if alive else empty.version,
        uptime=empty.uptime,
        workers=empty.workers,
        workers_alive=len(alive),
        tiers=total.tiers or empty.tiers,
        origin=replace(total.origin, endpoint=empty.origin.endpoint),
    )


def add_stats(left: Stats, right: Stats) -> Stats:
    """The sum of two workers' stats. Both describe the same SSD tier, so it is counted once."""
    return _add(
        left,
        right,
        requests=RequestStats(Counter(left.requests.by_status) + Counter(right.requests.by_status)),
        reads=_add_rows(left.reads, right.reads, lambda row: row.rule, _add),
        tiers=_add_rows(left.tiers, right.tiers, lambda row: row.name, _add_tiers),
        listings=_add_rows(
            left.listings, right.listings, lambda row: (row.bucket, row.prefix), lambda ours, _: ours
        ),  # one worker has a namespace
        journal=_merge_journals(left.journal, right.journal),
        flights=_add(left.flights, right.flights),
        jobs=_add(left.jobs, right.jobs),
        budget=_add(left.budget, right.budget),
        origin=add_origins(left.origin, right.origin),
        origins=_add_rows(left.origins, right.origins, lambda row: row.name, add_origins),
    )


def add_origins(left: OriginStats, right: OriginStats) -> OriginStats:
    """The sum of two workers' stats of an origin, or of two origins': the state is that of the worse one."""
    return _add(
        left,
        right,
        state=_first(("unreachable", "reachable", "unknown"), left.state, right.state),
        breaker=_first(("open", "suspected", "closed"), left.breaker, right.breaker),
        cause=left.cause or right.cause,
        credential=_first(
            ("refused", "missing", "accepted", "anonymous", "unknown"), left.credential, right.credential
        ),
        credential_fault=left.credential_fault or right.credential_fault,
        unreachable_for=max(
            (each.unreachable_for for each in (left, right) if each.unreachable_for is not None), default=None
        ),
    )


def _add_tiers(left: TierStats, right: TierStats) -> TierStats:
    state = _first(("failing", "serving"), left.state, right.state)
    reason = left.reason or right.reason
    if left.name == "memory":
        return _add(left, right, state=state, reason=reason)
    return replace(max(left, right, key=lambda tier: (tier.used, tier.capacity)), state=state, reason=reason)


def _merge_journals(left: JournalStats | None, right: JournalStats | None) -> JournalStats | None:
    """The workers share one journal. Each knows what is pending; what is stuck, the one that carries it out."""
    if left is None or right is None:
        return left or right
    both = ((each.name, getattr(left, each.name), getattr(right, each.name)) for each in fields(left))
    return JournalStats(**{name: max(ours, theirs) for name, ours, theirs in both})


def _add(left: _T, right: _T, **rest: Any) -> _T:
    """`left` with its numbers increased by those of `right`; `rest`: the fields that are no plain sum."""
    numbers = (
        each.name
        for each in fields(left)
        if each.init and each.name not in rest and isinstance(getattr(left, each.name), int | float)
    )
    return replace(left, **{name: getattr(left, name) + getattr(right, name) for name in numbers} | rest)


def _add_rows(left: Iterable[Any], right: Iterable[Any], key: Any, add: Any) -> tuple[Any, ...]:
    """The rows of both; rows with the same key are added."""
    rows = {key(row): row for row in left}
    for row in right:
        rows[key(row)] = add(rows[key(row)], row) if key(row) in rows else row
    return tuple(rows.values())


def _first(order: Sequence[Any], *states: str) -> Any:
    """The state of these that comes first in `order`."""
    return min(states, key=order.index)

"""The figures of a node: its workers' as documents, and their sums.

As with metrics (exposition): what a worker that died had done stays done; the SSD tier, which all share, is told once.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from forebay.peers.frames import Document
from forebay.server.admin.stats_schema import BudgetStats, FlightStats, OriginStats, RuleReads, Stats, TierStats
from forebay.storage.tier_contract import Occupancy


def figures_document(figures: Stats) -> Document:
    return asdict(figures)


def figures_of(document: Any) -> Stats:
    return Stats(
        version=document["version"],
        uptime=document["uptime"],
        workers=document["workers"],
        workers_alive=document["workers_alive"],
        requests={int(status): count for status, count in document["requests"].items()},
        bytes_sent=document["bytes_sent"],
        bytes_received=document["bytes_received"],
        reads=tuple(RuleReads(**reads) for reads in document["reads"]),
        tiers=tuple(
            TierStats(tier["name"], tier["state"], Occupancy(**tier["occupancy"])) for tier in document["tiers"]
        ),
        flights=FlightStats(**document["flights"]),
        jobs_running=document["jobs_running"],
        budget=BudgetStats(**document["budget"]),
        origin=OriginStats(**document["origin"]),
    )


def remains_of(figures: Stats) -> Stats:
    """What is left of a worker that has died: what it did, not what it held."""
    return replace(
        figures,
        tiers=(),
        flights=FlightStats(0, 0),
        jobs_running=0,
        budget=BudgetStats(0, 0, figures.budget.throttled),
    )


def added(living: Sequence[Stats], dead: Sequence[Stats], workers: int, uptime: float, empty: Stats) -> Stats:
    """The node's figures. `empty`: what is told while nobody lives."""
    everybody = [*living, *dead]
    if not everybody:
        return empty
    requests: Counter[int] = Counter()
    for each in everybody:
        requests.update(each.requests)
    last = living[0] if living else empty
    return Stats(
        version=last.version,
        uptime=uptime,
        workers=workers,
        workers_alive=len(living),
        requests=dict(requests),
        bytes_sent=sum(each.bytes_sent for each in everybody),
        bytes_received=sum(each.bytes_received for each in everybody),
        reads=_reads(everybody),
        tiers=_tiers(living) or empty.tiers,
        flights=FlightStats(
            sum(each.flights.in_the_air for each in living), sum(each.flights.waiting for each in living)
        ),
        jobs_running=sum(each.jobs_running for each in living),
        budget=BudgetStats(
            sum(each.budget.capacity for each in living),
            sum(each.budget.used for each in living),
            sum(each.budget.throttled for each in everybody),
        ),
        origin=_origin(living, everybody, empty),
    )


def _reads(everybody: Sequence[Stats]) -> tuple[RuleReads, ...]:
    by_rule: dict[str, RuleReads] = {}
    for each in (reads for figures in everybody for reads in figures.reads):
        one, other = asdict(by_rule.get(each.rule) or RuleReads(each.rule, 0, 0, 0, 0, 0, 0)), asdict(each)
        by_rule[each.rule] = RuleReads(each.rule, **{name: one[name] + other[name] for name in one if name != "rule"})
    return tuple(by_rule.values())


def _tiers(living: Sequence[Stats]) -> tuple[TierStats, ...]:
    by_name: dict[str, TierStats] = {}
    for tier in (tier for figures in living for tier in figures.tiers):
        known = by_name.get(tier.name)
        if known is None:
            by_name[tier.name] = tier
            continue
        one, other = known.occupancy, tier.occupancy
        if tier.name == "memory":
            together = Occupancy(
                one.capacity + other.capacity, one.used + other.used, one.blocks + other.blocks, one.heads + other.heads
            )
        else:  # one tier, of which each tells
            together = max(one, other, key=lambda each: (each.used, each.capacity))
        failing = "failing" in {known.state, tier.state}
        by_name[tier.name] = TierStats(tier.name, "failing" if failing else "serving", together)
    return tuple(by_name.values())


def _origin(living: Sequence[Stats], everybody: Sequence[Stats], empty: Stats) -> OriginStats:
    states = [each.origin.state for each in living]
    breakers = [each.origin.breaker for each in living]
    return OriginStats(
        endpoint=empty.origin.endpoint,
        state="unreachable" if "unreachable" in states else "reachable" if "reachable" in states else "unknown",
        breaker="open" if "open" in breakers else "half-open" if "half-open" in breakers else "closed",
        requests=sum(each.origin.requests for each in everybody),
        failures=sum(each.origin.failures for each in everybody),
        retries=sum(each.origin.retries for each in everybody),
        bytes_read=sum(each.origin.bytes_read for each in everybody),
    )

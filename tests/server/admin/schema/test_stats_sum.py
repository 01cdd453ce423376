"""Sums of stats over workers, and ratios of what they sum up."""

from dataclasses import replace

from forebay.server.admin.schema.stats_schema import (
    BudgetStats,
    FlightStats,
    JobStats,
    JournalStats,
    ListingStats,
    OriginStats,
    RequestStats,
    RuleReads,
    Stats,
    TierStats,
    hit_ratios,
)
from forebay.server.admin.schema.stats_sum import counters_of, total_of

EMPTY = Stats(
    version="1",
    uptime=60.0,
    workers=2,
    workers_alive=0,
    requests=RequestStats({}),
    bytes_sent=0,
    bytes_received=0,
    reads=(),
    tiers=(TierStats("memory", "failing", 200, 0, 0, 0),),
    flights=FlightStats(0, 0),
    jobs=JobStats(0),
    budget=BudgetStats(50, 0, 0),
    origin=OriginStats("http://origin", "unknown", "closed", 0, 0, 0, 0),
)
BUSY = replace(
    EMPTY,
    uptime=30.0,
    requests=RequestStats({"206": 1, "200": 2}),
    bytes_sent=100,
    reads=(RuleReads("a", 3, memory=50, ssd=20, joined=10, origin=20, fetched=40),),
    tiers=(TierStats("memory", "serving", 100, 60, 6, 1), TierStats("ssd", "serving", 1000, 500, 50, 5)),
    flights=FlightStats(1, 2),
    jobs=JobStats(1),
    budget=BudgetStats(25, 5, 1),
    origin=OriginStats("http://origin", "reachable", "suspected", 7, 1, 1, 40),
)
FAILING = replace(
    BUSY,
    requests=RequestStats({"200": 1, "404": 1}),
    reads=(RuleReads("b", 1, 0, 0, 0, 0, 0), RuleReads("a", 1, memory=100, ssd=0, joined=0, origin=0, fetched=0)),
    tiers=(TierStats("memory", "serving", 100, 10, 1, 1), TierStats("ssd", "failing", 1000, 400, 40, 4)),
    origin=replace(BUSY.origin, state="unreachable", breaker="open"),
)


def test_a_namespace_is_counted_once_and_ends_with_its_worker() -> None:
    listing = ListingStats("bucket", "a/", 10, 100, 5.0, 0, is_walking=False)
    left, right = (replace(BUSY, listings=(each,)) for each in (listing, replace(listing, bucket="other")))
    total = total_of(EMPTY, [left, right, left], [counters_of(right)])
    assert total.listings == (listing, replace(listing, bucket="other"))
    assert counters_of(left).listings == ()


def test_the_journal_is_one_for_all_workers() -> None:
    known = JournalStats(1000, 10, False, writes=3, objects=2, size=9, stuck=0, conflicts=0, oldest=12.0, max_age=60.0)
    drains = replace(known, stuck=1, is_full=True, failure="No space left on device")
    left, right = replace(BUSY, journal=known), replace(BUSY, journal=drains)
    assert total_of(EMPTY, [left, right, BUSY], [counters_of(right)]).journal == drains
    assert counters_of(right).journal is None


def test_live_workers_are_summed_up() -> None:
    total = total_of(EMPTY, [BUSY, FAILING], [])
    assert (total.uptime, total.workers, total.workers_alive) == (60.0, 2, 2)
    assert (total.requests.total, list(total.requests.by_status.items())) == (5, [("200", 3), ("206", 1), ("404", 1)])
    assert total.reads == (RuleReads("a", 4, 150, 20, 10, 20, 40), RuleReads("b", 1, 0, 0, 0, 0, 0))
    assert total.tiers == (
        TierStats("memory", "serving", 200, 70, 7, 2),
        TierStats("ssd", "failing", 1000, 500, 50, 5),
    )
    assert (total.flights, total.jobs, total.budget) == (FlightStats(2, 4), JobStats(2), BudgetStats(50, 10, 2))
    assert total.origin == OriginStats("http://origin", "unreachable", "open", 14, 2, 2, 80)


def test_an_exited_workers_counters_stay() -> None:
    total = total_of(EMPTY, [BUSY], [counters_of(FAILING)])
    assert (total.workers_alive, total.requests.total, total.bytes_sent) == (1, 5, 200)
    assert (total.tiers, total.flights, total.jobs) == (BUSY.tiers, BUSY.flights, BUSY.jobs)
    assert total.budget == BudgetStats(25, 5, 2)
    assert (total.origin.state, total.origin.breaker, total.origin.requests) == ("reachable", "suspected", 14)


def test_a_node_without_workers_shows_its_sizes() -> None:
    assert total_of(EMPTY, [], []) == EMPTY
    exited = total_of(EMPTY, [], [counters_of(BUSY)])
    assert (exited.tiers, exited.requests.total, exited.origin.state) == (EMPTY.tiers, 3, "unknown")


def test_ratios_are_shares_of_the_bytes_sent() -> None:
    ratios = hit_ratios(BUSY.reads)
    assert (ratios.hit_ratio, ratios.memory_ratio, ratios.ssd_ratio, ratios.joined_ratio) == (0.8, 0.5, 0.2, 0.1)
    assert ratios.amplification == 2.0
    assert hit_ratios([]).hit_ratio is None
    assert hit_ratios(FAILING.reads).amplification is None

"""The answer of GET /v1/stats: what a running Forebay has done and how full it is; and the sum over several workers.

A *counter* counts from the start of the process and only grows, so that a reader makes rates of the difference of two
answers (`forebay top` does). A *gauge* is what is now. In the sum of a node the counters of workers that have exited
remain, their gauges do not. Sizes are bytes, times are seconds, ratios 0 to 1, or null where nothing was counted yet.

The field names are the names in the JSON document: a field may be added, none is renamed or dropped.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import reduce
from typing import Any, Literal, TypeVar

from forebay.core.events import DEFAULT_ORIGIN, CredentialState, TierName
from forebay.storage.tier_contract import Occupancy

TierState = Literal["serving", "failing"]
_T = TypeVar("_T", "RuleReads", "TierStats", "FlightStats", "JobStats", "BudgetStats", "OriginStats", "Stats")


@dataclass(frozen=True, slots=True)
class RequestStats:
    """Requests by HTTP status, in the order of the statuses. Counters."""

    total: int = field(init=False)
    by_status: Mapping[str, int]

    def __post_init__(self) -> None:
        _derive(self, total=sum(self.by_status.values()), by_status=dict(sorted(self.by_status.items())))


@dataclass(frozen=True, slots=True)
class HitRatios:
    """Shares of the bytes sent to clients. A hit is a byte that needed no fetch of its own."""

    hit_ratio: float | None = None
    memory_ratio: float | None = None
    ssd_ratio: float | None = None
    joined_ratio: float | None = None
    amplification: float | None = None
    """Bytes fetched for each byte that missed."""


@dataclass(frozen=True, slots=True)
class RuleReads:
    """How the reads under one rule were answered. Counters; `memory`, `ssd`, `joined`, `origin` are bytes sent."""

    rule: str
    """The rule's path pattern, or "default"."""
    requests: int
    memory: int
    ssd: int
    joined: int
    """From a flight that another reader had started, or from another worker, which had it."""
    origin: int
    """From a flight of the reader's own, or around the cache."""
    fetched: int
    """Bytes read from the origin for these reads: more than `origin` where a small range took a whole block."""
    hit_ratio: float | None = field(init=False)
    memory_ratio: float | None = field(init=False)
    ssd_ratio: float | None = field(init=False)
    joined_ratio: float | None = field(init=False)
    amplification: float | None = field(init=False)

    def __post_init__(self) -> None:
        _derive(self, **asdict(hit_ratios([self])))


@dataclass(frozen=True, slots=True)
class TierStats:
    """How full a tier is. Gauges."""

    name: TierName
    state: TierState
    """Failing: operations fail, reads go to the origin instead."""
    capacity: int
    used: int
    blocks: int
    heads: int
    reason: str | None = None
    """Why it is failing: the latest operation that failed, and the system's reason."""
    pinned: int = 0
    """Bytes of these that pins keep; on the SSD only."""

    @classmethod
    def of(cls, name: TierName, state: TierState, occupancy: Occupancy, reason: str | None = None) -> "TierStats":
        """The stats of a tier with this occupancy."""
        return cls(name, state, occupancy.capacity, occupancy.used, occupancy.blocks, occupancy.heads, reason)


@dataclass(frozen=True, slots=True)
class FlightStats:
    """Flights under way. Gauges."""

    in_the_air: int
    waiting: int
    """Readers that wait for a block of a flight, leaders included."""


@dataclass(frozen=True, slots=True)
class JobStats:
    """Warm-up jobs. A gauge."""

    running: int


@dataclass(frozen=True, slots=True)
class BudgetStats:
    """The memory budget of all buffers. `capacity` and `used` are gauges."""

    capacity: int
    used: int
    throttled: int
    """Requests answered 503 SlowDown because it was used up. A counter."""


@dataclass(frozen=True, slots=True)
class OriginStats:
    """An origin and the requests to it. The numbers are counters."""

    endpoint: str
    state: Literal["reachable", "unreachable", "unknown"]
    """Unreachable: the latest probe failed, and nothing came from the origin since. Unknown: no news yet."""
    breaker: Literal["closed", "suspected", "open"]
    requests: int
    failures: int
    retries: int
    bytes_read: int | None
    """None for one of several origins: bytes are counted for all of them together."""
    cause: str | None = None
    """Why the origin can't be reached, e.g. "connection refused". A gauge."""
    unreachable_for: float | None = None
    """Seconds since the first probe that failed. A gauge."""
    credential: CredentialState = "unknown"
    """Whether the origin accepts Forebay's own credential. A gauge."""
    credential_fault: str | None = None
    """While it is refused or missing: which key, and why. A gauge."""
    name: str = DEFAULT_ORIGIN
    """In the configuration."""


@dataclass(frozen=True, slots=True)
class ListingStats:
    """A namespace that is answered from a snapshot (`rules[].listing`). Gauges."""

    bucket: str
    prefix: str
    keys: int
    size: int
    """Bytes of its snapshots, on disk."""
    age: float | None
    """Seconds since the first request of the snapshot that answers; None: it is being listed for the first time."""
    written: int
    """Keys that were written through Forebay since."""
    is_walking: bool
    """Whether it is being listed now."""


@dataclass(frozen=True, slots=True)
class JournalStats:
    """The journal of write-back. Gauges."""

    capacity: int
    used: int
    is_full: bool
    """Above its high water: writes go through."""
    writes: int
    """That are acknowledged and not at the origin."""
    objects: int
    """With such a write."""
    size: int
    """Bytes of the objects that these writes make."""
    stuck: int
    """Writes that the origin has refused for good."""
    conflicts: int
    """Writes of objects that somebody else has written meanwhile."""
    oldest: float
    """The age of the oldest write; 0 if there is none."""
    max_age: float
    """The age that none should reach."""


@dataclass(frozen=True, slots=True)
class Stats:
    """The whole answer, of one worker or of a node."""

    version: str
    uptime: float
    workers: int
    """Workers that should run."""
    workers_alive: int
    requests: RequestStats
    bytes_sent: int
    bytes_received: int
    hits: HitRatios = field(init=False)
    """Of the reads under all rules."""
    reads: tuple[RuleReads, ...]
    tiers: tuple[TierStats, ...]
    flights: FlightStats
    jobs: JobStats
    budget: BudgetStats
    origin: OriginStats
    """Of several origins the sum: their counters together, and the state of the worst."""
    origins: tuple[OriginStats, ...] = ()
    """Each of several origins; empty where there is one."""
    listings: tuple[ListingStats, ...] = ()
    journal: JournalStats | None = None
    """None: no journal is configured."""

    def __post_init__(self) -> None:
        _derive(self, hits=hit_ratios(self.reads))

    @property
    def each_origin(self) -> tuple[OriginStats, ...]:
        """Every origin."""
        return self.origins or (self.origin,)


def hit_ratios(reads: Sequence[RuleReads]) -> HitRatios:
    """The ratios of these reads together."""
    memory, ssd, joined = (sum(getattr(row, source) for row in reads) for source in ("memory", "ssd", "joined"))
    missed = sum(row.origin for row in reads)
    hit = memory + ssd + joined
    sent = hit + missed
    if not sent:
        return HitRatios()
    amplification = sum(row.fetched for row in reads) / missed if missed else None
    return HitRatios(hit / sent, memory / sent, ssd / sent, joined / sent, amplification)


# Sums over workers


def counters_of(stats: Stats) -> Stats:
    """What remains of a worker that has exited: its counters. The gauges are zero."""
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


def _derive(instance: object, **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(instance, name, value)

"""The answer of GET /v1/stats: what a running Forebay has done and how full it is.

A *counter* counts from the start of the process and only grows, so that a reader makes rates of the difference of two
answers (`forebay top` does). A *gauge* is what is now. Sizes are bytes, times are seconds,
ratios 0 to 1, or null where nothing was counted yet.

The field names are the names in the JSON document: a field may be added, none is renamed or dropped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from forebay.core.events import DEFAULT_ORIGIN, CredentialState, TierName
from forebay.storage.tier_contract import Occupancy

TierState = Literal["serving", "failing"]


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
    """The answers to the reads under one rule. Counters; `memory`, `ssd`, `joined`, `origin` are bytes sent."""

    rule: str
    """The rule's path pattern, or "default"."""
    requests: int
    memory: int
    ssd: int
    joined: int
    """Bytes from a flight that another reader had started, or from another worker that had them."""
    origin: int
    """Bytes from a flight of the reader's own, or around the cache."""
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
    """The occupancy of a tier. Gauges."""

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
    """The name in the configuration."""


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
    """The writes that are acknowledged and not at the origin."""
    objects: int
    """The objects with such a write."""
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
    failure: str = ""
    """Why the journal could not be written last; empty if it could."""


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
    """The ratios of the reads under all rules."""
    reads: tuple[RuleReads, ...]
    tiers: tuple[TierStats, ...]
    flights: FlightStats
    jobs: JobStats
    budget: BudgetStats
    origin: OriginStats
    """The origin. If there are several: the sums of their counters, and the state of the worst."""
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


def _derive(instance: object, **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(instance, name, value)

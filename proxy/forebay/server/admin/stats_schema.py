"""The figures of GET /v1/stats: what a running Forebay has done and how full it is.

Counters count from the start of the process and only grow, so that a reader makes rates of the difference of two
answers (`forebay top` does). Figures are sums over all workers. Sizes are bytes, times are seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from forebay.core.events import TierName
from forebay.storage.tier_contract import Occupancy


@dataclass(frozen=True, slots=True)
class RuleReads:
    """How the reads under one rule were answered. `memory`, `ssd`, `joined` and `origin` are bytes sent to clients."""

    rule: str
    """The rule's path pattern, or "default"."""
    requests: int
    memory: int
    ssd: int
    joined: int
    """Came out of a flight that another reader had started, or from another worker, which had it."""
    origin: int
    """Came out of a flight of the reader's own, or around the cache."""
    fetched: int
    """Bytes read from the origin for these reads: more than `origin` where a small range took a whole block."""


@dataclass(frozen=True, slots=True)
class TierStats:
    name: TierName
    state: Literal["serving", "failing"]
    """Failing: operations fail, reads go to the origin instead."""
    occupancy: Occupancy


@dataclass(frozen=True, slots=True)
class FlightStats:
    in_the_air: int
    waiting: int
    """Readers that wait for a block of a flight, leaders included."""


@dataclass(frozen=True, slots=True)
class BudgetStats:
    """The memory budget that every buffer is taken from."""

    capacity: int
    used: int
    throttled: int
    """Requests answered 503 SlowDown because it was used up."""


@dataclass(frozen=True, slots=True)
class OriginStats:
    endpoint: str
    state: Literal["reachable", "unreachable", "unknown"]
    """Unknown: nothing was asked of it yet."""
    breaker: Literal["closed", "open", "half-open"]
    requests: int
    failures: int
    retries: int
    bytes_read: int


@dataclass(frozen=True, slots=True)
class Stats:
    version: str
    uptime: float
    workers: int
    """How many workers are meant to run."""
    workers_alive: int
    requests: Mapping[int, int]
    """HTTP status -> how many requests were answered with it."""
    bytes_sent: int
    bytes_received: int
    reads: tuple[RuleReads, ...]
    tiers: tuple[TierStats, ...]
    flights: FlightStats
    jobs_running: int
    budget: BudgetStats
    origin: OriginStats

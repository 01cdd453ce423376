"""The counters behind metrics: reads under a rule, a histogram of durations, hits of the fast lane. Plain numbers."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from forebay.server.telemetry.metric_table import LATENCY_BUCKETS

_SHORTEST: Final = LATENCY_BUCKETS[0]


@dataclass(slots=True)
class RuleCounts:
    """Reads under one rule. Sizes are bytes."""

    requests: int = 0
    sent: Counter[str] = field(default_factory=Counter)
    """Sent to clients, by source."""
    fetched: int = 0
    """Fetched from the origin into the cache."""
    warmed: int = 0
    """Fetched for warm-up jobs, of these."""


class Histogram:
    """A histogram over LATENCY_BUCKETS, in seconds."""

    __slots__ = ("buckets", "total")

    def __init__(self) -> None:
        self.buckets = [0] * (len(LATENCY_BUCKETS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Counts one value."""
        self.buckets[bisect_left(LATENCY_BUCKETS, seconds)] += 1
        self.total += seconds

    def add_all(self, counts: Sequence[int], total: float) -> None:
        """Adds values that were counted by bucket; `total` is their sum."""
        self.buckets = [mine + more for mine, more in zip(self.buckets, counts, strict=True)]
        self.total += total


class HitCounts:
    """Hits of the fast lane with the same labels. They are folded into the counters when those are read."""

    __slots__ = ("buckets", "count", "seconds", "sent")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Counts from zero. References to this stay in use."""
        self.count = 0
        self.sent = 0
        self.seconds = 0.0
        self.buckets = [0] * (len(LATENCY_BUCKETS) + 1)

    def add(self, sent: int, seconds: float) -> None:
        """Counts a hit: the bytes of its body, and the seconds that it took."""
        self.count += 1
        self.sent += sent
        self.seconds += seconds
        self.buckets[0 if seconds <= _SHORTEST else bisect_left(LATENCY_BUCKETS, seconds)] += 1


class FullLaneCounts(HitCounts):
    """Answered reads of the full lane with the same labels, whose bytes came from one source. Folded like hits."""

    __slots__ = ("first_buckets", "first_seconds")

    def reset(self) -> None:
        """Counts from zero."""
        super().reset()
        self.first_seconds = 0.0
        self.first_buckets = [0] * (len(LATENCY_BUCKETS) + 1)

    def add_read(self, sent: int, first: float, last: float) -> None:
        """Counts a read: the bytes of its body, and the seconds until its first and its last byte."""
        self.count += 1
        self.sent += sent
        self.first_seconds += first
        self.first_buckets[bisect_left(LATENCY_BUCKETS, first)] += 1
        self.seconds += last
        self.buckets[bisect_left(LATENCY_BUCKETS, last)] += 1

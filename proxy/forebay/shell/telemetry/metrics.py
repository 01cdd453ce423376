"""Metrics: the observer of all floors, counting into Prometheus.

Values that are a state (how full, how many) are read when they are asked for; values that are a history are counted as
it happens. Labels are looked up once and kept: on the way of a hit there is a dictionary access and an addition.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import prometheus_client as prometheus
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector

from forebay.shell.telemetry.catalogue import CATALOGUE, LATENCY_BUCKETS
from forebay.story.account import Account
from forebay.words import events
from forebay.words.errors import S3Error


@dataclass(slots=True)
class RuleTally:
    """What came of the reads under one rule. Sizes are bytes."""

    requests: int = 0
    sent: Counter[str] = field(default_factory=Counter)
    """By source."""
    fetched: int = 0
    """From the origin, into the cache."""


Sample = tuple[str, tuple[str, ...], float]
"""A gauge's name, its label values, its value."""


class Metrics:
    """All of them. `observe` is handed to the floors below, `finished` takes each request's account."""

    def __init__(self) -> None:
        self.registry = prometheus.CollectorRegistry()
        self._families: dict[str, Any] = {}
        self._children: dict[tuple[str, tuple[str, ...]], Any] = {}
        self.rules: defaultdict[str, RuleTally] = defaultdict(RuleTally)
        self.statuses: Counter[int] = Counter()
        self.slowed_down = 0
        """Requests that were answered with SlowDown."""
        self.totals: Counter[str] = Counter()
        """Sums of counters over their labels, by name: what the admin port tells without asking Prometheus."""
        for metric in CATALOGUE:
            if metric.kind == "counter":
                self._families[metric.name] = prometheus.Counter(
                    metric.name, metric.meaning, metric.labels, registry=self.registry
                )
            elif metric.kind == "histogram":
                self._families[metric.name] = prometheus.Histogram(
                    metric.name, metric.meaning, metric.labels, registry=self.registry, buckets=LATENCY_BUCKETS
                )

    def add_gauges(self, read: Callable[[], Iterable[Sample]]) -> None:
        """Have `read` asked for the state at each scrape. Every gauge of the catalogue must be among its samples or
        have none to tell."""
        self.registry.register(_Gauges(read))

    def exposition(self) -> bytes:
        """The text that Prometheus scrapes."""
        return prometheus.generate_latest(self.registry)

    def _child(self, name: str, *labels: str) -> Any:
        key = (name, labels)
        child = self._children.get(key)
        if child is None:
            family = self._families[name]
            child = self._children[key] = family.labels(*labels) if labels else family
        return child

    def count(self, name: str, *labels: str, by: float = 1) -> None:
        """Add to a counter of the catalogue."""
        self._child(name, *labels).inc(by)
        self.totals[name] += int(by)

    def finished(self, account: Account) -> None:
        """A request is over."""
        self.count("forebay_requests_total", account.operation, str(account.status), account.lane)
        self.statuses[account.status] += 1
        if account.error:
            self.count("forebay_errors_total", account.error, account.step)
            self.slowed_down += account.error == "SlowDown"
        if account.aborted:
            self.count("forebay_aborted_total")
        for source, size in account.sent_from.items():
            self.count("forebay_sent_bytes_total", source, by=size)
        if account.received:
            self.count("forebay_received_bytes_total", by=account.received)
        if account.cache is not None:
            self.count("forebay_cache_results_total", account.rule, account.cache)
            tally = self.rules[account.rule]
            tally.requests += 1
            tally.sent.update(account.sent_from)
            if account.first_byte:
                self._child("forebay_first_byte_seconds", account.cache).observe(account.first_byte - account.started)
                self._child("forebay_last_byte_seconds", account.cache).observe(account.ended - account.started)

    def refused(self, error: S3Error) -> None:
        """A connection was closed before there was a request."""
        self.count("forebay_refused_total", error.code)

    def observe(self, event: events.Event) -> None:
        """What the floors below tell."""
        match event:
            case events.OriginBytesRead(size, rule):
                self.count("forebay_origin_read_bytes_total", rule, by=size)
                self.rules[rule].fetched += size
            case events.FlightJoined():
                self.count("forebay_flights_joined_total")
            case events.FlightStarted(blocks):
                self.count("forebay_flights_started_total", by=blocks)
            case events.BlockAdmitted(tier, size):
                self.count("forebay_tier_admitted_blocks_total", tier)
                self.count("forebay_tier_admitted_bytes_total", tier, by=size)
            case events.BlocksEvicted(tier, count, size, reason):
                self.count("forebay_tier_evicted_blocks_total", tier, reason, by=count)
                self.count("forebay_tier_evicted_bytes_total", tier, reason, by=size)
            case events.OriginAnswered(operation, status, seconds):
                self.count("forebay_origin_requests_total", operation, str(status))
                self._child("forebay_origin_seconds", operation).observe(seconds)
            case events.OriginFailed(operation, _):
                self.count("forebay_origin_failures_total", operation)
            case events.OriginRetried(operation):
                self.count("forebay_origin_retries_total", operation)
            case events.AdmissionThrottled(tier, _):
                self.count("forebay_tier_throttled_total", tier)
            case events.CorruptionFound(tier, _):
                self.count("forebay_tier_corrupt_total", tier)
            case events.TierFailed(tier, operation, _):
                self.count("forebay_tier_failures_total", tier, operation)

    def amplification(self) -> Iterator[Sample]:
        """Samples of forebay_read_amplification_ratio."""
        for rule, tally in self.rules.items():
            if delivered := tally.sent["flight"]:
                yield "forebay_read_amplification_ratio", (rule,), tally.fetched / delivered


class _Gauges(Collector):
    """Reads the state when Prometheus asks."""

    def __init__(self, read: Callable[[], Iterable[Sample]]) -> None:
        self._read = read
        self._gauges = {metric.name: metric for metric in CATALOGUE if metric.kind == "gauge"}

    def collect(self) -> Iterator[GaugeMetricFamily]:
        families: dict[str, GaugeMetricFamily] = {}
        for name, labels, value in self._read():
            metric = self._gauges[name]
            family = families.setdefault(name, GaugeMetricFamily(name, metric.meaning, labels=metric.labels))
            family.add_metric(labels, value)
        yield from families.values()

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Without this the registry would read the state while it is still being built."""
        return iter(())

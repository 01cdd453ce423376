"""Metrics: counts events and requests, and reads the state of the parts, for Prometheus.

- Counters and histograms are plain numbers, changed as things happen: for a hit or a miss, a few additions to numbers
  of its own, which are folded into the counters when these are read. They are written as text at a scrape
  (forebay.server.telemetry.exposition), in steps. Gauges are read at a scrape.
- Requests and fetches are counted on the event loop only. The SSD tier emits events from threads of its own, so the
  other events take a lock.
- forebay.server.telemetry.metric_table lists all metrics with their meaning.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from threading import Lock
from typing import Final

from prometheus_client import ProcessCollector

from forebay.core import events
from forebay.core.cooperative import CooperativeWork
from forebay.core.errors import S3Error
from forebay.core.request_record import CacheStatus, RequestRecord
from forebay.server.telemetry.exposition import (
    Labels,
    Sample,
    counter_lines,
    family_lines,
    gauge_lines,
    histogram_lines,
    text_of,
)
from forebay.server.telemetry.metric_table import CATALOGUE
from forebay.server.telemetry.request_counts import FullLaneCounts, Histogram, HitCounts, RuleCounts
from forebay.server.telemetry.tier_failures import TierFailures
from forebay.storage.tier_contract import BlockCounts

_READS: Final = frozenset({"GetObject", "HeadObject"})
_GAUGES: Final = {metric.name: metric for metric in CATALOGUE if metric.kind == "gauge"}


class Metrics:
    """All metrics of a worker. `observe` receives the events of the other parts, `record_request` each request."""

    def __init__(
        self, monotonic: Callable[[], float] = time.monotonic, *, origins: Sequence[str] = (events.DEFAULT_ORIGIN,)
    ) -> None:
        """`origins`: their names."""
        self.tier_failures = TierFailures(monotonic)
        self._counters: dict[str, defaultdict[Labels, int]] = {
            metric.name: defaultdict(int) for metric in CATALOGUE if metric.kind == "counter"
        }
        self._histograms: dict[str, defaultdict[Labels, Histogram]] = {
            metric.name: defaultdict(Histogram) for metric in CATALOGUE if metric.kind == "histogram"
        }
        for metric in CATALOGUE:
            for labels in metric.starts:
                for each in [(*labels, origin) for origin in origins] if metric.is_of_origin else [labels]:
                    self._counters[metric.name][each] = 0  # a sample of 0 says more than no sample
        self._rules: defaultdict[str, RuleCounts] = defaultdict(RuleCounts)
        self._hits: dict[tuple[str, int, str, CacheStatus, str], HitCounts] = {}
        self._reads: dict[tuple[str, int, str, CacheStatus, str, str], FullLaneCounts] = {}
        self._block_counts: list[tuple[events.TierName, BlockCounts]] = []
        self._lock = Lock()
        self._fetched = self._counters["forebay_origin_read_bytes_total"]
        self._flights = self._counters["forebay_flights_started_total"]
        self._admitted, self._evicted = self._of_blocks("admitted"), self._of_blocks("evicted")
        self._answers = self._counters["forebay_origin_requests_total"]
        self._answer_times = self._histograms["forebay_origin_seconds"]
        self._process = ProcessCollector(registry=None)
        self._read_states: list[Callable[[], Iterable[Sample]]] = []

    def _of_blocks(self, fate: str) -> tuple[defaultdict[Labels, int], defaultdict[Labels, int]]:
        return self._counters[f"forebay_tier_{fate}_blocks_total"], self._counters[f"forebay_tier_{fate}_bytes_total"]

    def add_gauges(self, read_state: Callable[[], Iterable[Sample]]) -> None:
        """Has `read_state` called at each scrape."""
        self._read_states.append(read_state)

    def add_block_counts(self, tier: events.TierName, counts: BlockCounts) -> None:
        """Adds the tier's own counts of blocks to the counters. The tier belongs to the event loop."""
        self._block_counts.append((tier, counts))

    def exposition(self) -> CooperativeWork[bytes]:
        """The metrics in Prometheus' text format, in steps: between two of them readers are served."""
        return text_of(self._lines())

    def _lines(self) -> Iterator[str]:
        self._fold()
        for metric in CATALOGUE:
            if metric.kind == "counter":
                yield from counter_lines(metric, self._counters[metric.name])
            elif metric.kind == "histogram":
                yield from histogram_lines(metric, self._histograms[metric.name])
        for family in self._process.collect():
            yield from family_lines(family)
        for read_state in self._read_states:
            yield from gauge_lines(_GAUGES, read_state())

    @property
    def counters(self) -> Mapping[str, Mapping[Labels, int]]:
        """The counters, by name and labels."""
        self._fold()
        return self._counters

    @property
    def histograms(self) -> Mapping[str, Mapping[Labels, Histogram]]:
        """The histograms, by name and labels."""
        self._fold()
        return self._histograms

    @property
    def rules(self) -> Mapping[str, RuleCounts]:
        """The reads under each rule, by the rule's name."""
        self._fold()
        return self._rules

    def count(self, name: str, *labels: str, by: int = 1) -> None:
        """Adds to a counter."""
        self._counters[name][labels] += by

    def counter(self, name: str) -> MutableMapping[Labels, int]:
        """Returns a counter by its labels, for counts so frequent that a call would cost. On the event loop only."""
        return self._counters[name]

    def time(self, name: str, seconds: float, *labels: str) -> None:
        """Adds a duration to a histogram."""
        self._histograms[name][labels].add(seconds)

    def histogram(self, name: str, *labels: str) -> Histogram:
        """Returns a histogram for times that another thread than the event loop's measures: one thread at a time."""
        return self._histograms[name][labels]

    def hit_counts(self, operation: str, status: int, rule: str, cache: CacheStatus, principal: str) -> HitCounts:
        """Returns the counts of the fast lane's hits with these labels, which replace `record_request` for them."""
        return self._hits.setdefault((operation, status, rule, cache, principal), HitCounts())

    def _fold(self) -> None:
        """Adds the separate counts to the counters. On the event loop only, as all counts of requests."""
        for (operation, status, rule, cache, principal), hits in self._hits.items():
            if hits.count:
                source = "ssd" if cache == "hit-ssd" else "memory"
                self._fold_reads((operation, str(status), "fast"), rule, cache, principal, source, hits)
                self._histograms["forebay_first_byte_seconds"][(cache,)].add_all(hits.buckets, hits.seconds)
                hits.reset()
        for (operation, status, rule, cache, principal, source), reads in self._reads.items():
            if reads.count:
                self._fold_reads((operation, str(status), "full"), rule, cache, principal, source, reads)
                self._histograms["forebay_first_byte_seconds"][(cache,)].add_all(
                    reads.first_buckets, reads.first_seconds
                )
                reads.reset()
        with self._lock:  # an SSD counts its blocks in threads of its own
            for tier, blocks in self._block_counts:
                self._admitted[0][(tier,)] += blocks.admitted
                self._admitted[1][(tier,)] += blocks.admitted_bytes
                for reason, evicted in blocks.evicted.items():
                    if evicted:
                        self._evicted[0][tier, reason] += evicted
                        self._evicted[1][tier, reason] += blocks.evicted_bytes[reason]
                blocks.reset()

    def _fold_reads(
        self, request: Labels, rule: str, cache: CacheStatus, principal: str, source: str, counts: HitCounts
    ) -> None:
        """Adds all of these reads but the times until their first bytes. `request`: operation, status and lane."""
        self._counters["forebay_requests_total"][request] += counts.count
        self._counters["forebay_cache_results_total"][rule, cache] += counts.count
        self._counters["forebay_key_requests_total"][(principal,)] += counts.count
        self._rules[rule].requests += counts.count
        if counts.sent:
            self._counters["forebay_sent_bytes_total"][(source,)] += counts.sent
            self._counters["forebay_key_sent_bytes_total"][(principal,)] += counts.sent
            self._rules[rule].sent[source] += counts.sent
        self._histograms["forebay_last_byte_seconds"][(cache,)].add_all(counts.buckets, counts.seconds)

    def total(self, name: str, *first: str) -> int:
        """The sum of a counter over all labels, or over those whose first values are `first`."""
        return sum(value for labels, value in list(self.counters[name].items()) if labels[: len(first)] == first)

    def total_of_origin(self, name: str, origin: str) -> int:
        """The sum of a counter whose last label is the origin, over all others."""
        return sum(value for labels, value in list(self.counters[name].items()) if labels[-1] == origin)

    def by_status(self) -> dict[int, int]:
        """The number of requests that were answered with each HTTP status."""
        statuses: Counter[int] = Counter()
        for (_operation, status, _lane), count in list(self.counters["forebay_requests_total"].items()):
            statuses[int(status)] += count
        return dict(statuses)

    def record_request(self, record: RequestRecord) -> None:
        """Counts a finished request."""
        if self._record_read(record):
            return
        counters = self._counters
        counters["forebay_requests_total"][record.operation, str(record.status), "full"] += 1
        if record.error:
            counters["forebay_errors_total"][record.error, record.step] += 1
        if record.aborted:
            counters["forebay_aborted_total"][()] += 1
        principal = (record.principal,)
        counters["forebay_key_requests_total"][principal] += 1
        for source, size in record.sent_from.items():
            counters["forebay_sent_bytes_total"][(source,)] += size
            counters["forebay_key_sent_bytes_total"][principal] += size
        if record.received:
            counters["forebay_received_bytes_total"][()] += record.received
            counters["forebay_key_received_bytes_total"][principal] += record.received
        if record.cache is not None and record.operation in _READS:
            counters["forebay_cache_results_total"][record.rule, record.cache] += 1
            counts = self._rules[record.rule]
            counts.requests += 1
            for source, size in record.sent_from.items():
                counts.sent[source] += size
            if record.first_byte:
                labels = (record.cache,)
                self._histograms["forebay_first_byte_seconds"][labels].add(record.first_byte - record.started)
                self._histograms["forebay_last_byte_seconds"][labels].add(record.ended - record.started)

    def _record_read(self, record: RequestRecord) -> bool:
        """Counts an answered read whose bytes came from one source, like most. False: it is no such read."""
        cache, sent = record.cache, record.sent_from
        if (
            len(sent) != 1
            or cache is None
            or record.operation not in _READS
            or record.error
            or record.aborted
            or record.received
            or not record.first_byte
        ):
            return False
        [source] = sent
        labels = record.operation, record.status, record.rule, cache, record.principal, source
        counts = self._reads.get(labels)
        if counts is None:
            counts = self._reads[labels] = FullLaneCounts()
        started = record.started
        counts.add_read(sent[source], record.first_byte - started, record.ended - started)
        return True

    def record_refusal(self, error: S3Error) -> None:
        """Counts a refusal before there was a request."""
        self.count("forebay_refused_total", error.code)

    def observe(self, event: events.Event) -> None:
        """Counts an event. From any thread, but for the events of fetches, which come from the event loop."""
        # Those of every miss, without patterns, which cost more than the counting, and without the lock.
        if isinstance(event, events.BlockFetched):
            size, rule = event
            self._flights[()] += 1
            if size:
                self._fetched[(rule,)] += size
                self._rules[rule].fetched += size
        elif isinstance(event, events.OriginAnswered):
            operation, status, seconds, origin = event
            self._answers[operation, str(status), origin] += 1
            self._answer_times[(operation,)].add(seconds)
        elif isinstance(event, events.BytesWarmed):
            size, rule = event
            self._rules[rule].warmed += size
        elif isinstance(event, events.OriginBytesRead):
            size, rule = event
            self._fetched[(rule,)] += size
            self._rules[rule].fetched += size
        elif isinstance(event, events.FlightStarted):
            self._flights[()] += event[0]
        else:
            with self._lock:
                self._observe_other(event)

    def _observe_other(self, event: events.Event) -> None:
        match event:
            case events.BlocksAdmitted(tier, blocks, size):
                self._admitted[0][(tier,)] += blocks
                self._admitted[1][(tier,)] += size
            case events.BlocksEvicted(tier, blocks, size, reason):
                self._evicted[0][tier, reason] += blocks
                self._evicted[1][tier, reason] += size
            case events.FlightJoined():
                self.count("forebay_flights_joined_total")
            case events.OwnerMissed():
                self.count("forebay_owner_missed_total")
            case events.OriginFailed(operation, _, origin):
                self.count("forebay_origin_failures_total", operation, origin)
            case events.HeadContradicted():
                self.count("forebay_heads_contradicted_total")
            case events.OriginRefusedCredential(code):
                self.count("forebay_origin_credential_refusals_total", code)
            case events.OriginRetried(operation, origin):
                self.count("forebay_origin_retries_total", operation, origin)
            case events.HedgeEnded(result):
                self.count("forebay_origin_hedges_total", result)
            case events.SlowResponse(action):
                self.count("forebay_origin_slow_responses_total", action)
            case events.AdmissionThrottled(tier, _):
                self.count("forebay_tier_throttled_total", tier)
            case events.AdmissionRefused(tier, size):
                self.count("forebay_tier_refused_blocks_total", tier)
                self.count("forebay_tier_refused_bytes_total", tier, by=size)
            case events.CorruptionFound(tier, _):
                self.count("forebay_tier_corrupt_total", tier)
            case events.ListingAnswered(source):
                self.count("forebay_listings_total", source)
            case events.SnapshotEnded(result):
                self.count("forebay_listing_snapshots_total", result)
            case events.HeadsCompared(dropped):
                self.count("forebay_listing_dropped_heads_total", by=dropped)
            case events.PacksRefreshed(result):
                self.count("forebay_pack_refreshes_total", result)
            case events.BatchEntriesAnswered(rule, cache, status, entries, sent):
                self.count("forebay_batch_entries_total", str(status), by=entries)
                if cache is not None:
                    self.count("forebay_cache_results_total", rule, cache, by=entries)
                    self._rules[rule].requests += entries
                    self._rules[rule].sent.update(sent)
            case events.HeadVouched():
                self.count("forebay_listing_vouched_heads_total")
            case events.TierFailed(tier, operation, _):
                self.count("forebay_tier_failures_total", tier, operation)
                self.tier_failures.record(event)

    def amplification_samples(self) -> Iterator[Sample]:
        """The samples of forebay_read_amplification_ratio."""
        self._fold()
        for rule, counts in list(self._rules.items()):
            if delivered := counts.sent["flight"]:
                yield "forebay_read_amplification_ratio", (rule,), (counts.fetched - counts.warmed) / delivered

"""The table of all metrics. docs/metrics.md is checked against it; no metric is made elsewhere."""

from dataclasses import dataclass
from typing import Final, Literal

LATENCY_BUCKETS: Final = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `name` is the exported one, counters with their `_total`."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    meaning: str


def _counter(name: str, labels: str, meaning: str) -> Metric:
    return Metric(name, "counter", tuple(labels.split()), meaning)


def _gauge(name: str, labels: str, meaning: str) -> Metric:
    return Metric(name, "gauge", tuple(labels.split()), meaning)


def _histogram(name: str, labels: str, meaning: str) -> Metric:
    return Metric(name, "histogram", tuple(labels.split()), meaning)


CATALOGUE: Final = (
    # What clients asked and got.
    _counter(
        "forebay_requests_total",
        "operation status lane",
        "Requests that were answered, by S3 operation, HTTP status and lane (fast: answered at once from a tier; "
        "full: everything else).",
    ),
    _counter("forebay_errors_total", "code step", "Errors of Forebay's own, by S3 code and the step that raised them."),
    _counter("forebay_aborted_total", "", "Requests whose connection broke before the answer was complete."),
    _counter("forebay_refused_total", "code", "Connections refused or closed before there was a request, by S3 code."),
    _counter(
        "forebay_sent_bytes_total",
        "source",
        "Body bytes sent to clients, by where they came from: memory, ssd, flight (fetched for this reader), "
        "joined (fetched for another), worker (another worker had them), origin (passed on).",
    ),
    _counter("forebay_received_bytes_total", "", "Body bytes received from clients."),
    _counter(
        "forebay_cache_results_total",
        "rule cache",
        "Object reads by the rule they came under and what x-forebay-cache said. The hit ratio of a rule is "
        "hit-memory, hit-ssd, hit-worker and revalidated over all but bypass.",
    ),
    _histogram("forebay_first_byte_seconds", "cache", "From a request's head to the first byte of its answer."),
    _histogram("forebay_last_byte_seconds", "cache", "From a request's head to the last byte of its answer."),
    _gauge("forebay_workers", "", "Workers that run."),
    _counter("forebay_worker_restarts_total", "", "Workers that were started again because they had ended."),
    _counter(
        "forebay_owner_missed_total",
        "",
        "Questions of a worker to the one that owns an object which that did not answer, as it had ended or hung: "
        "the origin was asked instead.",
    ),
    _gauge("forebay_connections", "", "Connections of clients that are open."),
    _gauge("forebay_requests_in_flight", "", "Requests that are being answered."),
    # The origin.
    _counter("forebay_origin_requests_total", "operation status", "Requests that the origin answered, each attempt."),
    _histogram("forebay_origin_seconds", "operation", "From a request to the head of the origin's answer."),
    _counter("forebay_origin_failures_total", "operation", "Attempts that got no answer, or a broken one."),
    _counter("forebay_origin_retries_total", "operation", "Attempts that were made again."),
    _gauge("forebay_origin_reachable", "", "1 if the origin answered when it was last asked whether it is there."),
    _counter("forebay_origin_read_bytes_total", "rule", "Object bytes fetched from the origin into the cache."),
    _gauge(
        "forebay_read_amplification_ratio",
        "rule",
        "Bytes fetched from the origin for readers over those sent to them from these fetches. 1 is ideal; much above "
        "it, blocks are too large for the reads.",
    ),
    # Flights.
    _gauge("forebay_flights", "", "Blocks on their way from the origin, or landed and still being sent."),
    _counter("forebay_flights_started_total", "", "Blocks that were asked of the origin."),
    _counter("forebay_flights_joined_total", "", "Times a reader found its block on its way already."),
    _gauge("forebay_buffer_capacity_bytes", "", "The memory budget for blocks on their way."),
    _gauge("forebay_buffer_used_bytes", "", "How much of it is taken."),
    _gauge("forebay_held_bytes", "", "Small parts and bodies of unknown length that are held, in memory and in files."),
    _gauge("forebay_buffer_waiting", "", "Fetches that wait for some of it."),
    # The tiers.
    _gauge("forebay_tier_capacity_bytes", "tier", "How many bytes a tier may hold."),
    _gauge("forebay_tier_used_bytes", "tier", "How many bytes it holds."),
    _gauge("forebay_tier_blocks", "tier", "How many blocks it holds."),
    _gauge("forebay_tier_heads", "tier", "How many objects it knows the head of."),
    _counter("forebay_tier_admitted_blocks_total", "tier", "Blocks that were admitted."),
    _counter("forebay_tier_admitted_bytes_total", "tier", "Bytes of blocks that were admitted."),
    _counter("forebay_tier_evicted_blocks_total", "tier reason", "Blocks that had to leave: capacity, or a resize."),
    _counter("forebay_tier_evicted_bytes_total", "tier reason", "Their bytes."),
    _counter("forebay_tier_throttled_total", "tier", "Blocks that were not kept because the tier could not keep up."),
    _counter("forebay_tier_corrupt_total", "tier", "Records that were not what they should be. Each was a miss."),
    _counter("forebay_tier_failures_total", "tier operation", "Operations of a tier that failed (disk full, EIO)."),
    # The process.
    _counter("forebay_warm_objects_total", "result", "Objects that warm-up jobs came to: warmed, failed."),
    _counter("forebay_reloads_total", "result", "Configurations that were applied, or refused."),
    _counter("forebay_certificate_renewals_total", "", "TLS certificates that were read again and are shown now."),
    _counter("forebay_certificate_refusals_total", "", "TLS certificates that were read again and can't be used."),
    _gauge("forebay_info", "version", "Always 1; the version is in the label."),
)  # fmt: skip

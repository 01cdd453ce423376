"""The table of all metrics. docs/metrics.md is checked against it; no metric is made elsewhere."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Final, Literal, get_args

from forebay.core.request_record import CacheStatus, Step

LATENCY_BUCKETS: Final = (
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `name` is the exported one, counters with their `_total`."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    meaning: str
    starts: tuple[tuple[str, ...], ...] = ()
    """The label sets that are 0 from the start. Prometheus sees no increase in a series that begins at 1, so a counter
    of an alert has all those here that the alert may need. Without the label `origin`: the settings have its values."""

    @property
    def is_of_origin(self) -> bool:
        """Whether its last label is the origin."""
        return self.labels[-1:] == ("origin",)


def _counter(name: str, labels: str, meaning: str, *starts: Iterable[str]) -> Metric:
    """`starts`: the values of each label whose combinations are 0 from the start."""
    known = tuple(product(*starts)) if starts or not labels else ()
    return Metric(name, "counter", tuple(labels.split()), meaning, known)


def _gauge(name: str, labels: str, meaning: str) -> Metric:
    return Metric(name, "gauge", tuple(labels.split()), meaning)


def _histogram(name: str, labels: str, meaning: str) -> Metric:
    return Metric(name, "histogram", tuple(labels.split()), meaning)


TIER_OPERATIONS: Final = (
    "open",
    "write",
    "read",
    "reclaim",
    "head",
    "has",
    "forget",
    "occupancy",
    "measure",
    "sweep",
    "rescan",
    "disown",
    "close",
)
"""The operations of forebay.core.events.TierFailed."""
_TIERS: Final = ("memory", "ssd")
_OPERATIONS: Final = ("GetObject", "HeadObject", "PutObject", "DeleteObject", "ListObjects", "ListObjectsV2")
"""The operations whose series begin at 0, for the alerts on the origin."""

CATALOGUE: Final = (
    # What clients asked and got.
    _counter(
        "forebay_requests_total",
        "operation status lane",
        "Requests, by S3 operation, HTTP status (0: the client left before a response began) and lane (fast: answered "
        "at once from a tier; full: everything else).",
    ),
    _counter("forebay_errors_total", "code step", "Errors of Forebay's own, by S3 code and the step that raised them.",
             ("InternalError", "SlowDown", "ServiceUnavailable"), get_args(Step)),
    _counter("forebay_aborted_total", "", "Requests whose connection broke before the response was complete."),
    _counter("forebay_refused_total", "code", "Connections refused or closed before there was a request, by S3 code.",
             ("SlowDown", "BadRequest", "RequestTimeout")),
    _counter(
        "forebay_socket_reads_total",
        "form",
        "Reads over channels of the Unix socket, by how the body went: inline (through the socket), ring (a copy in "
        "the client's ring), memory or segment (a descriptor of a memory file or of an SSD segment), batch (a whole "
        "batch), declined (for plain HTTP).",
        ("inline", "ring", "memory", "segment", "batch", "declined"),
    ),
    _gauge("forebay_socket_channels", "", "Open channels of the Unix socket."),
    _gauge("forebay_socket_ring_bytes", "", "Bytes of memory in the rings of clients."),
    _gauge("forebay_socket_file_bytes", "", "Bytes of memory files that clients have descriptors of."),
    _counter(
        "forebay_sent_bytes_total",
        "source",
        "Body bytes sent to clients, by source: memory, ssd, flight (fetched for this reader), joined"
        " (fetched for another reader), worker (from another worker), origin (forwarded).",
    ),
    _counter(
        "forebay_batch_entries_total",
        "status",
        "Entries of batches, by the status that a GET of each would have had. They count as object reads in "
        "forebay_cache_results_total; the batch is one request.",
        ("200", "206", "403", "404", "503"),
    ),
    _counter("forebay_received_bytes_total", "", "Body bytes received from clients."),
    _counter(
        "forebay_cache_results_total",
        "rule cache",
        "Object reads, by rule and by the value of x-forebay-cache. The hit ratio of a rule is "
        "hit-memory, hit-ssd, hit-worker and revalidated over all but bypass.",
        ("default",), get_args(CacheStatus),
    ),
    _counter(
        "forebay_key_requests_total",
        "principal",
        "Requests by the access key whose signature was verified; empty for refused and unsigned ones.",
    ),
    _counter("forebay_key_sent_bytes_total", "principal", "Body bytes sent to clients, by access key."),
    _counter("forebay_key_received_bytes_total", "principal", "Body bytes received from clients, by access key."),
    _histogram("forebay_first_byte_seconds", "cache", "From a request's head to the first byte of its response."),
    _histogram("forebay_last_byte_seconds", "cache", "From a request's head to the last byte of its response."),
    _gauge("forebay_workers", "", "Running workers."),
    _counter("forebay_worker_restarts_total", "", "Restarts of workers that had ended."),
    _counter(
        "forebay_owner_missed_total",
        "",
        "Calls to the owner of an object that failed because the owner had ended or hung; the request"
        " went to the origin.",
    ),
    _counter(
        "forebay_reads_dropped_total",
        "",
        "Reads that plans, recordings and statistics have not seen, because the worker that collects them was busy or"
        " away for too long.",
    ),
    _counter("forebay_recording_recorded_total", "", "Reads that were recorded."),
    _counter(
        "forebay_recording_dropped_total",
        "",
        "Reads that are missing in recordings: the disk was too slow, `limits.recordings` is used up, or they were"
        " dropped before (`forebay_reads_dropped_total`).",
    ),
    _counter("forebay_recording_followed_total", "", "Recordings that readers were recognised to go along."),
    _counter("forebay_recording_parted_total", "", "Followed recordings that their reader has parted from."),
    _gauge("forebay_recordings", "", "Recordings, the automatic ones included."),
    _gauge("forebay_recording_bytes", "", "Bytes of all recordings."),
    _gauge("forebay_recordings_following", "", "Recordings that are followed now."),
    _gauge("forebay_connections", "", "Open client connections."),
    _gauge("forebay_requests_in_flight", "", "Requests in flight."),
    # The origin.
    _counter("forebay_origin_requests_total", "operation status origin",
             "Responses of the origin, each attempt counted.",
             _OPERATIONS, ("200", "403", "500", "503")),
    _histogram("forebay_origin_seconds", "operation", "From a request to the head of the origin's response."),
    _counter("forebay_origin_failures_total", "operation origin", "Attempts without a response, or with a broken one.",
             _OPERATIONS),
    _counter("forebay_heads_contradicted_total", "", "Responses that gave a known version another size."),
    _counter("forebay_origin_retries_total", "operation origin", "Further attempts of a request."),
    _counter(
        "forebay_origin_hedges_total",
        "result",
        "Late reads that were sent to the origin a second time, by result: won (the second response was used), lost "
        "(the first one was), failed (no usable second response).",
    ),
    _counter(
        "forebay_origin_slow_responses_total",
        "action",
        "Responses that were slower than origin.min_rate, by action: replaced (by another one), kept (no other was to "
        "be had, or it recovered), ended (nobody waited for its blocks).",
    ),
    _gauge(
        "forebay_origin_reachable",
        "origin",
        "1 if the origin has responded, and no probe of it has failed since.",
    ),
    _gauge(
        "forebay_origin_credential_refused",
        "origin",
        "1 while the origin refuses Forebay's own credential, or there is none to be found.",
    ),
    _counter(
        "forebay_origin_credential_refusals_total",
        "code",
        "Requests whose credential the origin refused, Forebay's own or that of a key of auth.keys, by S3 code.",
    ),
    _gauge(
        "forebay_origin_breaker_open",
        "origin",
        "1 while the breaker is open: requests to the origin fail at once.",
    ),
    _counter("forebay_origin_read_bytes_total", "rule", "Object bytes fetched from the origin into the cache."),
    _gauge(
        "forebay_read_amplification_ratio",
        "rule",
        "Bytes fetched from the origin for readers over the bytes sent to them from these fetches. 1 "
        "is ideal; far above it, blocks are too large for the reads.",
    ),
    # Flights.
    _gauge("forebay_flights", "", "Blocks on their way from the origin, or landed and not yet sent."),
    _gauge("forebay_flight_oldest_seconds", "", "Age of the oldest flight whose bytes have not all come; 0 for none."),
    _gauge("forebay_flight_readers", "", "Readers and jobs that wait for blocks of flights, or send them."),
    _counter("forebay_flights_started_total", "", "Blocks requested from the origin."),
    _counter("forebay_flights_joined_total", "", "Reads that joined a flight in progress."),
    _gauge("forebay_buffer_capacity_bytes", "", "The buffer budget for blocks in flight."),
    _gauge("forebay_buffer_used_bytes", "", "Bytes of the buffer budget in use."),
    _gauge("forebay_held_bytes", "", "Bytes of spooled bodies, in memory and in files."),
    _gauge("forebay_buffer_waiting", "", "Fetches that wait for the buffer budget."),
    # The journal.
    _gauge("forebay_journal_capacity_bytes", "", "The size of the journal, `journal.size`."),
    _gauge("forebay_journal_used_bytes", "", "Bytes of the journal's files."),
    _gauge("forebay_journal_writes", "", "Writes that are acknowledged and not yet at the origin."),
    _gauge("forebay_journal_objects", "", "Objects with such a write."),
    _gauge("forebay_journal_pending_bytes", "", "Bytes of the objects that these writes make: the backlog."),
    _gauge("forebay_journal_oldest_seconds", "", "The age of the oldest of these writes; 0 if there is none."),
    _gauge("forebay_journal_max_age_seconds", "", "The age that none of them should reach, `journal.max_age`."),
    _gauge("forebay_journal_stuck", "", "Those of them that the origin has refused for good."),
    _gauge("forebay_journal_conflicts", "", "Those of them whose objects somebody else has written meanwhile."),
    _gauge("forebay_journal_waiting", "", "Those of them that wait for another one to be at the origin first."),
    _gauge(
        "forebay_journal_unsettled",
        "",
        "Those of them that the origin has and the journal can't note, as its file system is read-only or full: what "
        "comes after them of their objects waits.",
    ),
    _gauge("forebay_journal_failing", "", "1 if the journal could not be written, and has not been since."),
    _gauge("forebay_journal_uploads", "", "Multipart uploads of the journal that are neither completed nor aborted."),
    _gauge("forebay_journal_upload_bytes", "", "Bytes of their parts."),
    _counter("forebay_journal_expired_uploads_total", "", "Those of them that were aborted, as no part came any more."),
    _counter("forebay_journal_moved_uploads_total", "", "Those that had no room, and went on at the origin."),
    _counter("forebay_journal_damaged_parts_total", "", "Their parts that were damaged in the journal, and lost."),
    _counter(
        "forebay_journal_writes_total",
        "result",
        "Writes under a `back` rule that were acknowledged from the journal (accepted), or carried out at the origin "
        "first (through), and accepted ones that the origin has got since (persisted), has refused for good (stuck), "
        "or that somebody else was before (conflict).",
        ("accepted", "through", "persisted", "stuck", "conflict"),
    ),
    _counter(
        "forebay_journal_bytes_total",
        "result",
        "Bytes of these writes. `accepted` and `through` are those that clients sent, the others those of whole "
        "objects.",
        ("accepted", "through", "persisted", "stuck", "conflict"),
    ),
    _counter(
        "forebay_journal_full_seconds_total",
        "",
        "Seconds for which the journal was above its high water, so that writes went through.",
    ),
    _histogram("forebay_journal_sync_seconds", "", "One fdatasync of the journal: of records, or of a body."),
    # Blocks fetched ahead.
    _gauge("forebay_ahead_capacity_bytes", "", "The budget of blocks fetched ahead of their readers."),
    _gauge("forebay_ahead_used_bytes", "", "Bytes of that budget in use: of blocks that no reader has used yet."),
    _counter(
        "forebay_ahead_bytes_total",
        "result",
        "Bytes fetched ahead of readers (fetched), and of these the bytes that were read (used) or given up unread "
        "(useless).",
        ("fetched", "used", "useless"),
    ),
    _gauge("forebay_plans", "state", "Plans that run or wait, by state: queued, running or idle."),
    _counter(
        "forebay_plans_displaced_total",
        "",
        "Plans that gave their slot to one of an access key with fewer plans, as all slots were taken.",
    ),
    _gauge("forebay_plan_lead_bytes", "", "Bytes that plans have fetched, or are fetching, and nobody has read."),
    _gauge("forebay_plan_lead_seconds", "", "The shortest lead of a running plan, at the pace of its reader."),
    _counter(
        "forebay_plan_entries_total",
        "result",
        "Entries of plans, by result: ready (here when it was read), late (its read waited for the origin), given_up "
        "(the reader left it out), failed (could not be fetched), dropped (the sender may not read it).",
        ("ready", "late", "given_up", "failed", "dropped"),
    ),
    _counter("forebay_plan_blocks_total", "", "Blocks that were fetched from the origin for plans."),
    _counter(
        "forebay_plan_bytes_total",
        "result",
        "Bytes of these blocks (fetched), and of these the bytes that were dropped unread (useless).",
        ("fetched", "useless"),
    ),
    # The tiers.
    _gauge("forebay_tier_capacity_bytes", "tier", "Capacity of a tier."),
    _gauge("forebay_tier_used_bytes", "tier", "Bytes in use in a tier."),
    _gauge("forebay_tier_pool_bytes", "tier pool", "Bytes of a pool in a tier, by the path of its rule; on the SSD "
           "also of objects without a pool, under an empty one."),
    _gauge("forebay_tier_pinned_bytes", "tier", "Bytes that pins keep in a tier; on the SSD only."),
    _gauge("forebay_tier_pin_quota_bytes", "tier", "Bytes of a tier that pins may take; of the SSD only."),
    _gauge("forebay_tier_blocks", "tier", "Blocks in a tier."),
    _gauge("forebay_tier_heads", "tier", "Object heads in a tier."),
    _counter("forebay_tier_admitted_blocks_total", "tier", "Blocks admitted to a tier."),
    _counter("forebay_tier_admitted_bytes_total", "tier", "Bytes of blocks admitted to a tier."),
    _counter("forebay_tier_evicted_blocks_total", "tier reason", "Blocks evicted, by reason: capacity or resize."),
    _counter("forebay_tier_evicted_bytes_total", "tier reason", "Bytes of evicted blocks."),
    _counter("forebay_tier_throttled_total", "tier", "Blocks not admitted because the tier could not keep up.", _TIERS),
    _counter("forebay_tier_refused_blocks_total", "tier", "Blocks not admitted: not part of their rule's stable share.",
             _TIERS),
    _counter("forebay_tier_refused_bytes_total", "tier", "Bytes of blocks that were refused.", _TIERS),
    _counter("forebay_tier_corrupt_total", "tier", "Damaged records found. Each was a miss.", _TIERS),
    _counter("forebay_tier_failures_total", "tier operation", "Operations of a tier that failed (disk full, EIO).",
             ("ssd",), TIER_OPERATIONS),
    _gauge("forebay_tier_failing", "tier", "1 while a tier fails: it is not open, or failed within two minutes."),
    _gauge("forebay_tier_disk_free_bytes", "tier", "Free bytes of the file system of a tier."),
    _gauge("forebay_tier_disk_size_bytes", "tier", "Size of the file system of a tier."),
    # Listings.
    _counter(
        "forebay_listings_total",
        "source",
        "Listings that the rules let be answered here, by source: hit-ssd (a snapshot), partial (written keys were "
        "looked up for it), miss (while the namespace was listed), passed_on (to the origin).",
        ("hit-ssd", "partial", "miss", "passed_on"),
    ),
    _counter(
        "forebay_listing_snapshots_total",
        "result",
        "Namespaces that were listed, by result: complete, failed, or damaged (found later).",
        ("complete", "failed", "damaged"),
    ),
    _counter(
        "forebay_pack_refreshes_total",
        "result",
        "Looks at the packs of a rule and the objects beside them, by result: complete, or failed (reads of members "
        "are refused meanwhile).",
        ("complete", "failed"),
    ),
    _gauge("forebay_pack_members", "", "Members of the packs that are in use, over all rules and buckets."),
    _gauge("forebay_pack_index_bytes", "", "Bytes of memory that the tables of their indexes take."),
    _counter("forebay_listing_vouched_heads_total", "", "Stale heads that a listing confirmed, without a request."),
    _counter(
        "forebay_listing_dropped_heads_total",
        "",
        "Cached heads that were dropped because a new listing has another entry of their object, or none.",
    ),
    _gauge("forebay_listing_namespaces", "", "Namespaces with a snapshot."),
    _gauge("forebay_listing_keys", "", "Keys of all snapshots."),
    _gauge("forebay_listing_bytes", "", "Bytes of all snapshots, on disk."),
    _gauge("forebay_listing_age_seconds", "", "Age of the oldest snapshot, from its first request; 0 for none."),
    # The process.
    _counter("forebay_warm_objects_total", "result", "Objects of warm-up jobs, by result: warmed or failed.",
             ("warmed", "failed")),
    _gauge("forebay_jobs", "state", "Warm-up jobs, by state: queued, running; of the latest: done, failed, cancelled."),
    _gauge("forebay_ready", "", "1 while /readyz says that every request can be served."),
    _counter("forebay_reloads_total", "result", "Reloads of the configuration, by result: applied or refused.",
             ("applied", "refused")),
    _counter("forebay_certificate_renewals_total", "", "Renewed TLS certificates that are in use."),
    _counter("forebay_certificate_refusals_total", "", "Renewed TLS certificates that could not be used."),
    _gauge("forebay_info", "version", "Always 1; the version is in the label."),
)  # fmt: skip

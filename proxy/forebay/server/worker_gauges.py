"""The gauges of one worker, read from its parts at each scrape. forebay.server.telemetry.metric_table has their
meaning.
"""

import time
from collections import Counter
from collections.abc import Iterator
from typing import get_args

import forebay_client
from forebay.core.plan_progress import LIVE_STATES
from forebay.jobs.state.warm_up_job import JobState
from forebay.server.admin.worker.worker_control import WorkerControl
from forebay.server.composition import Parts
from forebay.server.http.listener import Listener
from forebay.server.shared_memory.client_memory import ClientMemory
from forebay.server.telemetry.exposition import Sample


class WorkerGauges:
    """Reads the gauges of a running worker."""

    def __init__(self, parts: Parts, listener: Listener, client_memory: ClientMemory, control: WorkerControl) -> None:
        self._parts = parts
        self._listener = listener
        self._client_memory = client_memory
        self._control = control

    def samples(self) -> Iterator[Sample]:
        """A sample of each gauge, as they are now."""
        yield "forebay_info", (forebay_client.__version__,), 1
        yield "forebay_workers", (), 1
        yield "forebay_ready", (), float(self._control.ready())
        yield from self._connections()
        yield from self._origins()
        yield from self._flights()
        yield from self._namespaces()
        yield from self._jobs()
        yield from self._journal()
        yield from self._buffers()
        yield from self._tiers()
        yield from self._parts.context.metrics.amplification_samples()

    def _connections(self) -> Iterator[Sample]:
        yield "forebay_connections", (), self._listener.connections
        yield "forebay_requests_in_flight", (), self._listener.requests.in_flight
        yield "forebay_socket_channels", (), len(self._client_memory.channels)
        yield "forebay_socket_ring_bytes", (), self._parts.storage.rings.in_use
        yield "forebay_socket_file_bytes", (), self._client_memory.files.size

    def _origins(self) -> Iterator[Sample]:
        for origin in self._parts.origins:
            client = origin.client
            yield "forebay_origin_reachable", (client.name,), float(client.breaker.reachable is True)
            yield "forebay_origin_breaker_open", (client.name,), float(not client.breaker.admit())
            yield "forebay_origin_credential_refused", (client.name,), float(client.credential_check.fault is not None)

    def _flights(self) -> Iterator[Sample]:
        flights = self._parts.fetch.flights
        yield "forebay_flights", (), len(flights)
        yield "forebay_flight_oldest_seconds", (), flights.oldest_age(time.monotonic())
        yield "forebay_flight_readers", (), flights.followers

    def _namespaces(self) -> Iterator[Sample]:
        views = [*self._parts.namespaces.catalogue.views()]
        yield "forebay_pack_members", (), sum(view.members for view in views)
        yield "forebay_pack_index_bytes", (), sum(view.resident_bytes for view in views)
        namespaces = self._parts.namespaces.listings.snapshots.states()
        yield "forebay_listing_namespaces", (), len(namespaces)
        yield "forebay_listing_keys", (), sum(each.keys for each in namespaces)
        yield "forebay_listing_bytes", (), sum(each.size for each in namespaces)
        yield "forebay_listing_age_seconds", (), max((each.age or 0.0 for each in namespaces), default=0.0)

    def _jobs(self) -> Iterator[Sample]:
        jobs = Counter(job.state for job in self._parts.jobs.warm_ups.jobs())
        for state in get_args(JobState):
            yield "forebay_jobs", (state,), jobs[state]
        if (kept := self._parts.jobs.kept_recordings) is not None:
            yield "forebay_recordings", (), len(kept.catalogue.recordings)
            yield "forebay_recording_bytes", (), kept.catalogue.file_size
            yield "forebay_recordings_following", (), kept.follower.running
        coordinator = self._parts.jobs.plans.coordinator
        plans = Counter(plan.state for plan in coordinator.plans())
        for state in LIVE_STATES:
            yield "forebay_plans", (state,), plans[state]
        lead_bytes, lead_seconds = coordinator.lead()
        yield "forebay_plan_lead_bytes", (), lead_bytes
        yield "forebay_plan_lead_seconds", (), lead_seconds

    def _journal(self) -> Iterator[Sample]:
        if (write_back := self._parts.writes.write_back) is None:
            return
        backlog = write_back.backlog
        yield "forebay_journal_capacity_bytes", (), write_back.room.size
        yield "forebay_journal_used_bytes", (), write_back.room.used
        yield "forebay_journal_writes", (), backlog.writes
        yield "forebay_journal_objects", (), backlog.objects
        yield "forebay_journal_pending_bytes", (), backlog.size
        yield "forebay_journal_oldest_seconds", (), backlog.age
        yield "forebay_journal_max_age_seconds", (), write_back.max_age
        yield "forebay_journal_stuck", (), backlog.stuck
        yield "forebay_journal_conflicts", (), backlog.conflicts
        yield "forebay_journal_waiting", (), write_back.drainer.waiting
        yield "forebay_journal_unsettled", (), len(write_back.shown.unsettled)
        yield "forebay_journal_failing", (), bool(write_back.failure)
        yield "forebay_journal_uploads", (), len(write_back.uploads.by_id)
        yield "forebay_journal_upload_bytes", (), sum(each.size for each in write_back.uploads.by_id.values())

    def _buffers(self) -> Iterator[Sample]:
        budget, ahead = self._parts.storage.budget, self._parts.storage.tiers.memory.ahead.budget
        yield "forebay_buffer_capacity_bytes", (), budget.capacity
        yield "forebay_buffer_used_bytes", (), budget.in_use
        yield "forebay_buffer_waiting", (), budget.waiting
        yield "forebay_held_bytes", (), self._parts.storage.spool.in_use + self._parts.storage.upload_starts.in_use
        yield "forebay_ahead_capacity_bytes", (), ahead.capacity
        yield "forebay_ahead_used_bytes", (), ahead.in_use

    def _tiers(self) -> Iterator[Sample]:
        memory, ssd = self._parts.storage.tiers.memory, self._parts.storage.tiers.ssd
        occupancies = {"memory": memory.occupancy()}
        if ssd is not None:
            occupancies["ssd"] = ssd.occupancy()
            yield "forebay_tier_disk_free_bytes", ("ssd",), ssd.disk.free
            yield "forebay_tier_disk_size_bytes", ("ssd",), ssd.disk.size
            for pool in ssd.pools():
                yield "forebay_tier_pool_bytes", ("ssd", pool.name), pool.used
            yield "forebay_tier_pinned_bytes", ("ssd",), sum(ssd.pins.used_by().values())
            yield "forebay_tier_pin_quota_bytes", ("ssd",), ssd.pins.quota
        for share in list(memory.pooled.pools()):
            yield "forebay_tier_pool_bytes", ("memory", share.pool.name), share.used
        for stats in self._control.tiers():
            yield "forebay_tier_failing", (stats.name,), float(stats.state == "failing")
        for tier, occupancy in occupancies.items():
            yield "forebay_tier_capacity_bytes", (tier,), occupancy.capacity
            yield "forebay_tier_used_bytes", (tier,), occupancy.used
            yield "forebay_tier_blocks", (tier,), occupancy.blocks
            yield "forebay_tier_heads", (tier,), occupancy.heads

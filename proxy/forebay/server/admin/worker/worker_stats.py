"""The stats of one worker: the counts and gauges of its parts, for the admin port."""

import time
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

import forebay_client
from forebay.core.events import DEFAULT_ORIGIN
from forebay.origin.origin_client import OriginClient
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
    TierState,
    TierStats,
)
from forebay.server.admin.schema.stats_sum import add_origins
from forebay.server.admin.worker.worker_pins import WorkerPins
from forebay.server.composition import Parts
from forebay.server.telemetry.request_counts import RuleCounts
from forebay.settings.model import Settings

if TYPE_CHECKING:  # only with an SSD tier
    from forebay.server.ssd_attachment import SsdAttachment


class WorkerStats:
    """Reads the stats of a running worker."""

    def __init__(self, parts: Parts, pins: WorkerPins) -> None:
        self._parts = parts
        self._pins = pins
        self._started = time.monotonic()

    def of(self, settings: Settings) -> Stats:
        """Returns the stats. `settings`: those in force."""
        parts, metrics, budget = self._parts, self._parts.context.metrics, self._parts.storage.budget
        return Stats(
            version=forebay_client.__version__,
            uptime=time.monotonic() - self._started,
            workers=1,
            workers_alive=1,
            requests=RequestStats({str(status): count for status, count in metrics.by_status().items()}),
            bytes_sent=metrics.total("forebay_sent_bytes_total"),
            bytes_received=metrics.total("forebay_received_bytes_total"),
            reads=tuple(_rule_reads(rule, counts) for rule, counts in metrics.rules.items() if rule),
            tiers=tuple(self.tiers()),
            flights=FlightStats(len(parts.fetch.flights), parts.fetch.flights.followers),
            jobs=JobStats(parts.jobs.warm_ups.running),
            budget=BudgetStats(budget.capacity, budget.in_use, metrics.total("forebay_errors_total", "SlowDown")),
            origin=self._origin(settings),
            origins=self.each_origin(settings) if len(self._parts.origins) > 1 else (),
            listings=tuple(ListingStats(*state) for state in parts.namespaces.listings.snapshots.states()),
            journal=self.journal(),
        )

    def journal(self) -> JournalStats | None:
        """The stats of the journal; None: none is configured."""
        write_back = self._parts.writes.write_back
        if write_back is None:
            return None
        backlog = write_back.backlog
        return JournalStats(
            write_back.room.size,
            write_back.room.used,
            write_back.room.is_full,
            backlog.writes,
            backlog.objects,
            backlog.size,
            backlog.stuck,
            backlog.conflicts,
            backlog.age,
            write_back.max_age,
            write_back.failure,
        )

    def tiers(self) -> list[TierStats]:
        """The stats of the worker's tiers."""
        tiers = [TierStats.of("memory", "serving", self._parts.storage.tiers.memory.occupancy())]
        if self._parts.storage.ssd is not None:
            reason = self._ssd_failure(self._parts.storage.ssd)
            state: TierState = "serving" if reason is None else "failing"
            stats = TierStats.of("ssd", state, self._parts.storage.ssd.occupancy(), reason)
            tiers.append(replace(stats, pinned=self._pins.list_all().pinned))
        return tiers

    def _ssd_failure(self, attachment: "SsdAttachment") -> str | None:
        """Why the SSD tier is failing; None: it serves."""
        tier = self._parts.storage.tiers.ssd
        if tier is None:
            return f"open: {attachment.failure}"
        failure = self._parts.context.metrics.tier_failures.latest("ssd")
        if failure is not None and failure.operation != "open":  # it was opened since
            return f"{failure.operation}: {failure.reason}"
        return "its content was discarded after an earlier failure" if tier.is_off else None

    def _origin(self, settings: Settings) -> OriginStats:
        total = self._parts.context.metrics.total
        return replace(
            reduce(add_origins, self.each_origin(settings)),
            endpoint=", ".join(origin.endpoint for origin in settings.all_origins),
            name=DEFAULT_ORIGIN,
            retries=total("forebay_origin_retries_total"),
            bytes_read=total("forebay_origin_read_bytes_total"),
        )

    def each_origin(self, settings: Settings) -> tuple[OriginStats, ...]:
        """The stats of each origin."""
        return tuple(
            self._stats_of(origin.client, configured.endpoint)
            for origin, configured in zip(self._parts.origins, settings.all_origins, strict=True)
        )

    def _stats_of(self, client: OriginClient, endpoint: str) -> OriginStats:
        metrics = self._parts.context.metrics
        breaker, outage, credential = client.breaker, client.breaker.outage, client.credential_check
        return OriginStats(
            endpoint=endpoint,
            state="unknown" if breaker.reachable is None else "reachable" if breaker.reachable else "unreachable",
            breaker=breaker.state.value,
            cause=outage.cause if outage is not None else None,
            unreachable_for=client.monotonic() - outage.since if outage is not None else None,
            requests=metrics.total_of_origin("forebay_origin_requests_total", client.name),
            failures=metrics.total_of_origin("forebay_origin_failures_total", client.name),
            retries=metrics.total_of_origin("forebay_origin_retries_total", client.name),
            bytes_read=None,
            credential=credential.state,
            credential_fault=credential.fault.reason if credential.fault is not None else None,
            name=client.name,
        )


def _rule_reads(rule: str, counts: RuleCounts) -> RuleReads:
    sent = counts.sent
    return RuleReads(
        rule,
        counts.requests,
        memory=sent["memory"],
        ssd=sent["ssd"],
        joined=sent["joined"] + sent["worker"],
        origin=sent["flight"] + sent["origin"],
        fetched=counts.fetched - counts.warmed,
    )

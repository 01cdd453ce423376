"""The admin port's Control, over a running worker.

It reads what the parts know, and changes only what may change while serving: rules, access keys, sizes.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import forebay_client
from forebay.core.errors import SettingsError
from forebay.core.events import TierName
from forebay.jobs.warm_up import WarmUpJob
from forebay.origin.breaker import BreakerState
from forebay.server.admin.admin_schema import (
    CachePage,
    ConfigChanged,
    Document,
    Job,
    NoConfigFile,
    NoSuchTier,
    NotReady,
    Purged,
    Ready,
    Resized,
    WarmFailure,
    WarmKeys,
    WarmOrder,
)
from forebay.server.admin.cached_objects import PURGE_PAGE_SIZE, LocalCacheView, list_cached_objects
from forebay.server.admin.stats_schema import BudgetStats, FlightStats, OriginStats, RuleReads, Stats, TierStats
from forebay.server.composition import Parts
from forebay.server.config_source import SENT_NAME, ConfigSource, SizeOverrides, parse_capacity, set_log_level
from forebay.server.gateway_policy import gateway_policy
from forebay.server.telemetry.metrics import RuleCounts
from forebay.settings.effective_config import changed_paths, effective_config
from forebay.settings.live_changes import applied_settings, restart_needed
from forebay.settings.loader import Loaded
from forebay.settings.model import Settings
from forebay.storage.tier_contract import Occupancy


class WorkerControl:
    """Implements forebay.server.admin.admin_schema.Control. `reachable` tells whether the origin answered when last
    asked."""

    def __init__(
        self, parts: Parts, settings: Settings, source: ConfigSource, reachable: Callable[[], bool | None]
    ) -> None:
        self._parts = parts
        self._source = source
        self._reachable = reachable
        self._started = time.monotonic()
        self.settings = settings
        """As configured, as far as it is in force."""
        self._size_overrides = SizeOverrides()

    # What is known

    async def readiness(self) -> Ready | NotReady:
        if self._reachable():
            return Ready()
        return NotReady(("The origin can't be reached.",))

    async def metrics(self) -> str:
        return self._parts.metrics.exposition().decode()

    async def stats(self) -> Stats:
        parts, metrics = self._parts, self._parts.metrics
        return Stats(
            version=forebay_client.__version__,
            uptime=time.monotonic() - self._started,
            workers=1,
            workers_alive=1,
            requests=metrics.by_status(),
            bytes_sent=metrics.total("forebay_sent_bytes_total"),
            bytes_received=metrics.total("forebay_received_bytes_total"),
            reads=tuple(_reads(rule, tally) for rule, tally in metrics.rules.items() if rule),
            tiers=tuple(self._tiers()),
            flights=FlightStats(len(parts.flights), parts.flights.followers),
            jobs_running=parts.warming.running,
            budget=BudgetStats(
                parts.budget.capacity, parts.budget.in_use, metrics.total("forebay_errors_total", "SlowDown")
            ),
            origin=self._origin(),
        )

    def _tiers(self) -> list[TierStats]:
        tiers = [TierStats("memory", "serving", self._parts.tiers.memory.occupancy())]
        if self._parts.tiers.ssd is not None:
            tiers.append(TierStats("ssd", "serving", self._parts.tiers.ssd.occupancy()))
        elif self.settings.ssd is not None:
            tiers.append(TierStats("ssd", "failing", Occupancy(self.settings.ssd.size, 0, 0, 0)))
        return tiers

    def _origin(self) -> OriginStats:
        total = self._parts.metrics.total
        reachable = self._reachable()
        breaker = self._parts.origin.breaker.state
        return OriginStats(
            endpoint=self.settings.origin.endpoint,
            state="unknown" if reachable is None else "reachable" if reachable else "unreachable",
            breaker="half-open" if breaker is BreakerState.PROBING else breaker.value,
            requests=total("forebay_origin_requests_total"),
            failures=total("forebay_origin_failures_total"),
            retries=total("forebay_origin_retries_total"),
            bytes_read=total("forebay_origin_read_bytes_total"),
        )

    # The configuration

    async def config(self) -> Document:
        return effective_config(self._size_overrides.apply(self.settings))

    async def replace_config(self, toml: str) -> ConfigChanged:
        return self.apply(await self._loaded(asyncio.to_thread(self._source.load_text, toml, name=SENT_NAME)))

    async def reload_config(self) -> ConfigChanged | NoConfigFile:
        if self._source.file is None:
            return NoConfigFile()
        return self.apply(await self._loaded(self._source.reload()))

    async def _loaded(self, loading: Coroutine[Any, Any, Loaded]) -> Loaded:
        try:
            return await loading
        except SettingsError:
            self._parts.metrics.count("forebay_reloads_total", "refused")
            raise

    def apply(self, loaded: Loaded) -> ConfigChanged:
        """Put a configuration in force that was validated as a whole. Nothing here can fail half way."""
        old, new = self.settings, loaded.settings
        taken = self.settings = applied_settings(old, new)
        self._parts.gateway.policy = gateway_policy(new)
        set_log_level(new)
        self._parts.budget.resize(new.memory.buffers)
        self._parts.resolver.permissions.ttl = new.auth.authorization_ttl
        for tier, size in self._size_overrides.drop_changed(old, taken):
            self._resize(tier, size)
        self._parts.metrics.count("forebay_reloads_total", "applied")
        return ConfigChanged(tuple(changed_paths(old, new)), tuple(restart_needed(old, new)))

    # Warm-up

    async def start_job(self, order: WarmOrder) -> Job:
        if isinstance(order, WarmKeys):
            job = self._parts.warming.start(order.bucket, keys=order.keys, concurrency=order.concurrency)
        else:
            job = self._parts.warming.start(order.bucket, prefix=order.prefix, concurrency=order.concurrency)
        return _job(job)

    async def jobs(self) -> Sequence[Job]:
        return [_job(job) for job in self._parts.warming.jobs()]

    async def job(self, job_id: str) -> Job | None:
        job = self._parts.warming.job(job_id)
        return _job(job) if job is not None else None

    async def cancel_job(self, job_id: str) -> Job | None:
        job = await self._parts.warming.cancel(job_id)
        return _job(job) if job is not None else None

    # The cache

    async def list_cached(self, bucket: str, prefix: str, after: str, limit: int) -> CachePage:
        return await list_cached_objects([LocalCacheView(self._parts.tiers)], bucket, prefix, after, limit)

    async def purge(self, bucket: str, prefix: str) -> Purged:
        objects = size = 0
        after = ""
        while True:
            page = await self.list_cached(bucket, prefix, after, PURGE_PAGE_SIZE)
            objects += len(page.objects)
            size += sum(each.cached for each in page.objects)
            await self._parts.invalidator.invalidate([each.name for each in page.objects])
            if page.next is None:
                break
            after = page.next
        return Purged(objects, size)

    async def resize(self, tier: TierName, size: str) -> Resized | NoSuchTier:
        return await self.resize_to(tier, parse_capacity(tier, size))

    async def resize_to(self, tier: TierName, capacity: int) -> Resized | NoSuchTier:
        tiers = self._parts.tiers
        resized = tiers.memory if tier == "memory" else tiers.ssd
        if resized is None:
            return NoSuchTier()
        before = resized.occupancy().capacity
        self._resize(tier, capacity)
        self._size_overrides.set(tier, capacity)
        return Resized(tier, before, capacity)

    def _resize(self, tier: TierName, capacity: int) -> None:
        if tier == "memory":
            self._parts.tiers.memory.resize(capacity)
            self._parts.tasks.spawn(self._shrink(), "shrink memory")
        elif self._parts.tiers.ssd is not None:
            self._parts.tiers.ssd.resize(capacity)

    async def _shrink(self) -> None:
        while self._parts.tiers.memory.evict_some():  # noqa: ASYNC110 # no wait: the loop runs between steps of work
            await asyncio.sleep(0)


def _reads(rule: str, tally: RuleCounts) -> RuleReads:
    sent = tally.sent
    origin = sent["flight"] + sent["origin"]
    return RuleReads(
        rule,
        tally.requests,
        sent["memory"],
        sent["ssd"],
        sent["joined"] + sent["worker"],
        origin,
        tally.fetched - tally.warmed,
    )


def _job(job: WarmUpJob) -> Job:
    return Job(
        id=job.id,
        bucket=job.bucket,
        prefix=job.prefix,
        state=job.state,
        reason=job.reason,
        concurrency=job.concurrency,
        started_at=job.started_at,
        ended_at=job.ended_at,
        listed=job.listed,
        listing_ended=job.listing_ended,
        done=job.done,
        failed=job.failed,
        bytes_listed=job.bytes_listed,
        bytes_done=job.bytes_done,
        failures=tuple(WarmFailure(key, reason) for key, reason in job.failures),
    )

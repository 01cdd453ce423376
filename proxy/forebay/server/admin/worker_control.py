"""The admin port's verbs, over one running worker.

It reads the state of the worker's parts, and changes only what may change while serving: rules, access keys, sizes.
"""

import asyncio
from collections.abc import Sequence

from forebay.core.events import TierName
from forebay.core.names import ObjectName
from forebay.core.pending_write import PendingPage, PendingWrite
from forebay.core.plan_progress import PlanList, PlanProgress
from forebay.jobs.inventory import Inventory, InventoryEntry
from forebay.jobs.warm_up_job import WarmUpJob
from forebay.server.admin.admin_schema import (
    MAX_PAGE,
    CachePage,
    ConfigChanged,
    FailurePage,
    Job,
    JobList,
    Resized,
    WarmFailure,
)
from forebay.server.admin.advice_rows import AdvisedSet, advice_rows
from forebay.server.admin.cached_objects import LocalCacheView, list_cached_objects
from forebay.server.admin.control import SharedControl
from forebay.server.admin.data_set_schema import AdviceList, AdviceSource, DataSetList
from forebay.server.admin.job_view import job_view, pack_job_order, warm_up_order
from forebay.server.admin.key_list import KeyList, KeyListEntry
from forebay.server.admin.pack_request import PackRequest
from forebay.server.admin.pending_schema import Flushed, PendingContent, PendingDiscarded, PendingRetried
from forebay.server.admin.pending_verbs import PendingVerbs
from forebay.server.admin.pin_schema import PinChange, PinList
from forebay.server.admin.pin_verbs import PinVerbs
from forebay.server.admin.plan_schema import PlanOrder, PlanSent
from forebay.server.admin.plan_verbs import PlanVerbs
from forebay.server.admin.readiness import (
    ENDING,
    Readiness,
    ReadinessCheck,
    check_origins,
    degraded_journal,
    degraded_tiers,
)
from forebay.server.admin.recording_schema import (
    RecordingList,
    RecordingPart,
    RecordingRemoved,
    RecordingStored,
    ReplayOrder,
)
from forebay.server.admin.recording_verbs import RecordingVerbs
from forebay.server.admin.stats_schema import Stats, TierStats
from forebay.server.admin.warm_order import WarmOrder, parse_object_url
from forebay.server.admin.worker_stats import WorkerStats
from forebay.server.composition import Parts
from forebay.server.config_source import ConfigSource, parse_capacity
from forebay.server.gateway_policy import credentials_of, gateway_policy
from forebay.settings.loader import Loaded
from forebay.settings.model import Settings


class WorkerControl(SharedControl):
    """Implements forebay.server.admin.control.Control."""

    def __init__(self, parts: Parts, settings: Settings, source: ConfigSource) -> None:
        super().__init__(settings, source)
        self._parts = parts
        self._recordings = RecordingVerbs(parts.recordings, parts.warm_ups)
        self._pending = PendingVerbs(parts.backlog)
        self._pins = PinVerbs(parts.pins)
        self._plans = PlanVerbs(parts.plans, parts.plan_resource, lambda: parts.gateway.policy.keyring)
        self._stats = WorkerStats(parts, self._pins)

    # State

    def ready(self) -> bool:
        """Whether every request can be served, as `readiness` has it."""
        return not self._failing()

    async def readiness(self) -> Readiness:
        """Ready when the origin can be reached."""
        return Readiness(self._failing(), degraded_tiers([self.tiers()]) | degraded_journal([self._stats.journal()]))

    def _failing(self) -> dict[ReadinessCheck, str]:
        return check_origins([self._stats.each_origin(self.settings)]) | (ENDING if self.is_ending else {})

    async def metrics(self) -> str:
        """This worker's metrics."""
        return self._parts.metrics.exposition().decode()

    async def stats(self) -> Stats:
        """This worker's counters and gauges."""
        return self._stats.of(self.settings)

    def tiers(self) -> list[TierStats]:
        """The stats of the worker's tiers."""
        return self._stats.tiers()

    # The configuration

    async def _apply_text(self, text: str | None, mode: int, name: str | None = None) -> ConfigChanged:
        return self.apply(await self.load(text, mode, name))

    def apply(self, loaded: Loaded) -> ConfigChanged:
        """Put a configuration in force that was validated as a whole. Nothing here can fail half way."""
        new = loaded.settings
        before = self.settings
        answer, sizes = self.put_in_force(loaded)
        for origin, old, applied in zip(
            self._parts.origins, before.all_origins, self.settings.all_origins, strict=True
        ):
            if applied.credentials != old.credentials:
                origin.client.use_credentials(credentials_of(applied.credentials))
                self._parts.tasks.spawn(origin.listing.close(), "connect again to list")
                self._parts.tasks.spawn(origin.client.credential_check.check(), "check the origin credential")
                if self._parts.write_back is not None:
                    self._parts.write_back.proofs.forget_all()
        self._parts.gateway.policy = policy = gateway_policy(self.settings)
        self._parts.read_ahead.use_policy()
        self._parts.read_counts.apply_rules(policy.rules.data_sets)
        if self._parts.kept_recordings is not None:
            self._parts.kept_recordings.apply_rules()
        self._parts.budget.resize(new.memory.buffers)
        self._parts.tiers.memory.ahead.budget.resize(new.memory.ahead)
        self._parts.rings.resize(new.memory.rings)
        self._parts.resolver.permissions.ttl = new.auth.authorization_ttl
        self._parts.listing_permissions.ttl = new.auth.authorization_ttl
        self._parts.listings.drop_unruled()
        if self.settings.ssd is not None:
            self._parts.pins.set_quota(self.settings.ssd.pin_quota)
        for tier, size in sizes:
            self._resize(tier, size)
        self._parts.metrics.count("forebay_reloads_total", "applied")
        return answer

    def _config_refused(self) -> None:
        self._parts.metrics.count("forebay_reloads_total", "refused")

    # Warm-up

    async def _start_job(self, order: WarmOrder) -> Job | None:
        """Start the job in this worker."""
        warm_ups = self._parts.warm_ups
        lists = [warm_ups.lists.pop(list_id) for list_id in order.lists]
        recordings = filter(None, map(parse_object_url, order.recordings))
        lists += [await self._recordings.inventory(*url) for url in recordings]
        lists += [await self._plans.inventory(plan) for plan in order.plans]
        inventory = Inventory.joined([each for each in lists if each is not None])
        if None in lists:
            return None
        for key in order.keys:
            inventory.add(InventoryEntry(order.bucket or "", key))
        return self._job(await warm_ups.start(warm_up_order(order, self._now()), inventory))

    async def start_pack(self, order: PackRequest) -> Job:
        """Start the job in this worker."""
        return self._job(await self._parts.warm_ups.start(pack_job_order(order)))

    async def extend_list(self, list_id: str, entries: list[KeyListEntry]) -> KeyList | None:
        """Add objects to a list in this worker."""
        extended = self._parts.warm_ups.lists.extend(list_id, (InventoryEntry(*entry) for entry in entries))
        return KeyList(*extended) if extended is not None else None

    async def jobs(self) -> JobList:
        """This worker's jobs."""
        return JobList(tuple(map(self._job, self._parts.warm_ups.jobs())))

    async def cancel_job(self, job_id: str) -> Job | None:
        """Cancel the job in this worker."""
        job = await self._parts.warm_ups.cancel(job_id)
        return self._job(job) if job is not None else None

    async def job_failures(self, job_id: str, after: int = 0, limit: int = MAX_PAGE) -> FailurePage | None:
        """Of a job of this worker."""
        found = await self._parts.warm_ups.failures(job_id, after, limit)
        if found is None:
            return None
        page = tuple(WarmFailure(each.key, each.reason, each.bucket) for each in found)
        return FailurePage(page, str(after + limit) if len(page) == limit else None)

    def _job(self, job: WarmUpJob) -> Job:
        return job_view(job, self._parts.warm_ups.now())

    # Recordings

    async def recordings(self, bucket: str = "") -> RecordingList:
        """Those of the node."""
        return await self._recordings.list_all(bucket)

    async def recording_part(self, bucket: str, name: str, offset: int = 0) -> RecordingPart | None:
        """Of the node's."""
        return await self._recordings.part(bucket, name, offset)

    async def store_recording(self, bucket: str, name: str, content: str) -> RecordingStored:
        """In the node's."""
        return await self._recordings.store(bucket, name, content)

    async def save_recording(
        self, bucket: str, name: str, source: str = "", shared: bool = False
    ) -> RecordingStored | None:
        """Of the node's."""
        return await self._recordings.save(bucket, name, source, is_shared=shared)

    async def replay_recording(self, bucket: str, name: str, order: ReplayOrder) -> Job | None:
        """In this worker."""
        job = await self._recordings.replay(bucket, name, order)
        return self._job(job) if job is not None else None

    async def remove_recording(self, bucket: str, name: str) -> RecordingRemoved | None:
        """Of the node's."""
        return await self._recordings.remove(bucket, name)

    # Pending writes

    async def pending_writes(
        self, bucket: str = "", prefix: str = "", state: str = "", after: str = "", limit: int = MAX_PAGE
    ) -> PendingPage | None:
        """Those of the node."""
        return await self._pending.page(bucket, prefix, state, after, limit)

    async def flush_writes(self, bucket: str, prefix: str = "", wait: float = 0.0, before: str = "") -> Flushed | None:
        """Of the node's writes: every worker knows them."""
        return await self._pending.flush(bucket, prefix, wait, before)

    async def pending_write(self, write_id: str) -> PendingWrite | None:
        """Of the node's."""
        return await self._pending.find(write_id)

    async def pending_content(self, write_id: str, offset: int = 0) -> PendingContent | None:
        """Of the node's."""
        return await self._pending.content(write_id, offset)

    async def retry_write(self, write_id: str) -> PendingRetried | None:
        """In the worker that carries it out."""
        return await self._pending.retry(write_id)

    async def discard_write(self, write_id: str, bucket: str, key: str) -> PendingDiscarded | None:
        """In the worker that carries it out."""
        return await self._pending.discard(write_id, ObjectName(bucket, key))

    # Pins

    async def pins(self) -> PinList:
        """As this worker sees them."""
        return self._pins.list_all()

    async def change_pins(self, bucket: str, prefix: str, *, is_pinned: bool) -> PinChange:
        """In this worker, and in the file that the others read."""
        return await self._pins.change(bucket, prefix, is_pinned=is_pinned)

    async def _change_pins(self, bucket: str, prefix: str, *, is_pinned: bool) -> PinChange:
        return await self.change_pins(bucket, prefix, is_pinned=is_pinned)

    # Plans

    async def plans(self) -> PlanList:
        """The plans of the node."""
        return await self._plans.list_all()

    async def send_plan(self, order: PlanOrder) -> PlanSent:
        """To the worker that runs plans."""
        return await self._plans.send(order)

    async def cancel_plan(self, plan_id: str) -> PlanProgress | None:
        """End the plan in the worker that runs it."""
        return await self._plans.cancel(plan_id)

    # The cache

    async def list_cached(self, bucket: str, prefix: str = "", after: str = "", limit: int = MAX_PAGE) -> CachePage:
        """A page of this worker's view."""
        return await list_cached_objects([LocalCacheView(self._parts.tiers)], bucket, prefix, after, limit)

    async def data_sets(self) -> DataSetList:
        """This worker's view: with others, the reads are known to the collector alone."""
        return DataSetList(self._parts.data_set_resource.local())

    async def advice(self, source: AdviceSource = "reads") -> AdviceList:
        """By the reads or the recordings of all workers, in the collector; elsewhere nothing."""
        parts = self._parts
        rules = parts.gateway.policy.rules
        sets = [AdvisedSet.of_reads(state) for state in parts.data_sets.states()]
        if source == "recordings":
            is_kept_here = parts.kept_recordings is not None
            sets = await self._recordings.recorded_sets(lambda name: rules.decide(name).block) if is_kept_here else []
        return AdviceList(
            advice_rows([(each, rules.pool_of(each.name)) for each in sets], parts.tiers, parts.peers.workers)
        )

    async def _is_in_doubt(self, name: ObjectName) -> bool:
        return self._parts.resolver.heads.in_doubt_writes.covers(name, self._now())

    def _now(self) -> float:
        return self._parts.resolver.heads.clock()

    async def _drop_listings(self, bucket: str, prefix: str) -> None:
        self._parts.listings.drop(bucket, prefix)
        self._parts.catalogue.drop(bucket)

    async def _invalidate(self, names: Sequence[ObjectName]) -> None:
        await self._parts.invalidator.invalidate(names)

    async def resize(self, tier: TierName, size: str) -> Resized | None:
        """Resize a tier of this worker."""
        return await self.resize_to(tier, parse_capacity(tier, size))

    async def resize_to(self, tier: TierName, capacity: int) -> Resized | None:
        """`resize`, to a capacity in bytes."""
        resized = self._parts.tiers.memory if tier == "memory" else self._parts.ssd
        if resized is None:
            return None
        before = resized.occupancy().capacity
        self._resize(tier, capacity)
        self.size_overrides.set(tier, capacity)
        return Resized(tier, before, capacity)

    def _resize(self, tier: TierName, capacity: int) -> None:
        if tier == "memory":
            self._parts.tiers.memory.resize(capacity)
            self._parts.tasks.spawn(self._shrink(), "shrink memory")
        elif self._parts.ssd is not None:
            self._parts.ssd.resize(capacity)

    async def _shrink(self) -> None:
        while self._parts.tiers.memory.evict_some():  # noqa: ASYNC110 # no wait: the loop runs between steps of work
            await asyncio.sleep(0)

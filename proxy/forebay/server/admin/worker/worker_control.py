"""The admin port's verbs, over one running worker.

It reads the state of the worker's parts, and changes only what may change while serving: rules, access keys, sizes.
"""

import asyncio
from collections.abc import Sequence

from forebay.core.cooperative import run_cooperatively
from forebay.core.events import TierName
from forebay.core.names import ObjectName
from forebay.server.admin.cached_objects import LocalCacheView, list_cached_objects
from forebay.server.admin.control import Control
from forebay.server.admin.readiness import (
    ENDING,
    Readiness,
    ReadinessCheck,
    check_origins,
    degraded_journal,
    degraded_tiers,
)
from forebay.server.admin.schema.admin_schema import MAX_PAGE, CachePage, ConfigChanged, MemberPlace, Resized
from forebay.server.admin.schema.data_set_schema import AdviceList, AdviceSource, DataSetList
from forebay.server.admin.schema.object_state import ObjectState
from forebay.server.admin.schema.stats_schema import Stats, TierStats
from forebay.server.admin.shared_control import SharedControl
from forebay.server.admin.worker.advice_rows import AdvisedSet, advice_rows
from forebay.server.admin.worker.worker_jobs import WorkerJobs
from forebay.server.admin.worker.worker_pins import WorkerPins
from forebay.server.admin.worker.worker_plans import WorkerPlans
from forebay.server.admin.worker.worker_recordings import WorkerRecordings
from forebay.server.admin.worker.worker_stats import WorkerStats
from forebay.server.admin.worker.worker_writes import WorkerWrites
from forebay.server.composition import Parts
from forebay.server.config_source import ConfigSource, parse_capacity
from forebay.server.gateway_policy import credentials_of, gateway_policy
from forebay.settings.loader import Loaded
from forebay.settings.model import Settings


class WorkerControl(SharedControl):
    """The verbs that know the settings of a worker. `verbs`: all of the admin port."""

    def __init__(self, parts: Parts, settings: Settings, source: ConfigSource) -> None:
        super().__init__(settings, source)
        self._parts = parts
        gateway = parts.requests.gateway
        self._recordings = WorkerRecordings(parts.jobs.recordings)
        self.pins = WorkerPins(parts.storage.pins)
        plans = WorkerPlans(parts.jobs.plans, parts.jobs.plan_resource, lambda: gateway.policy.keyring)
        self._stats = WorkerStats(parts, self.pins)
        self.verbs = Control(
            state=self,
            config=self,
            jobs=WorkerJobs(
                parts.jobs.warm_ups,
                self.pins,
                plans,
                self._recordings,
                lambda: gateway.policy.rules,
                self._now,
            ),
            cache=self,
            data_sets=self,
            pins=self.pins,
            plans=plans,
            recordings=self._recordings,
            writes=WorkerWrites(parts.writes.backlog),
        )

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
        return (await run_cooperatively(self._parts.context.metrics.exposition())).decode()

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
        """Puts a configuration in force that was validated as a whole. Nothing here can fail half way."""
        new = loaded.settings
        before = self.settings
        answer, sizes = self.put_in_force(loaded)
        for origin, old, applied in zip(
            self._parts.origins, before.all_origins, self.settings.all_origins, strict=True
        ):
            if applied.credentials != old.credentials:
                origin.client.use_credentials(credentials_of(applied.credentials))
                self._parts.context.tasks.spawn(origin.listing.close(), "connect again to list")
                self._parts.context.tasks.spawn(origin.client.credential_check.check(), "check the origin credential")
                if self._parts.writes.write_back is not None:
                    self._parts.writes.write_back.proofs.forget_all()
        self._parts.requests.gateway.policy = policy = gateway_policy(self.settings)
        self._parts.jobs.read_ahead.use_policy()
        self._parts.jobs.read_counts.apply_rules(policy.rules.data_sets)
        if self._parts.jobs.kept_recordings is not None:
            self._parts.jobs.kept_recordings.apply_rules()
        self._parts.storage.budget.resize(new.memory.buffers)
        self._parts.storage.tiers.memory.ahead.budget.resize(new.memory.ahead)
        self._parts.storage.rings.resize(new.memory.rings)
        self._parts.metadata.resolver.permissions.ttl = new.auth.authorization_ttl
        self._parts.requests.listing_permissions.ttl = new.auth.authorization_ttl
        self._parts.namespaces.listings.drop_unruled()
        if self.settings.ssd is not None:
            self._parts.storage.pins.set_quota(self.settings.ssd.pin_quota)
        for tier, size in sizes:
            self._resize(tier, size)
        self._parts.context.metrics.count("forebay_reloads_total", "applied")
        return answer

    def _config_refused(self) -> None:
        self._parts.context.metrics.count("forebay_reloads_total", "refused")

    # The cache

    async def list_cached(self, bucket: str, prefix: str = "", after: str = "", limit: int = MAX_PAGE) -> CachePage:
        """A page of this worker's view."""
        return await list_cached_objects([LocalCacheView(self._parts.storage.tiers)], bucket, prefix, after, limit)

    async def data_sets(self) -> DataSetList:
        """This worker's view: with others, the reads are known to the collector alone."""
        return DataSetList(self._parts.jobs.data_set_resource.local())

    async def advice(self, source: AdviceSource = "reads") -> AdviceList:
        """The advice by the reads or the recordings of all workers, in the collector; elsewhere none."""
        parts = self._parts
        rules = parts.requests.gateway.policy.rules
        sets = [AdvisedSet.of_reads(state) for state in parts.jobs.data_sets.states()]
        if source == "recordings":
            is_kept_here = parts.jobs.kept_recordings is not None
            sets = await self._recordings.recorded_sets(lambda name: rules.decide(name).block) if is_kept_here else []
        pools = [(each, rules.pool_of(each.name)) for each in sets]
        return AdviceList(advice_rows(pools, parts.storage.tiers, parts.context.peers.workers))

    async def _object_state(self, name: ObjectName) -> ObjectState:
        write_back = self._parts.writes.write_back
        current = write_back.pending.current(name) if write_back is not None else None
        pending = None if current is None else "delete" if current.head is None else "put"
        found = await self._parts.metadata.packed.known_span(name)
        member = MemberPlace(found[0].key, found[1].start, found[1].length) if found is not None else None
        return ObjectState(self._parts.metadata.resolver.is_in_doubt(name), pending, member)

    def _now(self) -> float:
        return self._parts.metadata.resolver.heads.clock()

    async def _drop_listings(self, bucket: str, prefix: str) -> None:
        self._parts.namespaces.listings.snapshots.drop(bucket, prefix)
        self._parts.namespaces.catalogue.drop(bucket)

    async def _invalidate(self, names: Sequence[ObjectName]) -> None:
        await self._parts.metadata.invalidator.invalidate(names)

    async def resize(self, tier: TierName, size: str) -> Resized | None:
        """Resizes a tier of this worker."""
        resized = await self.resize_to(tier, parse_capacity(tier, size))
        return resized and await self._resized(tier, resized.before, resized.after)

    async def resize_to(self, tier: TierName, capacity: int) -> Resized | None:
        """`resize`, to a capacity in bytes."""
        resized = self._parts.storage.tiers.memory if tier == "memory" else self._parts.storage.ssd
        if resized is None:
            return None
        before = resized.occupancy().capacity
        self._resize(tier, capacity)
        self.size_overrides.set(tier, capacity)
        return Resized(tier, before, capacity)

    def _resize(self, tier: TierName, capacity: int) -> None:
        if tier == "memory":
            self._parts.storage.tiers.memory.resize(capacity)
            self._parts.context.tasks.spawn(self._shrink(), "shrink memory")
        elif self._parts.storage.ssd is not None:
            self._parts.storage.ssd.resize(capacity)

    async def _shrink(self) -> None:
        while self._parts.storage.tiers.memory.evict_some():  # noqa: ASYNC110 # no wait: the loop runs between steps of work
            await asyncio.sleep(0)

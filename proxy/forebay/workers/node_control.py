"""The admin port's verbs, over a node of several workers: carried out by all of them, or by none.

A configuration goes to all in two steps: each worker says whether it would accept it, then each puts it in force. A
worker that does not answer the second is killed, and starts anew with it. So when a change is confirmed, every worker
that answers a client has made it. No worker starts while something changes.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from functools import partial

import forebay_client
from forebay.core.errors import ForebayError, PeerUnavailable, SettingsError, Throttled
from forebay.core.events import TierName
from forebay.core.names import ObjectName
from forebay.core.units import format_size
from forebay.datasets.data_set_stats import merged_rows
from forebay.server.admin.cached_objects import CacheView, list_cached_objects
from forebay.server.admin.control import CacheVerbs, Control, DataSetVerbs, PlanVerbs, RecordingVerbs, WriteVerbs
from forebay.server.admin.readiness import (
    ENDING,
    Readiness,
    ReadinessCheck,
    check_origins,
    degraded_journal,
    degraded_tiers,
)
from forebay.server.admin.schema.admin_schema import MAX_PAGE, CachePage, ConfigChanged, Resized
from forebay.server.admin.schema.data_set_schema import AdviceList, AdviceSource, DataSetList
from forebay.server.admin.schema.object_state import ObjectState
from forebay.server.admin.schema.stats_schema import (
    BudgetStats,
    FlightStats,
    JobStats,
    OriginStats,
    RequestStats,
    Stats,
    TierStats,
)
from forebay.server.admin.shared_control import SharedControl
from forebay.server.config_source import ConfigSource, parse_capacity
from forebay.settings.model import Settings
from forebay.settings.own_credential import needs_own_credential
from forebay.storage.tier_contract import Occupancy
from forebay.workers.node_jobs import NodeJobs
from forebay.workers.node_pins import NodePins
from forebay.workers.worker_calls import WorkerCalls
from forebay.workers.worker_pool import WorkerPool
from forebay.workers.worker_process import WorkerProcess
from forebay.workers.worker_rpc import WorkerOrders, WorkerRpc, call, client_stub

_log = logging.getLogger(__name__)


class NodeControl(SharedControl):
    """Controls the workers of a node. `text`, `mode`: the file that `settings` were read from. `verbs`: all of the
    admin port."""

    def __init__(self, pool: WorkerPool, settings: Settings, source: ConfigSource, text: str | None, mode: int) -> None:
        super().__init__(settings, source)
        self.text = text
        self.mode = mode
        self.change_lock = asyncio.Lock()
        """Held during a change, and during the start of a worker, which begins with the configuration in force."""
        self._pool = pool
        self._started = time.monotonic()
        self.calls = calls = WorkerCalls(pool)
        self._every_worker = calls.every_worker(WorkerOrders)
        pins = NodePins(calls, self.change_lock)
        self.verbs = Control(
            state=self,
            config=self,
            jobs=NodeJobs(calls, pins),
            cache=self,
            data_sets=self,
            pins=pins,
            # Every worker reaches the one that has the node's:
            plans=calls.first_worker(PlanVerbs),
            recordings=calls.first_worker(RecordingVerbs),
            writes=calls.first_worker(WriteVerbs),
        )

    # State

    async def readiness(self) -> Readiness:
        """Ready when all workers run and reach the origin."""
        failing: dict[ReadinessCheck, str] = dict(ENDING) if self.is_ending else {}
        alive = self._pool.alive
        if len(alive) < self._pool.worker_count:
            failing["workers"] = f"Only {len(alive)} of {self._pool.worker_count} workers run."
        if not all(worker.report for worker in alive):  # one has just started; else the last reports will do
            await self._poll()
        unknown = self._empty_stats().each_origin
        origins = [worker.report.stats.each_origin if worker.report else unknown for worker in alive]
        reports = [worker.report.stats for worker in alive if worker.report]
        degraded = degraded_tiers([each.tiers for each in reports]) | degraded_journal(each.journal for each in reports)
        return Readiness(failing | check_origins(origins), degraded)

    async def origin_faults(self) -> Sequence[str] | None:
        """Returns the faults of the origin by new reports, as sentences; None: a worker has not checked it yet."""
        await self._poll()
        origins = [worker.report.stats.each_origin for worker in self._pool.alive if worker.report is not None]
        checked = {each.name for each in self.settings.all_origins if needs_own_credential(self.settings, each)}
        for origin in (origin for of_worker in origins for origin in of_worker):
            if origin.state == "unknown":
                return None
            if origin.name in checked and origin.state == "reachable" and origin.credential == "unknown":
                return None
        return tuple(check_origins(origins).values())

    async def metrics(self) -> str:
        """The sum of the workers' metrics."""
        await self._poll()
        return self._pool.metrics_text()

    async def stats(self) -> Stats:
        """The sum of the workers' stats."""
        await self._poll()
        return self._pool.stats(self._empty_stats())

    async def _poll(self) -> None:
        async def poll(worker: WorkerProcess) -> None:
            try:
                async with asyncio.timeout(self.calls.poll_timeout):
                    await worker.poll()
            except (TimeoutError, ForebayError):
                _log.info("%r does not answer", worker)

        await asyncio.gather(*map(poll, self._pool.alive))

    def _empty_stats(self) -> Stats:
        """The stats of the node while no worker runs."""
        settings = self.size_overrides.apply(self.settings)
        sizes: list[tuple[TierName, int]] = [("memory", settings.memory.size)]
        if settings.ssd is not None:
            sizes.append(("ssd", settings.ssd.size))
        origins = settings.all_origins
        return Stats(
            version=forebay_client.__version__,
            uptime=time.monotonic() - self._started,
            workers=self._pool.worker_count,
            workers_alive=0,
            requests=RequestStats({}),
            bytes_sent=0,
            bytes_received=0,
            reads=(),
            tiers=tuple(TierStats.of(tier, "failing", Occupancy(size, 0, 0, 0)) for tier, size in sizes),
            flights=FlightStats(0, 0),
            jobs=JobStats(0),
            budget=BudgetStats(settings.memory.buffers, 0, 0),
            origin=OriginStats(", ".join(each.endpoint for each in origins), "unknown", "closed", 0, 0, 0, 0),
            origins=tuple(
                OriginStats(each.endpoint, "unknown", "closed", 0, 0, 0, None, name=each.name) for each in origins
            )
            if len(origins) > 1
            else (),
        )

    async def announce_shutdown(self) -> None:
        """Makes readiness fail. Workers get a call only if they need it, as a worker that hangs would be killed for
        it."""
        self.is_ending = True
        if self.settings.journal is not None and self.settings.server.shutdown_delay:
            await self._every_worker.announce_shutdown()

    # The configuration

    async def reload(self) -> None:
        """The effect of SIGHUP: reopened files, and the configuration read again."""
        await self._every_worker.reopen_files()
        await self.reload_and_log()

    async def _apply_text(self, text: str | None, mode: int, name: str | None = None) -> ConfigChanged:
        async with self.change_lock:
            loaded = await self.load(text, mode, name)
            for worker in self._pool.alive:
                try:
                    refusal = await call(worker.peer, WorkerRpc.prepare_config, text, mode)
                except PeerUnavailable:
                    continue  # it has exited, and starts with what is in force by then
                if refusal is not None:
                    raise SettingsError(refusal.where, refusal.value, refusal.allowed)
            answer, sizes = self.put_in_force(loaded)
            self.text, self.mode = text, mode
            for tier, size in sizes:
                _log.info("the %s tier has %s from here on", tier, format_size(size))
            await self._every_worker.commit_config()
            return answer

    async def resize(self, tier: TierName, size: str) -> Resized | None:
        """Resizes a tier in all workers."""
        capacity = parse_capacity(tier, size)
        async with self.change_lock:
            if tier == "ssd" and self.settings.ssd is None:
                return None
            before = next((each.capacity for each in (await self.stats()).tiers if each.name == tier), 0)
            self.size_overrides.set(tier, capacity)
            share = self._worker_share(tier, capacity)
            await self._every_worker.resize_tier(tier, share)
            return await self._resized(tier, before, capacity)

    def worker_sizes(self) -> dict[TierName, int]:
        """The capacities set over the configured ones, one worker's share."""
        return {tier: self._worker_share(tier, size) for tier, size in self.size_overrides.items()}

    def _worker_share(self, tier: TierName, size: int) -> int:
        return size // self._pool.worker_count if tier == "memory" else size

    # The cache

    async def list_cached(self, bucket: str, prefix: str = "", after: str = "", limit: int = MAX_PAGE) -> CachePage:
        """A page of all workers' views, merged. Raises Throttled when a worker exits meanwhile."""
        views = [client_stub(CacheView, partial(call, worker.peer)) for worker in self._pool.alive]
        try:
            return await list_cached_objects(views, bucket, prefix, after, limit)
        except PeerUnavailable as gone:
            raise Throttled(f"a worker ended meanwhile: {gone}") from gone

    async def data_sets(self) -> DataSetList:
        """The data sets of all workers together."""
        answers = await self.calls.answers(DataSetVerbs.data_sets)
        return DataSetList(merged_rows([answer.data_sets for _, answer in answers]))

    async def advice(self, source: AdviceSource = "reads") -> AdviceList:
        """The advice of the worker that collects all reads and keeps the recordings."""
        answers = await self.calls.answers(DataSetVerbs.advice, source)
        return AdviceList(tuple(row for _, answer in answers for row in answer.data_sets))

    async def _object_state(self, name: ObjectName) -> ObjectState:
        # Every worker knows the writes that are in doubt, and those that are pending, but only the packs that it uses.
        found = [answer for _, answer in await self.calls.answers(CacheVerbs.explain, name.bucket, name.key)]
        if not found:
            raise Throttled("no worker runs")
        return ObjectState(
            any(each.in_doubt for each in found),
            next((each.pending for each in found if each.pending is not None), None),
            next((each.member for each in found if each.member is not None), None),
        )

    async def _drop_listings(self, bucket: str, prefix: str) -> None:
        await self.calls.call_every_worker({"kind": "drop_listings", "bucket": bucket, "prefix": prefix})

    async def _invalidate(self, names: Sequence[ObjectName]) -> None:
        await self.calls.first_worker(WorkerRpc).invalidate(list(names))

"""The admin port's verbs, over a node of several workers: carried out by all of them, or by none.

A configuration goes to all in two steps: each worker says whether it would accept it, then each puts it in force. A
worker that does not answer the second is killed, and starts anew with it. So when a change is confirmed, every worker
that answers a client has made it. No worker starts while something changes.

A warm-up job is run by one worker, and fetches each object through its owner. When that worker ends, another goes on
with it (jobs.job_store).
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import forebay_client
from forebay.core.errors import ForebayError, PeerUnavailable, SettingsError, Throttled
from forebay.core.events import TierName
from forebay.core.names import ObjectName
from forebay.core.pending_write import PendingPage, PendingWrite
from forebay.core.plan_progress import PlanList, PlanProgress
from forebay.core.units import format_size
from forebay.peers.frames import Document
from forebay.peers.peer_client import FENCE_TIMEOUT
from forebay.server.admin.admin_schema import (
    MAX_PAGE,
    CachePage,
    ConfigChanged,
    FailurePage,
    Job,
    JobList,
    Resized,
)
from forebay.server.admin.cached_objects import list_cached_objects
from forebay.server.admin.control import Control, SharedControl
from forebay.server.admin.data_set_schema import AdviceList, AdviceSource, DataSetList, merged_rows
from forebay.server.admin.key_list import KeyList, KeyListEntry
from forebay.server.admin.pack_request import PackRequest
from forebay.server.admin.pending_schema import Flushed, PendingContent, PendingDiscarded, PendingRetried
from forebay.server.admin.pin_schema import PinChange, PinList, merged_pins
from forebay.server.admin.plan_schema import PlanOrder, PlanSent
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
from forebay.server.admin.stats_schema import (
    BudgetStats,
    FlightStats,
    JobStats,
    OriginStats,
    RequestStats,
    Stats,
    TierStats,
)
from forebay.server.admin.warm_order import WarmOrder
from forebay.server.config_source import ConfigSource, parse_capacity
from forebay.settings.model import Settings
from forebay.settings.own_credential import needs_own_credential
from forebay.storage.tier_contract import Occupancy
from forebay.workers.worker_pool import WorkerPool
from forebay.workers.worker_process import WorkerProcess
from forebay.workers.worker_rpc import RemoteCacheView, WorkerRpc, call, request_document

POLL_TIMEOUT: Final = 5.0
"""Seconds that a caller waits for a worker's report; then its last one is used."""
MAX_KNOWN_JOBS: Final = 100
"""Jobs that are remembered, of those that no worker reports any more."""

P = ParamSpec("P")
T = TypeVar("T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _KnownJob:
    """A job as its worker last reported it."""

    job: Job
    worker: WorkerProcess

    def now(self) -> Job:
        """A job without a record ends with the worker that runs it."""
        if self.job.state not in {"queued", "running"} or self.worker.exit_code is None:
            return self.job
        if self.job.survives:  # another worker, or the same one anew, goes on with it
            return replace(self.job, state="queued", waiting_for="the worker that ran it has ended")
        return replace(self.job, state="failed", reason="the worker that ran it has ended")


class NodeControl(SharedControl):
    """Implements forebay.server.admin.control.Control. `text`, `mode`: what `settings` were made of."""

    def __init__(self, pool: WorkerPool, settings: Settings, source: ConfigSource, text: str | None, mode: int) -> None:
        super().__init__(settings, source)
        self.text = text
        self.mode = mode
        self.poll_timeout = POLL_TIMEOUT
        self.change_lock = asyncio.Lock()
        """Held while something changes, and while a worker starts: it starts with what is in force when it serves."""
        self._pool = pool
        self._started = time.monotonic()
        self._known_jobs: dict[str, _KnownJob] = {}

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
        """What is wrong with the origin by new reports, as sentences; None: a worker has not looked at it yet."""
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
                async with asyncio.timeout(self.poll_timeout):
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

    # The configuration

    async def reload(self) -> None:
        """The effect of SIGHUP: reopened files, and the configuration read again."""
        await self._call_every_worker(request_document(WorkerRpc.reopen_files))
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
            await self._call_every_worker(request_document(WorkerRpc.commit_config))
            return answer

    async def resize(self, tier: TierName, size: str) -> Resized | None:
        """Resize a tier in all workers."""
        capacity = parse_capacity(tier, size)
        async with self.change_lock:
            if tier == "ssd" and self.settings.ssd is None:
                return None
            before = next((each.capacity for each in (await self.stats()).tiers if each.name == tier), 0)
            self.size_overrides.set(tier, capacity)
            share = self._worker_share(tier, capacity)
            await self._call_every_worker(request_document(WorkerRpc.resize_tier, tier, share))
            return Resized(tier, before, capacity)

    def worker_sizes(self) -> dict[TierName, int]:
        """The capacities set over the configured ones, one worker's share."""
        return {tier: self._worker_share(tier, size) for tier, size in self.size_overrides.items()}

    def _worker_share(self, tier: TierName, size: int) -> int:
        return size // self._pool.worker_count if tier == "memory" else size

    # Warm-up

    async def _start_job(self, order: WarmOrder) -> Job | None:
        """Start the job in the first live worker."""
        worker, job = await self._call_first_worker(Control.start_job, order)
        if job is not None:
            self._known_jobs[job.id] = _KnownJob(job, worker)
        return job

    async def start_pack(self, order: PackRequest) -> Job:
        """Start the job in the first live worker."""
        worker, job = await self._call_first_worker(Control.start_pack, order)
        self._known_jobs[job.id] = _KnownJob(job, worker)
        return job

    async def extend_list(self, list_id: str, entries: list[KeyListEntry]) -> KeyList | None:
        """Add objects to a list in the first live worker, where its job is started."""
        return await self._call_first(Control.extend_list, list_id, entries)

    async def job_failures(self, job_id: str, after: int = 0, limit: int = MAX_PAGE) -> FailurePage | None:
        """Of the worker that knows the job."""
        answers = await self._call_workers(Control.job_failures, job_id, after, limit)
        return next((page for _, page in answers if page is not None), None)

    async def jobs(self) -> JobList:
        """The workers' jobs, and those of workers that exited."""
        reported = {
            job.id: _KnownJob(job, worker)
            for worker, answer in await self._call_workers(Control.jobs)
            for job in answer.jobs
        }
        others = [job_id for job_id in self._known_jobs if job_id not in reported]
        for old in others[: max(0, len(others) - MAX_KNOWN_JOBS)]:
            del self._known_jobs[old]
        self._known_jobs |= reported
        known = (known.now() for known in self._known_jobs.values())
        return JobList(tuple(sorted(known, key=lambda job: job.started_at, reverse=True)))

    async def cancel_job(self, job_id: str) -> Job | None:
        """Raises Throttled when the worker that runs it does not answer."""
        for _, cancelled in await self._call_workers(Control.cancel_job, job_id):
            if cancelled is not None:
                return cancelled
        job = await self.job(job_id)
        if job is not None and job.state in {"queued", "running"}:
            raise Throttled("the worker that runs it does not answer")
        return job

    # Recordings: every worker reaches those of the node

    async def recordings(self, bucket: str = "") -> RecordingList:
        """Of the node."""
        return await self._call_first(Control.recordings, bucket)

    async def recording_part(self, bucket: str, name: str, offset: int = 0) -> RecordingPart | None:
        """Of the node's."""
        return await self._call_first(Control.recording_part, bucket, name, offset)

    async def store_recording(self, bucket: str, name: str, content: str) -> RecordingStored:
        """In the node's."""
        return await self._call_first(Control.store_recording, bucket, name, content)

    async def save_recording(
        self, bucket: str, name: str, source: str = "", shared: bool = False
    ) -> RecordingStored | None:
        """Of the node's."""
        return await self._call_first(Control.save_recording, bucket, name, source, shared)

    async def replay_recording(self, bucket: str, name: str, order: ReplayOrder) -> Job | None:
        """In the first live worker."""
        worker, job = await self._call_first_worker(Control.replay_recording, bucket, name, order)
        if job is not None:
            self._known_jobs[job.id] = _KnownJob(job, worker)
        return job

    async def remove_recording(self, bucket: str, name: str) -> RecordingRemoved | None:
        """Of the node's."""
        return await self._call_first(Control.remove_recording, bucket, name)

    # Pending writes: every worker reaches the one that carries them out

    async def pending_writes(
        self, bucket: str = "", prefix: str = "", state: str = "", after: str = "", limit: int = MAX_PAGE
    ) -> PendingPage | None:
        """Of the node."""
        return await self._call_first(Control.pending_writes, bucket, prefix, state, after, limit)

    async def flush_writes(self, bucket: str, prefix: str = "", wait: float = 0.0, before: str = "") -> Flushed | None:
        """Of the node's writes."""
        return await self._call_first(Control.flush_writes, bucket, prefix, wait, before)

    async def pending_write(self, write_id: str) -> PendingWrite | None:
        """Of the node's."""
        return await self._call_first(Control.pending_write, write_id)

    async def pending_content(self, write_id: str, offset: int = 0) -> PendingContent | None:
        """Of the node's."""
        return await self._call_first(Control.pending_content, write_id, offset)

    async def retry_write(self, write_id: str) -> PendingRetried | None:
        """Of the node's."""
        return await self._call_first(Control.retry_write, write_id)

    async def discard_write(self, write_id: str, bucket: str, key: str) -> PendingDiscarded | None:
        """Of the node's."""
        return await self._call_first(Control.discard_write, write_id, bucket, key)

    # Pins

    async def pins(self) -> PinList:
        """As all workers see them."""
        return merged_pins([answer for _, answer in await self._call_workers(Control.pins)])

    async def _change_pins(self, bucket: str, prefix: str, *, is_pinned: bool) -> PinChange:
        async with self.change_lock:
            change = await self._call_first(WorkerRpc.change_pins, bucket, prefix, is_pinned)
            if change.problem is None:
                await self._call_every_worker(request_document(WorkerRpc.load_pins))
            return change

    # Plans

    async def plans(self) -> PlanList:
        """The plans, which one of the workers runs."""
        return await self._call_first(Control.plans)

    async def send_plan(self, order: PlanOrder) -> PlanSent:
        """To any worker."""
        return await self._call_first(Control.send_plan, order)

    async def cancel_plan(self, plan_id: str) -> PlanProgress | None:
        """End the plan, through any worker."""
        return await self._call_first(Control.cancel_plan, plan_id)

    # The cache

    async def list_cached(self, bucket: str, prefix: str = "", after: str = "", limit: int = MAX_PAGE) -> CachePage:
        """A page of all workers' views, merged. Raises Throttled when a worker exits meanwhile."""
        views = [RemoteCacheView(worker.peer) for worker in self._pool.alive]
        try:
            return await list_cached_objects(views, bucket, prefix, after, limit)
        except PeerUnavailable as gone:
            raise Throttled(f"a worker ended meanwhile: {gone}") from gone

    async def data_sets(self) -> DataSetList:
        """The data sets of all workers together."""
        answers = await self._call_workers(Control.data_sets)
        return DataSetList(merged_rows([answer.data_sets for _, answer in answers]))

    async def advice(self, source: AdviceSource = "reads") -> AdviceList:
        """That of the worker which knows all reads, and keeps the recordings."""
        answers = await self._call_workers(Control.advice, source)
        return AdviceList(tuple(row for _, answer in answers for row in answer.data_sets))

    async def _is_in_doubt(self, name: ObjectName) -> bool:
        # Every worker knows the writes in doubt.
        return (await self._call_first(Control.explain, name.bucket, name.key, "")).in_doubt

    async def _drop_listings(self, bucket: str, prefix: str) -> None:
        await self._call_every_worker({"kind": "drop_listings", "bucket": bucket, "prefix": prefix})

    async def _invalidate(self, names: Sequence[ObjectName]) -> None:
        await self._call_first(WorkerRpc.invalidate, list(names))

    # Calls

    async def _call_every_worker(self, document: Document) -> None:
        """Have every live worker carry out a call; one that does not answer is killed."""
        await asyncio.gather(*(worker.peer.call_until_acked(document, FENCE_TIMEOUT) for worker in self._pool.alive))

    async def _call_workers(
        self, method: Callable[Concatenate[Any, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> list[tuple[WorkerProcess, T]]:
        """Call all workers; the results of those that answer in time."""

        async def call_one(worker: WorkerProcess) -> tuple[WorkerProcess, T] | None:
            try:
                async with asyncio.timeout(self.poll_timeout):
                    return worker, await call(worker.peer, method, *args, **kwargs)
            except (TimeoutError, PeerUnavailable):
                return None

        answers = await asyncio.gather(*map(call_one, self._pool.alive))
        return [answer for answer in answers if answer is not None]

    async def _call_first(
        self, method: Callable[Concatenate[Any, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call the first worker that is there. Raises Throttled when none is."""
        return (await self._call_first_worker(method, *args, **kwargs))[1]

    async def _call_first_worker(
        self, method: Callable[Concatenate[Any, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> tuple[WorkerProcess, T]:
        for worker in self._pool.alive:
            try:
                return worker, await call(worker.peer, method, *args, **kwargs)
            except PeerUnavailable:
                continue
        raise Throttled("no worker runs")

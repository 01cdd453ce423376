"""The admin port's Control over a node of several workers: asks all of them, and tells all of them or none.

A configuration goes to all in two steps: each says whether it would do, then each takes it. A worker that does not
answer the second is killed, and begins anew with it. So when a change is confirmed, every worker that answers anybody
has made it. No worker begins while something changes.

Warm-up jobs are run by one worker, each object by its owner. A job ends with the worker that runs it.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from forebay.core.errors import ForebayError, SettingsError, Throttled
from forebay.core.events import TierName
from forebay.core.units import format_size
from forebay.peers.frames import Document, PeerUnavailable
from forebay.peers.peer_client import FENCE_TIMEOUT
from forebay.peers.peer_codec import encode_names
from forebay.server.admin.admin_schema import (
    CachePage,
    ConfigChanged,
    Job,
    NoConfigFile,
    NoSuchTier,
    NotReady,
    Purged,
    Ready,
    Resized,
    WarmKeys,
    WarmOrder,
)
from forebay.server.admin.admin_schema import Document as AdminDocument
from forebay.server.admin.cached_objects import PURGE_PAGE_SIZE, list_cached_objects
from forebay.server.admin.stats_schema import Stats
from forebay.server.config_source import SENT_NAME, parse_capacity, set_log_level
from forebay.settings.effective_config import changed_paths, effective_config
from forebay.settings.live_changes import applied_settings, restart_needed
from forebay.workers.node_state import NodeState
from forebay.workers.remote_worker import RemoteCacheView, read_job
from forebay.workers.worker_process import WorkerProcess

POLL_TIMEOUT: Final = 5.0
"""Seconds that whoever wants to know waits for a worker; then what was seen last is told."""
MAX_KNOWN_JOBS: Final = 100
"""Jobs that are remembered, of those that no worker tells of."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _KnownJob:
    """A job as its worker last told of it."""

    job: Job
    worker: WorkerProcess

    def now(self) -> Job:
        """A job ends with the worker that runs it."""
        if self.job.state != "running" or self.worker.exit_code is None:
            return self.job
        return replace(self.job, state="failed", reason="the worker that ran it has ended")


class NodeControl:
    """Implements forebay.server.admin.admin_schema.Control."""

    def __init__(self, standing: NodeState) -> None:
        self._state = standing
        self.poll_timeout = POLL_TIMEOUT
        self.change_lock = asyncio.Lock()
        """Held while something changes, and while a worker begins: it begins with what is in force when it serves."""
        self._known_jobs: dict[str, _KnownJob] = {}

    # What is known

    async def readiness(self) -> Ready | NotReady:
        reasons = []
        alive = self._state.alive
        if len(alive) < self._state.worker_count:
            reasons.append(f"Only {len(alive)} of {self._state.worker_count} workers run.")
        if not all(worker.report for worker in alive):  # one that has just begun; else what is known will do
            await self._poll()
        if not all(worker.report.get("reachable") for worker in alive):
            reasons.append("The origin can't be reached.")
        return NotReady(tuple(reasons)) if reasons else Ready()

    async def metrics(self) -> str:
        await self._poll()
        return self._state.metrics_text()

    async def stats(self) -> Stats:
        await self._poll()
        return self._state.stats()

    async def _poll(self) -> None:
        async def look(worker: WorkerProcess) -> None:
            try:
                async with asyncio.timeout(self.poll_timeout):
                    worker.report = await worker.peer.call({"kind": "look"})
            except (TimeoutError, ForebayError):
                _log.info("%r does not answer", worker)

        await asyncio.gather(*map(look, self._state.alive))

    # The configuration

    async def config(self) -> AdminDocument:
        return effective_config(self._state.size_overrides.apply(self._state.settings))

    async def replace_config(self, toml: str) -> ConfigChanged:
        return await self._apply(toml, 0o600, SENT_NAME)

    async def reload_config(self) -> ConfigChanged | NoConfigFile:
        if self._state.source.file is None:
            return NoConfigFile()
        return await self._apply(*await self._state.source.reread())

    async def reload(self) -> None:
        """What SIGHUP asks for."""
        await self._call_every_worker({"kind": "look again"})
        try:
            answer = await self.reload_config()
        except SettingsError as error:
            _log.error("the configuration is refused, nothing has changed: %s", error)
        else:
            _log.info("configuration: %s", answer)

    async def _apply(self, text: str | None, mode: int, named: str | None = None) -> ConfigChanged:
        async with self.change_lock:
            standing = self._state
            loaded = await asyncio.to_thread(standing.source.load_text, text, mode, named)
            prepare = {"kind": "prepare", "text": text, "mode": mode}
            for worker in standing.alive:
                try:
                    answer = await worker.peer.call(prepare)
                except PeerUnavailable:
                    continue  # it has ended, and begins with what is in force by then
                if "refused" in answer:
                    where, given, allowed = answer["refused"]
                    raise SettingsError(where, given, allowed)
            old, new = standing.settings, loaded.settings
            taken = applied_settings(old, new)
            standing.text, standing.mode, standing.settings = text, mode, taken
            for tier, size in standing.size_overrides.drop_changed(old, taken):
                _log.info("the %s tier has %s from here on", tier, format_size(size))
            set_log_level(new)
            await self._call_every_worker({"kind": "commit"})
            return ConfigChanged(tuple(changed_paths(old, new)), tuple(restart_needed(old, new)))

    async def _call_every_worker(self, document: Document) -> None:
        """Have every worker that lives do it."""
        await asyncio.gather(*(worker.peer.call_until_acked(document, FENCE_TIMEOUT) for worker in self._state.alive))

    # Warm-up

    async def start_job(self, order: WarmOrder) -> Job:
        question: Document = {"kind": "start job", "bucket": order.bucket, "concurrency": order.concurrency}
        more = {"keys": list(order.keys)} if isinstance(order, WarmKeys) else {"prefix": order.prefix}
        return read_job((await self._call_first(question | more))["job"])

    async def jobs(self) -> Sequence[Job]:
        told: dict[str, _KnownJob] = {}
        for worker, answer in await self._call_workers({"kind": "jobs"}):
            told |= {job["id"]: _KnownJob(read_job(job), worker) for job in answer["jobs"]}
        others = [job_id for job_id in self._known_jobs if job_id not in told]
        for old in others[: max(0, len(others) - MAX_KNOWN_JOBS)]:
            del self._known_jobs[old]
        self._known_jobs |= told
        return sorted((seen.now() for seen in self._known_jobs.values()), key=lambda job: job.started_at, reverse=True)

    async def job(self, job_id: str) -> Job | None:
        return next((job for job in await self.jobs() if job.id == job_id), None)

    async def cancel_job(self, job_id: str) -> Job | None:
        """Raises Throttled when the worker that runs it does not answer."""
        for _, answer in await self._call_workers({"kind": "cancel job", "job": job_id}):
            if answer["job"] is not None:
                return read_job(answer["job"])
        job = await self.job(job_id)
        if job is not None and job.state == "running":
            raise Throttled("the worker that runs it does not answer")
        return job

    async def _call_workers(self, question: Document) -> list[tuple[WorkerProcess, Document]]:
        """Ask all workers; the answers of those that gave one in time."""

        async def asked(worker: WorkerProcess) -> Document | None:
            try:
                async with asyncio.timeout(self.poll_timeout):
                    return await worker.peer.call(question)
            except (TimeoutError, PeerUnavailable):
                return None

        alive = self._state.alive
        answers = await asyncio.gather(*map(asked, alive))
        return [(worker, answer) for worker, answer in zip(alive, answers, strict=True) if answer is not None]

    async def _call_first(self, question: Document) -> Document:
        """Ask the first worker that is there. Raises Throttled when none is."""
        for worker in self._state.alive:
            try:
                return await worker.peer.call(question)
            except PeerUnavailable:
                continue
        raise Throttled("no worker runs")

    # The cache

    async def list_cached(self, bucket: str, prefix: str, after: str, limit: int) -> CachePage:
        shelves = [RemoteCacheView(worker.peer) for worker in self._state.alive]
        try:
            return await list_cached_objects(shelves, bucket, prefix, after, limit)
        except PeerUnavailable as gone:
            raise Throttled(f"a worker ended meanwhile: {gone}") from gone

    async def purge(self, bucket: str, prefix: str) -> Purged:
        objects = size = 0
        after = ""
        while True:
            page = await self.list_cached(bucket, prefix, after, PURGE_PAGE_SIZE)
            objects += len(page.objects)
            size += sum(each.cached for each in page.objects)
            names = encode_names(each.name for each in page.objects)
            await self._call_first({"kind": "invalidate", **names})
            if page.next is None:
                break
            after = page.next
        return Purged(objects, size)

    async def resize(self, tier: TierName, size: str) -> Resized | NoSuchTier:
        capacity = parse_capacity(tier, size)
        async with self.change_lock:
            standing = self._state
            if tier == "ssd" and standing.settings.ssd is None:
                return NoSuchTier()
            figures = await self.stats()
            before = next((each.occupancy.capacity for each in figures.tiers if each.name == tier), 0)
            standing.size_overrides.set(tier, capacity)
            await self._call_every_worker(
                {"kind": "resize", "tier": tier, "size": standing.worker_share(tier, capacity)}
            )
            return Resized(tier, before, capacity)

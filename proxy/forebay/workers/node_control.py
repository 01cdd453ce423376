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
from forebay.peers.frames import Document, PeerGone
from forebay.peers.peer_client import FENCE_PATIENCE
from forebay.peers.peer_codec import names_document
from forebay.server.admin.cached_objects import PURGE_PAGE, cached_objects
from forebay.server.admin.control import (
    ConfigChanged,
    Job,
    Listing,
    NoConfigFile,
    NoSuchTier,
    NotReady,
    Purged,
    Ready,
    Resized,
    WarmKeys,
    WarmOrder,
)
from forebay.server.admin.control import Document as AdminDocument
from forebay.server.admin.stats_model import Figures
from forebay.server.config_source import SENT, set_log_level
from forebay.server.size_overrides import capacity_of
from forebay.settings.effective_config import changed, effective
from forebay.settings.restart import in_force, restart_needed
from forebay.workers.node_state import Standing
from forebay.workers.remote_worker import RemoteShelf, read_job
from forebay.workers.worker_process import WorkerProcess

LOOK_PATIENCE: Final = 5.0
"""Seconds that whoever wants to know waits for a worker; then what was seen last is told."""
KEPT: Final = 100
"""Jobs that are remembered, of those that no worker tells of."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Seen:
    """A job as its worker last told of it."""

    job: Job
    worker: WorkerProcess

    def now(self) -> Job:
        """A job ends with the worker that runs it."""
        if self.job.state != "running" or self.worker.code is None:
            return self.job
        return replace(self.job, state="failed", reason="the worker that ran it has ended")


class NodeControl:
    """Implements forebay.server.admin.control.Control."""

    def __init__(self, standing: Standing) -> None:
        self._standing = standing
        self.patience = LOOK_PATIENCE
        self.changing = asyncio.Lock()
        """Held while something changes, and while a worker begins: it begins with what is in force when it serves."""
        self._seen: dict[str, _Seen] = {}

    # What is known

    async def readiness(self) -> Ready | NotReady:
        reasons = []
        alive = self._standing.alive
        if len(alive) < self._standing.workers:
            reasons.append(f"Only {len(alive)} of {self._standing.workers} workers run.")
        if not all(worker.look for worker in alive):  # one that has just begun; else what is known will do
            await self._look()
        if not all(worker.look.get("reachable") for worker in alive):
            reasons.append("The origin can't be reached.")
        return NotReady(tuple(reasons)) if reasons else Ready()

    async def metrics(self) -> str:
        await self._look()
        return self._standing.exposition()

    async def figures(self) -> Figures:
        await self._look()
        return self._standing.figures()

    async def _look(self) -> None:
        async def look(worker: WorkerProcess) -> None:
            try:
                async with asyncio.timeout(self.patience):
                    worker.look = await worker.peer.call({"kind": "look"})
            except (TimeoutError, ForebayError):
                _log.info("%r does not answer", worker)

        await asyncio.gather(*map(look, self._standing.alive))

    # The configuration

    async def config(self) -> AdminDocument:
        return effective(self._standing.resized.over(self._standing.settings))

    async def replace_config(self, toml: str) -> ConfigChanged:
        return await self._take(toml, 0o600, SENT)

    async def reload_config(self) -> ConfigChanged | NoConfigFile:
        if self._standing.source.file is None:
            return NoConfigFile()
        return await self._take(*await self._standing.source.reread())

    async def reload(self) -> None:
        """What SIGHUP asks for."""
        await self._tell({"kind": "look again"})
        try:
            answer = await self.reload_config()
        except SettingsError as error:
            _log.error("the configuration is refused, nothing has changed: %s", error)
        else:
            _log.info("configuration: %s", answer)

    async def _take(self, text: str | None, mode: int, named: str | None = None) -> ConfigChanged:
        async with self.changing:
            standing = self._standing
            loaded = await asyncio.to_thread(standing.source.load_text, text, mode, named)
            prepare = {"kind": "prepare", "text": text, "mode": mode}
            for worker in standing.alive:
                try:
                    answer = await worker.peer.call(prepare)
                except PeerGone:
                    continue  # it has ended, and begins with what is in force by then
                if "refused" in answer:
                    where, given, allowed = answer["refused"]
                    raise SettingsError(where, given, allowed)
            old, new = standing.settings, loaded.settings
            taken = in_force(old, new)
            standing.text, standing.mode, standing.settings = text, mode, taken
            for tier, size in standing.resized.configured(old, taken):
                _log.info("the %s tier has %s from here on", tier, format_size(size))
            set_log_level(new)
            await self._tell({"kind": "commit"})
            return ConfigChanged(tuple(changed(old, new)), tuple(restart_needed(old, new)))

    async def _tell(self, document: Document) -> None:
        """Have every worker that lives do it."""
        await asyncio.gather(*(worker.peer.insist(document, FENCE_PATIENCE) for worker in self._standing.alive))

    # Warm-up

    async def start_job(self, order: WarmOrder) -> Job:
        question: Document = {"kind": "start job", "bucket": order.bucket, "concurrency": order.concurrency}
        more = {"keys": list(order.keys)} if isinstance(order, WarmKeys) else {"prefix": order.prefix}
        return read_job((await self._one(question | more))["job"])

    async def jobs(self) -> Sequence[Job]:
        told: dict[str, _Seen] = {}
        for worker, answer in await self._asked({"kind": "jobs"}):
            told |= {job["id"]: _Seen(read_job(job), worker) for job in answer["jobs"]}
        others = [job_id for job_id in self._seen if job_id not in told]
        for old in others[: max(0, len(others) - KEPT)]:
            del self._seen[old]
        self._seen |= told
        return sorted((seen.now() for seen in self._seen.values()), key=lambda job: job.started_at, reverse=True)

    async def job(self, job_id: str) -> Job | None:
        return next((job for job in await self.jobs() if job.id == job_id), None)

    async def cancel_job(self, job_id: str) -> Job | None:
        """Raises Throttled when the worker that runs it does not answer."""
        for _, answer in await self._asked({"kind": "cancel job", "job": job_id}):
            if answer["job"] is not None:
                return read_job(answer["job"])
        job = await self.job(job_id)
        if job is not None and job.state == "running":
            raise Throttled("the worker that runs it does not answer")
        return job

    async def _asked(self, question: Document) -> list[tuple[WorkerProcess, Document]]:
        """Ask all workers; the answers of those that gave one in time."""

        async def asked(worker: WorkerProcess) -> Document | None:
            try:
                async with asyncio.timeout(self.patience):
                    return await worker.peer.call(question)
            except (TimeoutError, PeerGone):
                return None

        alive = self._standing.alive
        answers = await asyncio.gather(*map(asked, alive))
        return [(worker, answer) for worker, answer in zip(alive, answers, strict=True) if answer is not None]

    async def _one(self, question: Document) -> Document:
        """Ask the first worker that is there. Raises Throttled when none is."""
        for worker in self._standing.alive:
            try:
                return await worker.peer.call(question)
            except PeerGone:
                continue
        raise Throttled("no worker runs")

    # The cache

    async def cached(self, bucket: str, prefix: str, after: str, limit: int) -> Listing:
        shelves = [RemoteShelf(worker.peer) for worker in self._standing.alive]
        try:
            return await cached_objects(shelves, bucket, prefix, after, limit)
        except PeerGone as gone:
            raise Throttled(f"a worker ended meanwhile: {gone}") from gone

    async def purge(self, bucket: str, prefix: str) -> Purged:
        objects = size = 0
        after = ""
        while True:
            page = await self.cached(bucket, prefix, after, PURGE_PAGE)
            objects += len(page.objects)
            size += sum(each.cached for each in page.objects)
            names = names_document(each.name for each in page.objects)
            await self._one({"kind": "invalidate", **names})
            if page.next is None:
                break
            after = page.next
        return Purged(objects, size)

    async def resize(self, tier: TierName, size: str) -> Resized | NoSuchTier:
        capacity = capacity_of(tier, size)
        async with self.changing:
            standing = self._standing
            if tier == "ssd" and standing.settings.ssd is None:
                return NoSuchTier()
            figures = await self.figures()
            before = next((each.occupancy.capacity for each in figures.tiers if each.name == tier), 0)
            standing.resized.note(tier, capacity)
            await self._tell({"kind": "resize", "tier": tier, "size": standing.share(tier, capacity)})
            return Resized(tier, before, capacity)

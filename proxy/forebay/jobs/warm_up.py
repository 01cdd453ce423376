"""Warm-up jobs: bring every object under a prefix, or each of a list, into the cache.

    listing ──> inventory ──> queue (bounded) ──> N tasks, an object each      (jobs.object_warmer)
                    └───────> what is cached of it at the end                  (jobs.cache_residency)

It is listed to the end before anything is fetched, so that it is known whether everything fits. An object counts as
done when it is stored; later ones may evict it, so what is kept is counted at the end. A failure is recorded and the
job goes on. Jobs end with the process; none is resumed.
"""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Final, Protocol, TypeAlias

from forebay.core.errors import ForebayError, OriginError, Throttled
from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.jobs.cache_residency import CacheResidency
from forebay.jobs.inventory import Inventory
from forebay.jobs.object_warmer import ObjectWarmer
from forebay.jobs.warm_up_job import WarmUpJob

DEFAULT_CONCURRENCY: Final = 8
"""Objects at once."""
MAX_CONCURRENCY: Final = 256
MAX_RUNNING: Final = 16
MAX_ENDED: Final = 100
"""Jobs that have ended and are still listed."""


class ListingEntry(Protocol):
    """An object of a listing."""

    @property
    def key(self) -> str:
        """Its key."""
        ...

    @property
    def size(self) -> int:
        """Its size in bytes."""
        ...


ObjectLister: TypeAlias = Callable[[str, str], AsyncIterator[ListingEntry]]
"""Lists a bucket under a prefix. Raises OriginError."""

_log = logging.getLogger(__name__)


class WarmUps:
    """Runs warm-up jobs. `on_object(result)` is called for each object: "warmed" or "failed"."""

    def __init__(
        self,
        list_objects: ObjectLister,
        warmer: ObjectWarmer,
        residency: CacheResidency,
        tasks: TaskRegistry,
        clock: Callable[[], float],
        on_object: Callable[[str], None],
    ) -> None:
        self._list_objects = list_objects
        self._warmer = warmer
        self._residency = residency
        self._tasks = tasks
        self._clock = clock
        self._on_object = on_object
        self._jobs: dict[str, WarmUpJob] = {}
        self._running: dict[str, asyncio.Task[None]] = {}

    @property
    def running(self) -> int:
        """How many jobs run."""
        return len(self._running)

    def start(
        self,
        bucket: str,
        *,
        prefix: str | None = None,
        keys: Sequence[str] = (),
        concurrency: int | None = None,
        check: bool = False,
        if_fits: bool = False,
    ) -> WarmUpJob:
        """Starts a job over a prefix, or over `keys` where `prefix` is None. Raises Throttled when too many run."""
        if len(self._running) >= MAX_RUNNING:
            raise Throttled(f"{MAX_RUNNING} warm-up jobs are running")
        job = WarmUpJob(
            secrets.token_hex(4),
            bucket,
            prefix,
            max(1, min(concurrency or DEFAULT_CONCURRENCY, MAX_CONCURRENCY)),
            self._clock(),
            check=check,
            if_fits=if_fits,
        )
        inventory = Inventory()
        if prefix is None:
            for key in keys:
                inventory.add(key)
            job.listed = len(keys)
            job.end_listing(self._residency.capacity())
        self._jobs[job.id] = job
        ended = [each.id for each in self._jobs.values() if each.state != "running"]
        for old in ended[: max(0, len(ended) - MAX_ENDED)]:
            del self._jobs[old]
        task = self._running[job.id] = self._tasks.spawn(self._run(job, inventory), f"warm {bucket}/{prefix or ''}")
        task.add_done_callback(lambda done: self._job_done(job, done))
        return job

    def jobs(self) -> list[WarmUpJob]:
        """Returns the jobs that run and the latest that ended, newest first."""
        return list(reversed(self._jobs.values()))

    def job(self, job_id: str) -> WarmUpJob | None:
        """Returns a job; None: unknown."""
        return self._jobs.get(job_id)

    async def cancel(self, job_id: str) -> WarmUpJob | None:
        """Ends a job and returns it. Nothing is fetched for it any more."""
        task = self._running.get(job_id)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        return self._jobs.get(job_id)

    async def wait(self, job_id: str) -> None:
        """Waits until a job has ended."""
        task = self._running.get(job_id)
        if task is not None:
            await asyncio.wait([task])

    async def _run(self, job: WarmUpJob, inventory: Inventory) -> None:
        if job.prefix is not None:
            await self._list(job, job.prefix, inventory)
            job.end_listing(self._residency.capacity())
            if job.fits is False and not job.check:
                _log.warning(
                    "warm-up job %s: %d objects of s3://%s/%s have %d bytes, and the cache keeps %d: not all will stay",
                    *(job.id, job.listed, job.bucket, job.prefix, job.bytes_listed, job.capacity),
                )
        if job.may_fetch:
            queue: asyncio.Queue[str | None] = asyncio.Queue(maxsize=4 * job.concurrency)
            async with asyncio.TaskGroup() as group:
                for _ in range(job.concurrency):
                    group.create_task(self._warm_queue(job, queue))
                for page in inventory.pages():
                    for entry in page:
                        await queue.put(entry.key)
                for _ in range(job.concurrency):
                    await queue.put(None)
            await self._residency.settle()
        await self._count_kept(job, inventory)
        job.end()

    def _job_done(self, job: WarmUpJob, task: asyncio.Task[None]) -> None:
        if task.cancelled():  # perhaps before `_run` began
            job.state = "cancelled"
        elif (defect := task.exception()) is not None:  # the job must not stay "running" for ever
            first = defect.exceptions[0] if isinstance(defect, BaseExceptionGroup) else defect
            job.state, job.reason = "failed", f"{first!r}"
        job.ended_at = self._clock()
        del self._running[job.id]
        kept = "not counted" if job.kept is None else f"{job.kept} are cached at the end"
        _log.info("warm-up job %s is %s: %d of %d objects, %s", job.id, job.state, job.done, job.listed, kept)

    async def _list(self, job: WarmUpJob, prefix: str, inventory: Inventory) -> None:
        try:
            async for entry in self._list_objects(job.bucket, prefix):
                inventory.add(entry.key, entry.size)
                job.listed += 1
                job.bytes_listed += entry.size
        except OriginError as error:
            job.reason = f"{'the listing broke off' if job.listed else 'no listing'}: {error.reason}"

    async def _count_kept(self, job: WarmUpJob, inventory: Inventory) -> None:
        """Counts what is cached. Of an object that has changed since it was listed, another version may be."""
        kept = 0
        for page in inventory.pages():
            found = await self._residency.look_up([ObjectName(job.bucket, entry.key) for entry in page])
            for entry, resident in zip(page, found, strict=True):
                if job.check:
                    job.done += 1
                if resident is None:
                    continue
                kept += resident.is_whole and entry.size in {None, resident.size}
                job.bytes_kept += resident.cached
                job.bytes_in_memory += resident.memory
                job.bytes_on_ssd += resident.ssd
                if job.check and entry.size is None:
                    job.bytes_listed += resident.size
        job.kept = kept

    async def _warm_queue(self, job: WarmUpJob, queue: asyncio.Queue[str | None]) -> None:
        while (key := await queue.get()) is not None:
            problem = await self._warm(ObjectName(job.bucket, key), job)
            if problem is None:
                job.done += 1
                self._on_object("warmed")
            else:
                job.fail(key, problem)
                self._on_object("failed")

    async def _warm(self, name: ObjectName, job: WarmUpJob) -> str | None:
        """Warms one object. Returns why it failed, or None."""
        try:
            async with aclosing(self._warmer.warm(name)) as progresses:
                async for progress in progresses:
                    match progress.kind:
                        case "size" if job.prefix is None:
                            job.bytes_listed += progress.size
                        case "arrived":
                            job.bytes_done += progress.size
                        case "problem":
                            return progress.problem
                        case _:
                            pass
        except ForebayError as error:
            return str(error)
        return None

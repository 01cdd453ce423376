"""Warm-up jobs: bring every object under a prefix, or each of a list, into the cache.

    listing ──> queue (bounded) ──> N tasks, an object each        (jobs.object_warmer)

An object counts as done when it is stored. A failure is recorded and the job goes on. Jobs end with the process; none
is resumed.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypeAlias

from forebay.core.errors import ForebayError, OriginError, Throttled
from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.jobs.object_warmer import ObjectWarmer

DEFAULT_CONCURRENCY: Final = 8
"""Objects at once."""
MAX_CONCURRENCY: Final = 256
MAX_RUNNING: Final = 16
MAX_ENDED: Final = 100
"""Jobs that have ended and are still listed."""
MAX_FAILURES: Final = 1000
"""Failures recorded of one job."""

JobState: TypeAlias = Literal["running", "done", "failed", "cancelled"]


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


@dataclass(slots=True)
class WarmUpJob:
    """The state of one job. Sizes in bytes, times in seconds since the epoch."""

    id: str
    bucket: str
    prefix: str | None
    """None: the job has a list of keys."""
    concurrency: int
    started_at: float
    state: JobState = "running"
    reason: str | None = None
    ended_at: float | None = None
    listed: int = 0
    listing_ended: bool = False
    done: int = 0
    failed: int = 0
    bytes_listed: int = 0
    bytes_done: int = 0
    failures: list[tuple[str, str]] = field(default_factory=list)
    """The first MAX_FAILURES, as key and reason."""

    def fail(self, key: str, reason: str) -> None:
        """Records a failure."""
        self.failed += 1
        if len(self.failures) < MAX_FAILURES:
            self.failures.append((key, reason))


class WarmUps:
    """Runs warm-up jobs. `on_object(result)` is called for each object: "warmed" or "failed"."""

    def __init__(
        self,
        list_objects: ObjectLister,
        warmer: ObjectWarmer,
        tasks: TaskRegistry,
        clock: Callable[[], float],
        on_object: Callable[[str], None],
    ) -> None:
        self._list_objects = list_objects
        self._warmer = warmer
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
        self, bucket: str, *, prefix: str | None = None, keys: Sequence[str] = (), concurrency: int | None = None
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
        )
        self._jobs[job.id] = job
        ended = [each.id for each in self._jobs.values() if each.state != "running"]
        for old in ended[: max(0, len(ended) - MAX_ENDED)]:
            del self._jobs[old]
        task = self._running[job.id] = self._tasks.spawn(self._run(job, list(keys)), f"warm {bucket}/{prefix or ''}")
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

    async def _run(self, job: WarmUpJob, keys: list[str]) -> None:
        queue: asyncio.Queue[str | None] = asyncio.Queue(maxsize=4 * job.concurrency)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(job.concurrency):
                    group.create_task(self._warm_queue(job, queue))
                await self._list(job, keys, queue)
                job.listing_ended = True
                for _ in range(job.concurrency):
                    await queue.put(None)
        except ExceptionGroup as failures:  # a defect here: the job must not stay "running" for ever
            job.state, job.reason = "failed", f"{failures.exceptions[0]!r}"
        else:
            job.state = "failed" if job.failed or job.reason is not None else "done"

    def _job_done(self, job: WarmUpJob, task: asyncio.Task[None]) -> None:
        if task.cancelled():  # perhaps before `_run` began
            job.state = "cancelled"
        job.ended_at = self._clock()
        del self._running[job.id]

    async def _list(self, job: WarmUpJob, keys: list[str], queue: asyncio.Queue[str | None]) -> None:
        if job.prefix is None:
            for key in keys:
                job.listed += 1
                await queue.put(key)
            return
        try:
            async for entry in self._list_objects(job.bucket, job.prefix):
                job.listed += 1
                job.bytes_listed += entry.size
                await queue.put(entry.key)
        except OriginError as error:
            job.reason = f"the listing broke off: {error.reason}"

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

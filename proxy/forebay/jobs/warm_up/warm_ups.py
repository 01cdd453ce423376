"""Warm-up jobs: bring every object of some prefixes, globs and lists into the cache.

    start ──> queued ──at most MAX_RUNNING at once──> running (jobs.warm_up.warm_up_run) ──> ended, listed for a while
                 ▲
    adopt ───────┘  the unended jobs of a run before, or of a worker that has ended

Jobs that run share the background turns fairly (origin.turns.background_turns). With a state directory they outlive the
process: one that is cut off goes on from its position, as long as what it stored is on an SSD tier; else it starts
over.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from forebay.core.errors import Throttled
from forebay.core.task_registry import TaskRegistry
from forebay.jobs.state.inventory import Inventory
from forebay.jobs.state.job_document import job_document, job_from
from forebay.jobs.state.job_progress import WarmUpFailure
from forebay.jobs.state.job_store import JobRecord, JobStore
from forebay.jobs.state.warm_up_job import MAX_FAILURES, WarmUpJob
from forebay.jobs.state.warm_up_order import WarmUpOrder
from forebay.jobs.warm_up.key_lists import KeyLists
from forebay.jobs.warm_up.warm_up_run import RunFactory, WarmUpRun, WarmUpServices

MAX_RUNNING: Final = 16
MAX_QUEUED: Final = 256
"""Jobs that wait until fewer than MAX_RUNNING run."""
MAX_ENDED: Final = 100
"""Jobs that have ended and are still listed."""

_log = logging.getLogger(__name__)


class WarmUps:
    """Runs warm-up jobs. `pack_run`: makes the run of a job whose order is about a pack (jobs.packing.pack_run).
    `store`: None if there is no state directory; jobs end with the process then."""

    def __init__(
        self,
        services: WarmUpServices,
        tasks: TaskRegistry,
        clock: Callable[[], float],
        pack_run: RunFactory,
        store: JobStore | None = None,
    ) -> None:
        self._services = services
        self._pack_run = pack_run
        self._tasks = tasks
        self._clock = clock
        self._store = store
        self.lists = KeyLists()
        self._jobs: dict[str, WarmUpJob] = {}
        self._records: dict[str, JobRecord] = {}
        self._queued: dict[str, Inventory | None] = {}
        """The inventories of jobs that wait for their turn; None: on the disk."""
        self._running: dict[str, asyncio.Task[None]] = {}
        self._cancelled: set[str] = set()
        """Jobs under cancellation by a caller. If another job's task is cancelled, the process ends."""
        self._settled: dict[str, asyncio.Event] = {}
        """The event of each job that has not ended. It is set when the job ends or is cut off."""
        self._adopted = asyncio.Event()
        """Set once the jobs of the run before are known."""
        if store is None:
            self._adopted.set()

    @property
    def running(self) -> int:
        """The number of running jobs."""
        return len(self._running)

    def now(self) -> float:
        """Seconds of the clock by which speeds are measured."""
        return self._services.timers.time()

    async def start(self, order: WarmUpOrder, inventory: Inventory | None = None) -> WarmUpJob:
        """Starts a job. `inventory`: the entries of its lists, before those of its sources. Raises Throttled when too
        many wait."""
        if len(self._queued) >= MAX_QUEUED:
            raise Throttled(f"{MAX_QUEUED} warm-up jobs wait until others have ended")
        inventory = inventory if inventory is not None else Inventory()
        order = replace(order, listed_keys=len(inventory))
        job = WarmUpJob(secrets.token_hex(4), order, self._clock())
        job.listed, job.bytes_listed = len(inventory), inventory.known_bytes
        buckets = {source.bucket for source in order.sources} | inventory.buckets
        job.bucket = buckets.pop() if len(buckets) == 1 else ""
        if not order.sources:
            job.end_listing(self._services.residency.capacity())
        if self._store is not None and not order.check and (record := self._store.create(job.id)) is not None:
            self._records[job.id] = record
            await asyncio.to_thread(_save, record, job, inventory)
        self._add(job, inventory)
        return job

    async def adopt(self) -> int:
        """Adopts the jobs of processes that have ended, and runs the unended ones on. Returns how many it runs on."""
        try:
            return await self._adopt()
        finally:
            self._adopted.set()

    async def wait_adopted(self) -> None:
        """Waits until the jobs of the run before are known: `adopt` was called once."""
        await self._adopted.wait()

    async def _adopt(self) -> int:
        if self._store is None:
            return 0
        found = 0
        for record in await asyncio.to_thread(self._store.claim_all):
            try:
                job = await asyncio.to_thread(_restored, record)
            except OSError as error:
                _log.warning("job %s stays for the next start: it can't be read: %s", record.path.name, error.strerror)
                continue
            if job is None:
                _log.warning("job %s is removed: its record is damaged, or of another version", record.path.name)
                self._store.remove(record)
                continue
            job.failures = await asyncio.to_thread(record.failures, 0, MAX_FAILURES)
            self._records[job.id] = record
            if job.has_ended:
                self._jobs[job.id] = job
                continue
            await asyncio.to_thread(record.drop_later_failures)
            if job.order.pack is None and not self._services.residency.is_lasting:
                job.start_over()
            found += 1
            _log.info("%s job %s goes on: %d of %d objects", job.kind, job.id, job.position.entries, job.listed)
            self._add(job, None)
        self._forget_ended()
        return found

    def jobs(self) -> list[WarmUpJob]:
        """Returns the jobs that run or wait, and the latest that ended, newest first."""
        return sorted(self._jobs.values(), key=lambda job: job.started_at, reverse=True)

    def job(self, job_id: str) -> WarmUpJob | None:
        """Returns a job; None: unknown."""
        return self._jobs.get(job_id)

    async def failures(self, job_id: str, start: int, limit: int) -> Sequence[WarmUpFailure] | None:
        """Returns failures of a job, from number `start` on; None: unknown. Of a job without a record there are the
        first MAX_FAILURES."""
        job, record = self._jobs.get(job_id), self._records.get(job_id)
        if job is None:
            return None
        if start + limit <= len(job.failures) or record is None or len(job.failures) == job.failed:
            return job.failures[start : start + limit]
        return await asyncio.to_thread(record.failures, start, limit)

    async def cancel(self, job_id: str) -> WarmUpJob | None:
        """Ends a job and returns it. Nothing is fetched for it any more."""
        job = self._jobs.get(job_id)
        if job is not None and job_id in self._queued:
            del self._queued[job_id]
            self._end(job)
        elif (task := self._running.get(job_id)) is not None:
            self._cancelled.add(job_id)
            task.cancel()
            await asyncio.wait([task])
            self._cancelled.discard(job_id)
        return job

    async def wait(self, job_id: str) -> None:
        """Waits until a job has ended."""
        if (settled := self._settled.get(job_id)) is not None:
            await settled.wait()

    def close(self) -> None:
        """Leaves the records to the next process. After the tasks have ended."""
        if self._store is not None:
            self._store.close()

    def _add(self, job: WarmUpJob, inventory: Inventory | None) -> None:
        self._jobs[job.id] = job
        self._queued[job.id] = inventory
        self._settled[job.id] = asyncio.Event()
        self._start_queued()

    def _start_queued(self) -> None:
        while self._queued and len(self._running) < MAX_RUNNING:
            job_id = next(iter(self._queued))
            inventory = self._queued.pop(job_id)
            job, record = self._jobs[job_id], self._records.get(job_id)
            job.state = "running"
            task = self._running[job_id] = self._tasks.spawn(self._run(job, inventory, record), f"warm {job_id}")
            task.add_done_callback(partial(self._task_done, job))

    async def _run(self, job: WarmUpJob, inventory: Inventory | None, record: JobRecord | None) -> None:
        if inventory is None and record is not None:
            inventory = await asyncio.to_thread(record.load_inventory)
            if inventory is None:
                job.state, job.reason = "failed", "its list of objects was lost with the process that ran it"
                return
            if not job.listing_ended:  # listed anew, behind the lists
                inventory.truncate(job.order.listed_keys)
                job.listed, job.bytes_listed, job.older = len(inventory), inventory.known_bytes, 0
        make_run = self._pack_run if job.order.pack is not None else WarmUpRun
        run = make_run(job, inventory or Inventory(), record, self._services)
        try:
            await run.run()
            job.ended_at = self._clock()  # no step of the loop after the state: both are shown together
        finally:
            run.save()

    def _task_done(self, job: WarmUpJob, task: asyncio.Task[None]) -> None:
        del self._running[job.id]
        if task.cancelled() and job.id not in self._cancelled:  # the process ends
            job.state = "queued" if job.survives else "cancelled"
            self._settled.pop(job.id).set()
            return
        if not task.cancelled() and (defect := task.exception()) is not None:  # it must not run for ever
            first = defect.exceptions[0] if isinstance(defect, BaseExceptionGroup) else defect
            job.state, job.reason = "failed", f"{first!r}"
        self._end(job)
        self._start_queued()

    def _end(self, job: WarmUpJob) -> None:
        if not job.has_ended:
            job.state = "cancelled"
        job.ended_at, job.waiting_for = job.ended_at or self._clock(), None
        if (record := self._records.get(job.id)) is not None:
            record.save(job_document(job))
            record.drop_inventory()
        self._settled.pop(job.id).set()
        kept = "" if job.kept is None else f", {job.kept} are cached at the end"
        _log.info("%s job %s is %s: %d of %d objects%s", job.kind, job.id, job.state, job.done, job.listed, kept)
        self._forget_ended()

    def _forget_ended(self) -> None:
        ended = [job for job in self._jobs.values() if job.has_ended]
        for old in ended[: max(0, len(ended) - MAX_ENDED)]:
            del self._jobs[old.id]
            record = self._records.pop(old.id, None)
            if record is not None and self._store is not None:
                self._store.remove(record)


def _save(record: JobRecord, job: WarmUpJob, inventory: Inventory) -> None:
    record.save_inventory(inventory)
    record.save(job_document(job))
    job.survives = record.is_usable


def _restored(record: JobRecord) -> WarmUpJob | None:
    """Raises OSError."""
    document = record.load()
    try:
        return job_from(document) if document is not None else None
    except (KeyError, TypeError, ValueError):
        return None

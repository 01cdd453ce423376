"""The admin port's verbs about jobs, over a node of several workers.

A job is run by one worker, and fetches each object through its owner. When that worker ends, another goes on with it
(jobs.state.job_store); one without a record has failed then.
"""

from dataclasses import dataclass, replace
from typing import Final

from forebay.core.errors import Throttled
from forebay.server.admin.control import JobVerbs, PinVerbs
from forebay.server.admin.key_list import KeyList, KeyListEntry
from forebay.server.admin.pin_changes import pin_order
from forebay.server.admin.schema.admin_schema import MAX_PAGE, FailurePage, Job, JobList
from forebay.server.admin.schema.pack_request import PackRequest
from forebay.server.admin.schema.recording_schema import ReplayOrder
from forebay.server.admin.schema.warm_order import WarmOrder
from forebay.workers.worker_calls import WorkerCalls
from forebay.workers.worker_process import WorkerProcess

MAX_KNOWN_JOBS: Final = 100
"""The most jobs that are listed though no worker reports them any more."""


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


class NodeJobs(JobVerbs):
    """The jobs of all workers, and those of workers that exited. `pins`: where a job's are made."""

    def __init__(self, calls: WorkerCalls, pins: PinVerbs) -> None:
        self._calls = calls
        self._pins = pins
        self._first_worker = calls.first_worker(JobVerbs)
        self._known: dict[str, _KnownJob] = {}

    async def start_job(self, order: WarmOrder) -> Job:
        """Pins all prefixes of the order, or none if one is refused, and starts the job in the first live worker."""
        order = await pin_order(self._pins, order)
        return self._note(*await self._calls.first_answer(JobVerbs.start_job, order))

    async def start_pack(self, order: PackRequest) -> Job:
        """Starts the job in the first live worker."""
        return self._note(*await self._calls.first_answer(JobVerbs.start_pack, order))

    async def replay_recording(self, bucket: str, name: str, order: ReplayOrder) -> Job | None:
        """Starts the job in the first live worker: each reaches the recordings of the node."""
        worker, job = await self._calls.first_answer(JobVerbs.replay_recording, bucket, name, order)
        return self._note(worker, job) if job is not None else None

    async def extend_list(self, list_id: str, entries: list[KeyListEntry]) -> KeyList | None:
        """Adds objects to a list in the first live worker, where its job is started."""
        return await self._first_worker.extend_list(list_id, entries)

    async def jobs(self) -> JobList:
        """The workers' jobs, and those of workers that exited."""
        reported = {
            job.id: _KnownJob(job, worker)
            for worker, answer in await self._calls.answers(JobVerbs.jobs)
            for job in answer.jobs
        }
        others = [job_id for job_id in self._known if job_id not in reported]
        for old in others[: max(0, len(others) - MAX_KNOWN_JOBS)]:
            del self._known[old]
        self._known |= reported
        known = (known.now() for known in self._known.values())
        return JobList(tuple(sorted(known, key=lambda job: job.started_at, reverse=True)))

    async def job(self, job_id: str) -> Job | None:
        """The job of this id, of all known."""
        return next((job for job in (await self.jobs()).jobs if job.id == job_id), None)

    async def cancel_job(self, job_id: str) -> Job | None:
        """Raises Throttled when the worker that runs it does not answer."""
        for _, cancelled in await self._calls.answers(JobVerbs.cancel_job, job_id):
            if cancelled is not None:
                return cancelled
        job = await self.job(job_id)
        if job is not None and job.state in {"queued", "running"}:
            raise Throttled("the worker that runs it does not answer")
        return job

    async def job_failures(self, job_id: str, after: int = 0, limit: int = MAX_PAGE) -> FailurePage | None:
        """Returns the failures of a job, from the worker that knows it."""
        answers = await self._calls.answers(JobVerbs.job_failures, job_id, after, limit)
        return next((page for _, page in answers if page is not None), None)

    def _note(self, worker: WorkerProcess, job: Job) -> Job:
        self._known[job.id] = _KnownJob(job, worker)
        return job

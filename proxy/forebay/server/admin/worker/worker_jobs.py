"""The admin port's verbs about jobs, over one worker, which runs the jobs."""

from collections.abc import Callable

from forebay.core.errors import OrderRefused
from forebay.jobs.state.inventory import Inventory, InventoryEntry
from forebay.jobs.state.warm_up_job import WarmUpJob
from forebay.jobs.state.warm_up_order import DEFAULT_CONCURRENCY, WarmUpOrder
from forebay.jobs.warm_up.warm_ups import WarmUps
from forebay.policy.rules import Rules
from forebay.server.admin.control import JobVerbs
from forebay.server.admin.key_list import KeyList, KeyListEntry
from forebay.server.admin.pin_changes import pin_order
from forebay.server.admin.schema.admin_schema import MAX_PAGE, FailurePage, Job, JobList, WarmFailure
from forebay.server.admin.schema.pack_request import PackRequest
from forebay.server.admin.schema.recording_schema import ReplayOrder
from forebay.server.admin.schema.warm_order import WarmOrder, parse_object_url
from forebay.server.admin.worker.job_view import job_view, pack_job_order, unread_pack, warm_up_order
from forebay.server.admin.worker.worker_pins import WorkerPins
from forebay.server.admin.worker.worker_plans import WorkerPlans
from forebay.server.admin.worker.worker_recordings import WorkerRecordings


class WorkerJobs(JobVerbs):
    """Answers from the jobs of a worker. Jobs resolve the names of pins, plans and recordings."""

    def __init__(
        self,
        warm_ups: WarmUps,
        pins: WorkerPins,
        plans: WorkerPlans,
        recordings: WorkerRecordings,
        rules: Callable[[], Rules],
        clock: Callable[[], float],
    ) -> None:
        """`rules`: those in force. `clock`: that of freshness, in seconds since the epoch."""
        self._warm_ups = warm_ups
        self._rules = rules
        self._clock = clock
        self._pins = pins
        self._plans = plans
        self._recordings = recordings

    async def start_job(self, order: WarmOrder) -> Job:
        """Pins all prefixes of the order, or none if one is refused, and starts the job in this worker."""
        order = await pin_order(self._pins, order)
        recordings = [await self._recording(text) for text in order.recordings]
        plans = [await self._plan(text) for text in order.plans]
        inventory = Inventory.joined([*self._warm_ups.lists.pop(order.lists), *recordings, *plans])
        for key in order.keys:
            inventory.add(InventoryEntry(order.bucket or "", key))
        return self._view(await self._warm_ups.start(warm_up_order(order, self._clock()), inventory))

    async def start_pack(self, order: PackRequest) -> Job:
        """Starts the job in this worker."""
        return self._view(await self._warm_ups.start(pack_job_order(order)))

    async def replay_recording(self, bucket: str, name: str, order: ReplayOrder) -> Job | None:
        """Starts the job in this worker."""
        inventory = await self._recordings.inventory(bucket, name)
        if inventory is None:
            return None
        concurrency = order.concurrency or DEFAULT_CONCURRENCY
        replay = WarmUpOrder(concurrency=concurrency, rate=order.rate)
        return self._view(await self._warm_ups.start(replay, inventory))

    async def extend_list(self, list_id: str, entries: list[KeyListEntry]) -> KeyList | None:
        """Adds objects to a list in this worker."""
        extended = self._warm_ups.lists.extend(list_id, (InventoryEntry(*entry) for entry in entries))
        return KeyList(*extended) if extended is not None else None

    async def jobs(self) -> JobList:
        """This worker's jobs, once it knows those of the run before."""
        await self._warm_ups.wait_adopted()
        return JobList(tuple(map(self._view, self._warm_ups.jobs())))

    async def job(self, job_id: str) -> Job | None:
        """The job of this id, of this worker's."""
        return next((job for job in (await self.jobs()).jobs if job.id == job_id), None)

    async def cancel_job(self, job_id: str) -> Job | None:
        """Cancels the job in this worker."""
        await self._warm_ups.wait_adopted()
        job = await self._warm_ups.cancel(job_id)
        return self._view(job) if job is not None else None

    async def job_failures(self, job_id: str, after: int = 0, limit: int = MAX_PAGE) -> FailurePage | None:
        """Returns the failures of a job of this worker."""
        await self._warm_ups.wait_adopted()
        found = await self._warm_ups.failures(job_id, after, limit)
        if found is None:
            return None
        page = tuple(WarmFailure(each.key, each.reason, each.bucket) for each in found)
        return FailurePage(page, str(after + limit) if len(page) == limit else None)

    async def _recording(self, text: str) -> Inventory:
        url = parse_object_url(text)
        found = await self._recordings.inventory(*url) if url is not None else None
        if found is not None:
            return found
        if url is not None and await self._recordings.is_being_made(*url):
            raise OrderRefused("no_such_recording", f"The recording {text} is still being made.")
        raise OrderRefused("no_such_recording", f"There is no recording {text}; `forebay recordings` lists them.")

    async def _plan(self, text: str) -> Inventory:
        found = await self._plans.inventory(text)
        if found is not None:
            return found
        if known := await self._plans.named(text):
            raise OrderRefused("no_such_plan", f"The plan {text} has ended: it is {known[0].state}.")
        raise OrderRefused("no_such_plan", f"There is no plan {text}; `forebay plans` lists them.")

    def _view(self, job: WarmUpJob) -> Job:
        return job_view(job, self._warm_ups.now(), unread_pack(job, self._rules().packed))

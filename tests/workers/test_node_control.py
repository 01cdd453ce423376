"""`NodeControl` over the sockets of fake workers, of which one does not answer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from forebay.core.errors import Throttled
from forebay.core.task_registry import TaskRegistry
from forebay.peers.peer_client import Peer
from forebay.peers.unix_socket import socket_path
from forebay.server.admin.control import JobVerbs, PlanVerbs
from forebay.server.admin.schema.admin_schema import Job, JobList
from forebay.server.admin.schema.plan_schema import PlanOrder, PlanSent
from forebay.server.admin.schema.stats_schema import (
    BudgetStats,
    FlightStats,
    JobStats,
    OriginStats,
    RequestStats,
    Stats,
)
from forebay.server.config_source import ConfigSource
from forebay.server.rpc.rpc_server import RpcServer
from forebay.settings.loader import load_settings
from forebay.workers.node_control import NodeControl
from forebay.workers.worker_pool import WorkerPool
from forebay.workers.worker_process import SUPERVISOR_NUMBER, WorkerProcess
from forebay.workers.worker_rpc import WorkerReport, rpc_handlers

TEXT = '[origin]\nendpoint = "http://h"\n[auth]\nmode = "open"\n'
JOB = Job("1", "bucket", "", "running", "", 4, 1.0, None, 0, False, 0, 0, 0, 0, ())


class FakeWorker:
    """A worker's answers: of one job, until it hangs, and of plans, which it refuses for the reason `plan`."""

    def __init__(self, job: Job, plan: str = "") -> None:
        self.job = job
        self.plan = plan
        self.is_hung = False

    async def jobs(self) -> JobList:
        await self._hang()
        return JobList((self.job,))

    async def cancel_job(self, job_id: str) -> Job | None:
        await self._hang()
        return replace(self.job, state="cancelled") if job_id == self.job.id else None

    async def send_plan(self, _order: PlanOrder) -> PlanSent:
        return PlanSent(None, self.plan)

    async def _hang(self) -> None:
        if self.is_hung:
            await asyncio.Event().wait()


def report_of(origin: OriginStats) -> WorkerReport:
    requests, flights, jobs, budget = RequestStats({}), FlightStats(0, 0), JobStats(0), BudgetStats(0, 0, 0)
    return WorkerReport("", Stats("1", 0.0, 1, 1, requests, 0, 0, (), (), flights, jobs, budget, origin), {})


@asynccontextmanager
async def worker_of(pool: WorkerPool, number: int, fake: FakeWorker, directory: Path) -> AsyncIterator[WorkerProcess]:
    """A worker that answers as `fake`. Its process does nothing, and ends with its standard input."""
    tasks, port = (
        TaskRegistry(),
        RpcServer(socket_path(directory, number), rpc_handlers(JobVerbs, fake) | rpc_handlers(PlanVerbs, fake)),
    )
    await port.start()
    process = await asyncio.create_subprocess_exec("cat", stdin=asyncio.subprocess.PIPE)
    worker = WorkerProcess(
        number, process, Peer(number, socket_path(directory, number), SUPERVISOR_NUMBER, tasks.spawn)
    )
    pool.processes[number] = worker
    try:
        yield worker
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await worker.wait_exit()
        await port.close()
        await tasks.close()


async def test_readiness_is_that_of_all_workers(tmp_path: Path) -> None:
    pool, settings = WorkerPool(2), load_settings(TEXT, {}, {}, str).settings
    control = NodeControl(pool, settings, ConfigSource(None, {}, {}), TEXT, 0o600)
    control.calls.poll_timeout = 0.0
    fake = FakeWorker(JOB)
    async with worker_of(pool, 0, fake, tmp_path) as first:
        first.report = report_of(OriginStats("http://h", "reachable", "closed", 1, 0, 0, 0))
        assert (await control.readiness()).failing == {"workers": "Only 1 of 2 workers run."}
        async with worker_of(pool, 1, fake, tmp_path) as second:
            assert (await control.readiness()).failing == {"origin": "The origin has not responded yet."}
            second.report = first.report
            assert (await control.readiness()).ready
            second.report = report_of(
                OriginStats("http://h", "unreachable", "open", 1, 0, 0, 0, "connection refused", 4.0)
            )
            assert (await control.readiness()).reasons == (
                "The origin can't be reached by 1 of 2 workers, for 4 s: connection refused. The breaker is open.",
            )


async def test_a_hung_workers_jobs_stay_until_it_exits(tmp_path: Path) -> None:
    pool, settings = WorkerPool(2), load_settings(TEXT, {}, {}, str).settings
    control = NodeControl(pool, settings, ConfigSource(None, {}, {}), TEXT, 0o600)
    other = replace(JOB, id="2", started_at=2.0)
    hung, answering = FakeWorker(JOB), FakeWorker(other)
    async with worker_of(pool, 1, answering, tmp_path):
        async with worker_of(pool, 0, hung, tmp_path):
            assert (await control.verbs.jobs.jobs()).jobs == (other, JOB)
            cancelled = await control.verbs.jobs.cancel_job("2")
            assert cancelled is not None
            assert cancelled.state == "cancelled"
            hung.is_hung, control.calls.poll_timeout = True, 0.01
            assert (await control.verbs.jobs.jobs()).jobs == (other, JOB)
            with pytest.raises(Throttled):
                await control.verbs.jobs.cancel_job("1")
            assert await control.verbs.jobs.cancel_job("3") is None
        job = await control.verbs.jobs.job("1")
        assert job is not None
        assert (job.state, job.reason) == ("failed", "the worker that ran it has ended")


async def test_a_verb_of_the_node_is_answered_by_the_first_worker_that_runs(tmp_path: Path) -> None:
    pool, settings = WorkerPool(2), load_settings(TEXT, {}, {}, str).settings
    plans = NodeControl(pool, settings, ConfigSource(None, {}, {}), TEXT, 0o600).verbs.plans
    first, second = FakeWorker(JOB, plan="first"), FakeWorker(JOB, plan="second")
    async with worker_of(pool, 1, second, tmp_path):
        async with worker_of(pool, 0, first, tmp_path):
            assert await plans.send_plan(PlanOrder("b", "n", "")) == PlanSent(None, "first")
        assert await plans.send_plan(order=PlanOrder("b", "n", "")) == PlanSent(None, "second")
    with pytest.raises(Throttled):
        await plans.send_plan(PlanOrder("b", "n", ""))

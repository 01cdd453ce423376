"""The operator's questions to a node whose workers don't all answer: `NodeControl` over sockets, without workers."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from forebay.core.errors import Throttled
from forebay.core.task_registry import TaskRegistry
from forebay.peers.frames import Document
from forebay.peers.peer_client import Peer
from forebay.peers.unix_socket import socket_path
from forebay.server.admin.admin_schema import Job
from forebay.server.config_source import ConfigSource
from forebay.server.rpc.rpc_server import RpcMethod, RpcServer
from forebay.settings.loader import load_settings
from forebay.workers.node_control import NodeControl
from forebay.workers.node_state import NodeState
from forebay.workers.remote_worker import job_document
from forebay.workers.worker_process import SUPERVISOR_NUMBER, WorkerProcess

TEXT = '[origin]\nendpoint = "http://h"\n[auth]\nmode = "open"\n'
JOB = Job("1", "bucket", "", "running", "", 4, 1.0, None, 0, False, 0, 0, 0, 0, ())


class Told:
    """A worker's answers: of one job, until it hangs."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.hangs = False

    def table(self) -> Mapping[str, RpcMethod]:
        return {"jobs": self._jobs, "cancel job": self._cancel}

    async def _jobs(self, _: Document) -> Document:
        await self._perhaps()
        return {"jobs": [job_document(self.job)]}

    async def _cancel(self, question: Document) -> Document:
        await self._perhaps()
        found = question["job"] == self.job.id
        return {"job": job_document(replace(self.job, state="cancelled")) if found else None}

    async def _perhaps(self) -> None:
        if self.hangs:
            await asyncio.Event().wait()


@asynccontextmanager
async def worker_of(standing: NodeState, number: int, told: Told, directory: Path) -> AsyncIterator[WorkerProcess]:
    """One that answers so. Its process does nothing, and ends with its standard input."""
    tasks, port = TaskRegistry(), RpcServer(socket_path(directory, number), told.table())
    await port.start()
    process = await asyncio.create_subprocess_exec("cat", stdin=asyncio.subprocess.PIPE)
    worker = WorkerProcess(
        number, process, Peer(number, socket_path(directory, number), SUPERVISOR_NUMBER, tasks.spawn)
    )
    standing.processes[number] = worker
    try:
        yield worker
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await worker.wait_exit()
        await port.close()
        await tasks.close()


async def test_jobs_of_a_worker_that_does_not_answer_are_told_as_they_were_until_it_has_ended(tmp_path: Path) -> None:
    standing = NodeState(load_settings(TEXT, {}, {}, str).settings, ConfigSource(None, {}, {}), TEXT, 0o600, 2)
    control = NodeControl(standing)
    other = replace(JOB, id="2", started_at=2.0)
    hanging, answering = Told(JOB), Told(other)
    async with worker_of(standing, 1, answering, tmp_path):
        async with worker_of(standing, 0, hanging, tmp_path):
            assert await control.jobs() == [other, JOB]
            cancelled = await control.cancel_job("2")
            assert cancelled is not None
            assert cancelled.state == "cancelled"
            hanging.hangs, control.poll_timeout = True, 0.01
            assert await control.jobs() == [other, JOB]
            with pytest.raises(Throttled):
                await control.cancel_job("1")
            assert await control.cancel_job("3") is None
        job = await control.job("1")
        assert job is not None
        assert (job.state, job.reason) == ("failed", "the worker that ran it has ended")

"""A Forebay of several workers: the supervisor in the test's own loop, its workers as processes of their own.

    async with FakeOrigin() as origin, Node(origin, tmp_path) as node:
        answer = await node.client(0).request("GET", path_of("bucket", "key"))

Each worker listens on a port of its own, so that a test knows whom it asks; all else is as `forebay serve` has it. The
node is stopped as an operator would stop it.
"""

import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import aiohttp

from forebay.core.names import ObjectName
from forebay.peers.ownership_claims import FILE_NAME, OwnershipClaims
from forebay.policy.ownership import hash_of
from forebay.server.config_source import ConfigSource
from forebay.settings.addresses import ListenAddress
from forebay.workers.supervisor import Supervisor
from forebay.workers.worker_process import WORKER_MODULE, RunningProcess, RunWorker, WorkerProcess
from forebay_demo.free_ports import free_ports
from harness.clients import RawClient
from harness.forked_process import start_forked
from harness.reference_sigv4 import Secret
from harness.rig import TRAINER, configuration_of

_PATIENCE = 60.0


async def run_forked_worker(arguments: Sequence[str], socket_fd: int | None) -> RunningProcess:
    """Starts a worker as forebay.workers.worker_process.run_worker does, in a fraction of its time."""
    return await start_forked(WORKER_MODULE, arguments, pass_fd=socket_fd)


class NodeOrigin(Protocol):
    """The origin of a node."""

    @property
    def endpoint(self) -> str: ...

    @property
    def secret(self) -> Secret: ...


class Node:
    """See the module. `settings`: see harness.rig.configuration_of."""

    def __init__(
        self,
        origin: NodeOrigin,
        directory: Path,
        workers: int = 2,
        **settings: Any,
    ) -> None:
        self.directory = directory
        self.workers = workers
        self.run: RunWorker = run_forked_worker
        """Starts a worker."""
        self._ports = free_ports(workers)
        self._file = directory / "forebay.toml"
        self.configure(configuration_of(origin.endpoint, origin.secret, directory, **settings))

    def configure(self, text: str) -> None:
        self.configuration = text
        self._file.write_text(text)
        self._file.chmod(0o600)

    async def __aenter__(self) -> Self:
        source = ConfigSource(self._file, {}, {})
        text, mode = source.read()
        settings = source.load_text(text, mode).settings

        def listen(worker: int, _shared: ListenAddress) -> ListenAddress:
            return ListenAddress("127.0.0.1", self._ports[worker])

        self.supervisor = Supervisor(settings, source, text, mode, self.workers, listen=listen, run=self.run)
        await self.supervisor.start()
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.supervisor.stop(asyncio.Event())

    def endpoint(self, worker: int) -> str:
        return f"http://127.0.0.1:{self._ports[worker]}"

    def client(self, worker: int, secret: Secret = TRAINER) -> RawClient:
        return RawClient(self.endpoint(worker), secret)

    @property
    def admin(self) -> str:
        return f"http://127.0.0.1:{self.supervisor.admin_address[1]}"

    async def request_admin(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        return await request_admin(self.admin, method, path, body)

    async def wait_job(self, job: str) -> Any:
        """A warm-up job, when it has ended."""
        async with asyncio.timeout(_PATIENCE):
            while (told := (await self.request_admin("GET", f"/v1/jobs/{job}"))[1])["state"] == "running":  # noqa: ASYNC110 # a job tells nobody when it has ended
                await asyncio.sleep(0.02)
        return told

    def key_owned_by(self, worker: int, bucket: str = "bucket", prefix: str = "key") -> str:
        """A key that this worker owns, whoever asks for it first."""
        keys = (f"{prefix}-{number}" for number in range(1000))
        return next(key for key in keys if self.have_owned(key, worker, bucket) == worker)

    def have_owned(self, key: str, worker: int, bucket: str = "bucket") -> int:
        """Has this worker own a key, unless another one does. The number of the owner."""
        claims = OwnershipClaims.open(self.supervisor.directory / FILE_NAME, worker, self.workers)
        assert claims is not None
        with closing(claims):
            return claims.assign(hash_of(ObjectName(bucket, key)), worker)

    def process(self, worker: int) -> WorkerProcess:
        return self.supervisor.pool.processes[worker]

    async def kill_worker(self, worker: int, number: signal.Signals = signal.SIGKILL) -> WorkerProcess:
        """End a worker's process, with the signal; it has ended when this returns."""
        process = self.process(worker)
        os.kill(process.pid, number)
        await process.wait_exit()
        return process

    async def wait_restarted(self, worker: int, after: WorkerProcess) -> None:
        """Until the worker serves again."""
        processes = self.supervisor.pool.processes
        async with asyncio.timeout(_PATIENCE):
            while processes.get(worker) in (None, after):  # noqa: ASYNC110 # the supervisor tells nobody
                await asyncio.sleep(0.02)


async def request_admin(address: str, method: str, path: str, body: object = None) -> tuple[int, Any]:
    """Ask an admin port: the answer's status, and the document or text that it is."""
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"{address}{path}", json=body or {}) as answer,
    ):
        text = answer.content_type != "application/json"
        return answer.status, await answer.text() if text else await answer.json()

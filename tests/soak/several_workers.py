"""Several workers, as processes: what goes wrong is also that they are killed, and stopped for a while as a debugger or
a machine out of breath would stop them."""

import asyncio
import random
import re
import signal
import time
from pathlib import Path
from typing import Any, Final

from forebay.core.task_registry import TaskRegistry
from forebay.workers.worker_process import WorkerProcess
from harness.clients import RawClient
from harness.fake_origin import FakeOrigin
from harness.reference_sigv4 import Secret
from harness.rig import TRAINER
from harness.worker_node import Node
from soak.configuration import settings_of, socket_of
from soak.disturbances import disturb
from soak.oracle import Oracle
from soak.switches import Switches
from soak.tls_clients import SHARE, TlsClients
from soak.upper_forebay import UpperForebay

LONGEST: Final = 45.0
"""Seconds that a request may take, whatever happens to other workers than the one that is asked."""
STOPS: Final = (0.2, 0.5, 1.0, 3.0, 8.0, 30.0)
"""Seconds. In some of them nobody notices; the longest none comes back from."""
BETWEEN: Final = 9.0
"""Seconds between two signals, on the average."""
_HELD: Final = re.compile(r"^forebay_(?:flights|buffer_used_bytes) (\S+)$", re.MULTILINE)


class SeveralWorkers:
    def __init__(
        self, origin: FakeOrigin | UpperForebay, directory: Path, oracle: Oracle, workers: int, switches: Switches
    ) -> None:
        self._origin, self._oracle, self._switches = origin, oracle, switches
        self._workers = workers
        self._secure = TlsClients(directory)
        self._node = Node(
            origin,
            directory,
            workers,
            **settings_of(origin, directory, f'log_level = "warning"\n{self._secure.settings}', switches),
        )
        self._disturbed = [0.0] * workers
        """When each worker was last disturbed, or is until (infinity: it is being)."""
        self._tasks = TaskRegistry()
        self._next_signal = time.monotonic() + BETWEEN
        self.longest: dict[str, float] = {}

    async def start(self) -> None:
        await self._node.__aenter__()

    async def restart(self, *, is_last: bool = False) -> None:
        """As an operator does it, with whatever is pending. A worker that is disturbed comes back before. Or all are
        killed at once, in the middle of everything."""
        await self._tasks.wait_idle()
        self._disturbed = [float("inf")] * self._workers
        if self._switches.kills and not is_last:
            for process in self._node.supervisor.pool.processes.values():
                process.signal(signal.SIGKILL)
            self._oracle.done["all workers killed"] += 1
        await self._node.__aexit__(None, None, None)
        await self._node.__aenter__()
        self._disturbed = [time.monotonic()] * self._workers
        self._oracle.done["restarts"] += 1

    @property
    def configuration(self) -> Path:
        return self._node.directory / "forebay.toml"

    @property
    def socket(self) -> str:
        return socket_of(self._node.directory)

    def endpoints(self) -> list[str]:
        return [self._node.endpoint(worker) for worker in range(self._workers)]

    async def request_admin(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        return await self._node.request_admin(method, path, body)

    def client(self, rng: random.Random) -> RawClient:
        """Of a worker, or with TLS of whichever takes the connection."""
        if rng.random() < SHARE:
            address = self._node.supervisor.tls_address
            assert address is not None
            return self._secure.client(address[1])
        return _Client(self._node.endpoint(worker := rng.randrange(self._workers)), TRAINER, worker)

    def record_duration(self, client: RawClient, what: str, seconds: float) -> None:
        if not isinstance(client, _Client) or time.monotonic() - seconds <= self._disturbed[client.worker]:
            return
        self.longest[what] = max(seconds, self.longest.get(what, 0.0))
        assert seconds < LONGEST, f"{what} took {seconds:.1f} s through a worker that nobody disturbed"

    async def disturb(self, rng: random.Random) -> None:
        node = self._node
        await disturb(rng, self._origin.faults, node.directory, node.request_admin, self._oracle)
        if time.monotonic() >= self._next_signal:
            self._next_signal = time.monotonic() + BETWEEN * rng.uniform(0.3, 1.7)
            free = [worker for worker, until in enumerate(self._disturbed) if until < time.monotonic()]
            if free:
                self._tasks.spawn(self._disturb(rng.choice(free), rng), "disturb")

    async def _disturb(self, worker: int, rng: random.Random) -> None:
        process = self._node.supervisor.pool.processes.get(worker)
        if process is None or process.exit_code is not None:
            return
        self._disturbed[worker] = float("inf")
        if rng.random() < 0.7:
            process.signal(signal.SIGKILL)
            self._oracle.done["workers killed"] += 1
            await process.wait_exit()
        else:
            process.signal(signal.SIGSTOP)
            self._oracle.done["workers stopped"] += 1
            if await self._has_exited(process, rng.choice(STOPS)):
                self._oracle.done["workers replaced while they were stopped"] += 1
            else:
                process.signal(signal.SIGCONT)
                self._oracle.done["workers that came back"] += 1
        if await self._has_exited(process, 0.0):
            await self._node.wait_restarted(worker, process)
        self._disturbed[worker] = time.monotonic()

    @staticmethod
    async def _has_exited(process: WorkerProcess, patience: float) -> bool:
        try:
            async with asyncio.timeout(patience):
                await process.wait_exit()
        except TimeoutError:
            return process.exit_code is not None
        return True

    async def end_disturbances(self) -> None:
        """Waits until every worker serves again."""
        await self._tasks.wait_idle()

    async def wait_idle(self) -> None:
        async with asyncio.timeout(30):
            while any(map(float, _HELD.findall(await self._metrics()))):  # noqa: ASYNC110 # workers tell nobody
                await asyncio.sleep(0.2)

    async def _metrics(self) -> str:
        _, text = await self._node.request_admin("GET", "/metrics")
        assert isinstance(text, str)
        assert len(_HELD.findall(text)) == 2, "the gauges have other names"
        return text

    def worker_clients(self) -> list[RawClient]:
        """A client of each worker."""
        return [self._node.client(worker) for worker in range(self._workers)]

    async def stop(self) -> None:
        for what, seconds in sorted(self.longest.items()):
            self._oracle.done[f"ms took the longest {what} through a worker that nobody disturbed"] = int(
                seconds * 1000
            )
        await self._node.__aexit__(None, None, None)


class _Client(RawClient):
    def __init__(self, endpoint: str, secret: Secret, worker: int) -> None:
        super().__init__(endpoint, secret)
        self.worker = worker

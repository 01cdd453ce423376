"""A training job and the Forebay that it reads from, both real processes, and whatever is killed of them meanwhile.

    async with FakeOrigin() as origin, training_job(origin, directory, seed=1, by_socket=True) as job:
        await job.batches(5)
        await job.kill_worker()
        report = await job.finish()

Forebay has two workers, and a fixed address, so that it is found again after a restart. The job is
tests/client/torch/killed_loader.py, which waits for a line behind each batch.
"""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, Final

from client.torch.killed_samples import BUCKET, KEYS, sample_content
from forebay_demo.free_ports import free_ports
from harness.fake.actions import Drop, Respond
from harness.fake_origin import FakeOrigin
from harness.forebay_process import ForebayProcess, forebay_process
from harness.process_table import workers_of
from harness.rig import TRAINER, configuration_of
from harness.torch_environment import python_of_torch, torch_environ
from harness.worker_node import request_admin

_PATIENCE: Final = 120.0
"""Seconds for one batch, whatever was killed."""
_SECONDS_TO_ZERO: Final = 30.0
GAUGES: Final = (
    "forebay_socket_channels",
    "forebay_socket_ring_bytes",
    "forebay_socket_file_bytes",
    "forebay_flights",
    "forebay_flight_readers",
    "forebay_buffer_used_bytes",
    "forebay_buffer_waiting",
    "forebay_held_bytes",
    "forebay_requests_in_flight",
)
"""What is 0 once a job has ended."""
_RULES: Final = '[[rules]]\npath = "**"\nfreshness = "immutable"\nblock = "64KiB"\n'


class TrainingJob:
    """See the module."""

    def __init__(self, origin: FakeOrigin, directory: Path, seed: int) -> None:
        self._origin, self._directory = origin, directory
        self._random = Random(seed)
        self._ports = free_ports(2)
        self._forebay: ForebayProcess | None = None
        self._serving = AsyncExitStack()
        self._job: asyncio.subprocess.Process | None = None
        self._loader_workers: list[int] = []
        self._report: dict[str, Any] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._ports[0]}"

    @property
    def socket(self) -> str:
        return str(self._directory / "forebay.sock")

    async def serve(self) -> None:
        """Starts Forebay."""
        addresses = (f"127.0.0.1:{port}" for port in self._ports)
        environ = dict(zip(("FOREBAY_SERVER__LISTEN", "FOREBAY_SERVER__ADMIN"), addresses, strict=True))
        arguments = ("serve", "--config", str(self._directory / "forebay.toml"))
        self._forebay = await self._serving.enter_async_context(
            forebay_process(*arguments, directory=self._directory, environ=environ)
        )
        await self._forebay.wait_for_output("metrics and control on")

    async def start(self, socket: str, seed: int, epochs: int) -> None:
        """Starts the job."""
        text = configuration_of(
            self._origin.endpoint,
            self._origin.secret,
            self._directory,
            ssd="64MiB",
            server=f'workers = 2\nsocket = "{self.socket}"\n',
            rest=_RULES,
        )
        file = self._directory / "forebay.toml"
        await asyncio.to_thread(file.write_text, text)
        await asyncio.to_thread(file.chmod, 0o600)
        for number, key in enumerate(KEYS):
            self._origin.store.put(BUCKET, key, sample_content(number))
        await self.serve()
        self._job = await asyncio.create_subprocess_exec(
            python_of_torch(),
            "-m",
            "client.torch.killed_loader",
            socket,
            str(seed),
            str(epochs),
            cwd=self._directory,
            env=torch_environ(self._directory, self.endpoint, TRAINER),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )

    async def next_batch(self) -> bool:
        """Has the job go on, and waits for its next batch. Returns whether there was one."""
        job = self._job
        assert job is not None
        assert job.stdout is not None
        assert job.stdin is not None
        if self._loader_workers:
            job.stdin.write(b"\n")
        async with asyncio.timeout(_PATIENCE):
            line = await job.stdout.readline()
        if not line:
            assert job.stderr is not None
            complaint = (await job.stderr.read()).decode(errors="replace")
            raise AssertionError(f"the job has ended: {complaint[-4000:]}")
        said = json.loads(line)
        if "workers" in said:
            self._loader_workers = said["workers"]
            return True
        self._report = said
        return False

    async def batches(self, count: int) -> None:
        """Waits for so many batches."""
        for _ in range(count):
            assert await self.next_batch(), "the job has ended before"

    async def finish(self) -> dict[str, Any]:
        """Has the job go on to its end, and returns what it said there."""
        while await self.next_batch():
            continue
        assert self._report is not None
        assert self._job is not None
        async with asyncio.timeout(_PATIENCE):
            assert await self._job.wait() == 0
        return self._report

    # What goes wrong

    def kill_worker(self) -> None:
        """Kills a worker of Forebay, if there is one just now."""
        assert self._forebay is not None
        if workers := workers_of(self._forebay.pid):
            with suppress(ProcessLookupError):
                os.kill(self._random.choice(workers), signal.SIGKILL)

    async def kill_forebay(self) -> None:
        """Kills all of Forebay, and starts another."""
        await self._serving.aclose()
        await self.serve()

    async def restart_forebay(self) -> None:
        """Restarts Forebay as an operator does it."""
        assert self._forebay is not None
        self._forebay.signal(signal.SIGTERM)
        assert await self._forebay.wait_exit() == 0
        await self.kill_forebay()

    def kill_loader_worker(self) -> None:
        """Kills a worker of the loader."""
        with suppress(ProcessLookupError):  # it may have done its part
            os.kill(self._random.choice(self._loader_workers), signal.SIGKILL)

    def fail_origin(self) -> None:
        """Has the origin fail the next requests."""
        failure = self._random.choice((Drop(), Respond(503, "SlowDown"), Respond(500, "InternalError")))
        self._origin.faults.add(failure, times=self._random.randint(1, 6))

    # The end

    async def check_nothing_is_left(self) -> None:
        """Waits until all gauges are at zero, of what a client has that is gone: nobody tells when."""
        ends = asyncio.get_running_loop().time() + _SECONDS_TO_ZERO
        while left := await self._gauges():
            assert asyncio.get_running_loop().time() < ends, f"there is left: {left}"
            await asyncio.sleep(0.05)

    async def _gauges(self) -> dict[str, float]:
        """Those that are not zero; NaN: not there, as no worker has been polled since it was restarted."""
        status, text = await request_admin(f"http://127.0.0.1:{self._ports[1]}", "GET", "/metrics")
        assert status == 200
        found = dict(line.rsplit(" ", 1) for line in text.splitlines())
        values = {name: float(found.get(name, "nan")) for name in GAUGES}
        return {name: value for name, value in values.items() if value}

    async def stop(self) -> None:
        """Ends all processes."""
        if self._job is not None:
            if self._job.returncode is None:
                with suppress(ProcessLookupError):  # it has ended a moment ago
                    os.killpg(self._job.pid, signal.SIGKILL)
            await self._job.communicate()
        await self._serving.aclose()


@asynccontextmanager
async def training_job(
    origin: FakeOrigin, directory: Path, *, seed: int, by_socket: bool, epochs: int = 1
) -> AsyncIterator[TrainingJob]:
    """A job that waits for its first batch, and the Forebay beside it."""
    job = TrainingJob(origin, directory, seed)
    try:
        await job.start(job.socket if by_socket else "", seed, epochs)
        yield job
    finally:
        await job.stop()

"""One worker's process, from its start to its end. Whether it is started again is the supervisor's to say."""

import asyncio
import contextlib
import importlib.util
import os
import signal
import sys
from pathlib import Path
from typing import Final

from forebay.core.errors import OriginError
from forebay.peers.frames import Document, PeerUnavailable, Spawn
from forebay.peers.peer_client import Peer
from forebay.peers.unix_socket import WorkerStartError, socket_path

START_TIMEOUT: Final = 60.0
"""Seconds from the start of a process until it serves: an SSD tier may have much to put aside."""
CONNECT_RETRY: Final = 0.02
FAST_SHUTDOWN: Final = signal.SIGUSR1
"""Tells a worker that drains not to wait. No second SIGTERM does: a service manager may send one to each process."""
SUPERVISOR_NUMBER: Final = -1
"""What the supervisor is numbered."""

_PACKAGES: Final = ("forebay", "forebay_client")  # a worker must find what we found, also when we are not installed


class WorkerProcess:
    """A running process that has been told to serve. Made by `start`."""

    def __init__(self, number: int, process: asyncio.subprocess.Process, peer: Peer) -> None:
        self.number = number
        self.peer = peer
        self._process = process
        self.report: Document = {}
        """What it told when it was last looked at."""

    def __repr__(self) -> str:
        return f"<worker {self.number}, process {self.pid}>"

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Its exit code, minus the number of the signal that ended it; None while it runs."""
        return self._process.returncode

    @classmethod
    async def start(
        cls, directory: Path, number: int, workers: int, family: str, order: Document, spawn: Spawn
    ) -> "WorkerProcess":
        """Returns when it serves. Raises WorkerStartError."""
        try:
            _prepare(socket_path(directory, number))
            process = await cls._run(directory, number, workers, family)
        except OSError as failure:
            raise WorkerStartError(f"worker {number} can't be started: {failure}") from failure
        started = cls(number, process, Peer(number, socket_path(directory, number), SUPERVISOR_NUMBER, spawn))
        try:
            await started._begin(order)
        except BaseException:
            started.kill()
            await started.wait_exit()
            raise
        return started

    @staticmethod
    async def _run(directory: Path, number: int, workers: int, family: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # the working directory is the user's, and no place to import from
            "-m",
            "forebay.workers.parent_watch",
            "forebay.workers.worker_main",
            str(directory),
            str(number),
            str(workers),
            family,
            stdin=asyncio.subprocess.PIPE,  # its lifeline
            env={**os.environ, "PYTHONPATH": _search_path()},
            start_new_session=True,  # Ctrl-C reaches us alone; we say when it ends
        )

    async def _begin(self, order: Document) -> None:
        try:
            async with asyncio.timeout(START_TIMEOUT):
                answer = await self._listening(order)
        except TimeoutError:
            raise WorkerStartError(f"worker {self.number} did not serve within {START_TIMEOUT:g} s") from None
        except OriginError as failure:
            raise WorkerStartError(f"worker {self.number} failed while starting: {failure}") from failure
        if "refused" in answer:
            raise WorkerStartError(f"worker {self.number} can't serve: {answer['refused']}")

    async def _listening(self, order: Document) -> Document:
        while True:
            try:
                return await self.peer.call({"kind": "begin", **order})
            except PeerUnavailable:
                if self.exit_code is not None:
                    raise WorkerStartError(f"worker {self.number} ended while starting ({self.exit_code})") from None
                await asyncio.sleep(CONNECT_RETRY)

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def kill(self) -> None:
        """At once, with whatever it has started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def wait_exit(self) -> int:
        code = await self._process.wait()
        self.peer.close()
        return code


def _prepare(place: Path) -> None:
    """A worker's socket is looked for here, and nobody listens yet (see peers.unix_socket.NotListening)."""
    place.parent.mkdir(mode=0o700, exist_ok=True)
    place.touch(mode=0o600)


def _search_path() -> str:
    found = [spec.origin for spec in map(importlib.util.find_spec, _PACKAGES) if spec is not None and spec.origin]
    roots = [str(Path(origin).parents[1]) for origin in found]
    return os.pathsep.join(dict.fromkeys([*roots, *filter(None, [os.environ.get("PYTHONPATH")])]))

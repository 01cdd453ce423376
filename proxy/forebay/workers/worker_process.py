"""A worker's process as the supervisor controls it: started, polled, watched, ended. The supervisor restarts it.

A process is *hung* when MAX_MISSED_PINGS pings in a row got no answer within PING_TIMEOUT each. That is long enough for
a process that is short of CPU; and in a row, so that a pause of the whole machine, after which a ping of each worker
seems late, is not mistaken for a hang of all of them.
"""

import asyncio
import contextlib
import importlib.util
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import forebay_client
from forebay.core.errors import ForebayError, OriginError, PeerUnavailable, WorkerStartError
from forebay.core.task_registry import TaskRegistry
from forebay.peers.frames import Document, Spawn
from forebay.peers.json_codec import to_json
from forebay.peers.peer_client import Peer
from forebay.peers.unix_socket import socket_path
from forebay.workers.worker_rpc import START, StartRequest, WorkerReport, WorkerRpc, call

START_TIMEOUT: Final = 60.0
"""Seconds from the start of a process until it serves, or answers pings: an SSD tier may have much to put aside, a
journal many writes to show."""
MAX_STARTS_LATE: Final = 60
"""The longest start that answers pings, as a multiple of START_TIMEOUT: it may hang all the same, on a disk for
instance."""
CONNECT_RETRY: Final = 0.02
"""Seconds between two attempts to reach a process that is starting."""
PING_INTERVAL: Final = 2.0
"""Seconds between two pings."""
PING_TIMEOUT: Final = 2.0
"""Seconds that a worker may take to answer one."""
MAX_MISSED_PINGS: Final = 5
FAST_SHUTDOWN: Final = signal.SIGUSR1
"""Ends a worker's draining. No second SIGTERM does: a service manager may send one to each process."""
WORKER_MODULE: Final = "forebay.workers.worker_main"
SUPERVISOR_NUMBER: Final = -1
"""The supervisor's number among the workers."""


_log = logging.getLogger(__name__)


class RunningProcess(Protocol):
    """A process, as asyncio.subprocess.Process has it."""

    @property
    def pid(self) -> int:
        """The process id."""
        ...

    @property
    def returncode(self) -> int | None:
        """The exit code, minus the number of the signal that ended the process; None while it runs."""
        ...

    def send_signal(self, number: int, /) -> None:
        """Sends a signal to the process."""
        ...

    async def wait(self) -> int:
        """Waits until it has exited; its exit code."""
        ...


RunWorker: TypeAlias = Callable[[Sequence[str], int | None], Awaitable[RunningProcess]]
"""Starts a process that runs worker_main with these arguments, and inherits a descriptor."""

_PACKAGES: Final = ("forebay", "forebay_client")  # a worker must find what we found, also when we are not installed


async def run_worker(arguments: Sequence[str], socket_fd: int | None) -> RunningProcess:
    """Starts a new interpreter: see RunWorker."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # the working directory is the user's, and no place to import from
        "-m",
        "forebay.workers.parent_watch",
        WORKER_MODULE,
        *arguments,
        stdin=asyncio.subprocess.PIPE,  # see parent_watch
        env={**os.environ, "PYTHONPATH": _search_path()},
        pass_fds=() if socket_fd is None else (socket_fd,),
        start_new_session=True,  # Ctrl-C reaches the supervisor alone, which ends the workers
    )


class WorkerProcess:
    """A running worker. Made by `start`."""

    def __init__(self, number: int, process: RunningProcess, peer: Peer) -> None:
        self.number = number
        self.peer = peer
        self._process = process
        self.report: WorkerReport | None = None
        """The latest; None before the first."""

    def __repr__(self) -> str:
        return f"<worker {self.number}, process {self.pid}>"

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, minus the number of the signal that ended the process; None while it runs."""
        return self._process.returncode

    @classmethod
    async def start(
        cls,
        directory: Path,
        number: int,
        workers: int,
        group: str,
        request: StartRequest,
        spawn: Spawn,
        run: RunWorker = run_worker,
    ) -> "WorkerProcess":
        """Starts worker `number` of `workers`. Returns when it serves. Raises WorkerStartError."""
        try:
            _prepare_socket(socket_path(directory, number))
            process = await run([str(directory), str(number), str(workers), group], request.socket_fd)
        except OSError as failure:
            raise WorkerStartError(f"worker {number} can't be started: {failure}") from failure
        started = cls(number, process, Peer(number, socket_path(directory, number), SUPERVISOR_NUMBER, spawn))
        try:
            await started._start(request)
        except BaseException:
            started.kill()
            await started.wait_exit()
            raise
        return started

    async def _start(self, request: StartRequest) -> None:
        document = {"kind": START, "version": forebay_client.__version__, "request": to_json(request)}
        try:
            answer = await wait_answered(self._call_once_listening(document), self.peer.ping)
        except TimeoutError as given_up:
            raise WorkerStartError(f"worker {self.number} {given_up}") from None
        except OriginError as failure:
            raise WorkerStartError(f"worker {self.number} failed while starting: {failure}") from failure
        if "refused" in answer:
            raise WorkerStartError(f"worker {self.number} can't serve: {answer['refused']}")

    async def _call_once_listening(self, document: Document) -> Document:
        while True:
            try:
                return await self.peer.call(document)
            except PeerUnavailable:
                if self.exit_code is not None:
                    raise WorkerStartError(f"worker {self.number} ended while starting ({self.exit_code})") from None
                await asyncio.sleep(CONNECT_RETRY)

    async def poll(self) -> None:
        """Fetches a new report. Raises PeerUnavailable, ForebayError."""
        self.report = await call(self.peer, WorkerRpc.report)

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the process, if it still runs."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def kill(self) -> None:
        """Kills the process at once, with all processes that it has started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def wait_exit(self) -> int:
        """Waits until the process has exited; its exit code."""
        code = await self._process.wait()
        self.peer.close()
        return code


async def wait_answered(
    call: Coroutine[Any, Any, Document],
    ping: Callable[[], Awaitable[object]],
    seconds: float = START_TIMEOUT,
    ping_timeout: float = MAX_MISSED_PINGS * PING_TIMEOUT,
) -> Document:
    """Waits for the answer to a start. A worker that answers pings may take longer than so many seconds: it reads a
    journal of many writes, and the next start would take as long; MAX_STARTS_LATE times as long at the most. Raises
    TimeoutError, which says why, and what the call raises."""
    start = TaskRegistry().spawn(call, "start a worker")
    try:
        for waits in range(1, MAX_STARTS_LATE + 1):
            if (await asyncio.wait([start], timeout=seconds))[0]:
                return start.result()
            try:
                async with asyncio.timeout(ping_timeout):
                    await ping()
            except (TimeoutError, PeerUnavailable):
                raise TimeoutError(f"did not serve within {waits * seconds:g} s, and answers no ping") from None
            _log.warning("a worker that starts does not serve after %g s, but answers pings", waits * seconds)
        raise TimeoutError(f"did not serve within {waits * seconds:g} s, though it answers pings")
    finally:
        start.cancel()


async def wait_until_hung(
    ping: Callable[[], Awaitable[object]],
    is_reachable: Callable[[], bool],
    interval: float = PING_INTERVAL,
    ping_timeout: float = PING_TIMEOUT,
) -> str:
    """Waits until a worker hangs or can't be reached; the reason to kill it. `is_reachable`: whether its socket is
    there."""
    missed = 0
    while missed < MAX_MISSED_PINGS:
        if not missed:
            await asyncio.sleep(interval)
        if not is_reachable():
            return "its socket was removed, no other can reach it"
        try:
            async with asyncio.timeout(ping_timeout):
                await ping()
        except TimeoutError:
            missed += 1
        except ForebayError:  # it has exited, most likely: not for this to handle
            missed = 0
        else:
            missed = 0
    return f"it has not answered {MAX_MISSED_PINGS} times in a row"


def _prepare_socket(path: Path) -> None:
    """Makes the file of the worker's socket before the worker listens there (see
    peers.unix_socket.PeerNotListening)."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.touch(mode=0o600)


def _search_path() -> str:
    found = [spec.origin for spec in map(importlib.util.find_spec, _PACKAGES) if spec is not None and spec.origin]
    roots = [str(Path(origin).parents[1]) for origin in found]
    return os.pathsep.join(dict.fromkeys([*roots, *filter(None, [os.environ.get("PYTHONPATH")])]))

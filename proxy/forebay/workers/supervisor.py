"""The supervisor: keeps N worker processes running, and serves the node's admin port. It serves no S3 client.

    start ──> N workers start in parallel ──> all serve ──> admin port
    a worker exits ──> its counters are kept ──> backoff, doubled while workers exit soon ──> another starts
    a worker hangs, or its socket was removed (worker_process) ──> it is killed, and has exited
    SIGTERM ──> every worker drains, closes, exits; a second one ends the draining

Workers watch their parent (parent_watch): however the supervisor ends, they end. Their sockets are in a directory of
mode 0700 with an unguessable name. The address that clients connect to is reserved for as long as the supervisor runs,
so that no other process can get it while no worker listens.
"""

import asyncio
import contextlib
import logging
import secrets
import signal
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from forebay.core.errors import ForebayError, WorkerStartError
from forebay.core.task_registry import TaskRegistry
from forebay.peers.unix_socket import make_socket_directory, socket_path
from forebay.server.config_source import ConfigSource
from forebay.server.http.listening_sockets import bind, reserve
from forebay.server.shared_memory.socket_file import SocketFile, listen_on_socket
from forebay.server.startup import import_aiohttp
from forebay.settings.addresses import ListenAddress
from forebay.settings.model import ServerSettings, Settings
from forebay.storage.cache_origin import cache_origins
from forebay.storage.run_record import begin_run, remove_stale_record
from forebay.workers.node_control import NodeControl
from forebay.workers.worker_pool import WorkerPool
from forebay.workers.worker_process import (
    CONNECT_RETRY,
    FAST_SHUTDOWN,
    RunWorker,
    WorkerProcess,
    run_worker,
    wait_until_hung,
)
from forebay.workers.worker_rpc import StartRequest

if TYPE_CHECKING:  # see _import_admin_server
    from aiohttp import web

    from forebay.server.admin.control import Control

POLL_INTERVAL: Final = 2.0
"""Seconds between two reports of a worker."""
REPORT_TIMEOUT: Final = 30.0
"""Seconds that a worker may take for one."""
FIRST_BACKOFF: Final = 0.1
MAX_BACKOFF: Final = 30.0
STABLE_AFTER: Final = 10.0
"""Seconds of service after which the backoff of the next restart is the first again."""
EXIT_GRACE: Final = 10.0
"""Seconds beyond the drain timeout that a worker may take to exit."""

_log = logging.getLogger(__name__)


class Supervisor:
    """See the module. `text`, `mode`: the file that `settings` were read from, as `source` read it."""

    def __init__(
        self,
        settings: Settings,
        source: ConfigSource,
        text: str | None,
        mode: int,
        workers: int,
        *,
        listen: Callable[[int, ListenAddress], ListenAddress] = lambda _, shared: shared,
        run: RunWorker = run_worker,
    ) -> None:
        """`listen`: the address of a worker, by its number; tests give each its own, to choose one. `run`: starts the
        process of a worker."""
        self.pool = WorkerPool(workers)
        self.control = NodeControl(self.pool, settings, source, text, mode)
        self._listen = listen
        self._run_worker = run
        self._first_text, self._first_mode = text, mode
        self._group = secrets.token_hex(16)
        self._tasks = TaskRegistry()
        self._socket_file: SocketFile | None = None
        self._supervising: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Starts the node. Returns when all workers serve. Raises AddressUnavailable, WorkerStartError."""
        server = self.control.settings.server
        with contextlib.ExitStack() as opened:

            def keep(made: socket.socket) -> socket.socket:
                return opened.enter_context(contextlib.closing(made))

            self._reserved = [keep(reserve(server.listen, "server.listen"))]
            self.address = self._reserved[0].getsockname()
            self.tls_address = None
            if server.tls_listen is not None:
                self._reserved.append(keep(reserve(server.tls_listen, "server.tls_listen")))
                self.tls_address = self._reserved[1].getsockname()
            admin = keep(bind(server.admin, "server.admin")) if server.admin is not None else None
            self._socket_file = listen_on_socket(server)
            if self._socket_file is not None:
                opened.enter_context(contextlib.closing(self._socket_file))
            self._socket_directory = make_socket_directory(self.pool.worker_count)
            opened.pop_all()
        self.directory = self._socket_directory.path
        self._runner = None
        # Behind the addresses: a start that they refuse does not end another Forebay's run.
        self._run = begin_run(server.state_dir, *cache_origins(self.control.settings))
        failure: BaseException | None = None
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self.pool.worker_count):
                    group.create_task(self._start_worker(number))
                serve_admin = await _import_admin_server()
        except* WorkerStartError as failed:
            failure = failed.exceptions[0]
        if failure is not None:  # outside: Python 3.11.2 makes a group of what an except* block raises, and no sentence
            if admin is not None:
                admin.close()
            await self.stop(asyncio.Event())
            raise failure from None
        for number in range(self.pool.worker_count):
            self._supervising.append(self._tasks.spawn(self._supervise(number), f"supervise worker {number}"))
        self._supervising.append(self._tasks.spawn(remove_stale_record(self._run), "run record"))
        if admin is not None:
            self._runner = await serve_admin(server, self.control.verbs, admin)
            self.admin_address = admin.getsockname()

    async def announce_shutdown(self) -> None:
        """Makes readiness fail while all workers still serve."""
        await self.control.announce_shutdown()

    async def stop(self, hurry: asyncio.Event) -> None:
        """Drains and ends all workers; `hurry`, once set, ends the draining."""
        for supervising in self._supervising:
            supervising.cancel()
        if self._supervising:
            await asyncio.wait(self._supervising)
        running = [worker for worker in self.pool.processes.values() if worker.exit_code is None]
        for worker in running:
            worker.signal(signal.SIGTERM)
        exits = [self._tasks.spawn(self._wait_or_kill(worker), f"exit of {worker}") for worker in running]
        fast_shutdown = self._tasks.spawn(self._fast_shutdown(hurry, running), "fast shutdown")
        if exits:
            await asyncio.wait(exits)
        fast_shutdown.cancel()
        if self._runner is not None:
            await self._runner.cleanup()
        await self._tasks.close()
        for reserved in self._reserved:
            reserved.close()
        if self._socket_file is not None:
            self._socket_file.close()
        self._socket_directory.remove()

    async def _wait_or_kill(self, worker: WorkerProcess) -> None:
        try:
            async with asyncio.timeout(self.control.settings.server.drain_timeout + EXIT_GRACE):
                await worker.wait_exit()
        except TimeoutError:
            _log.error("%r did not end: it is killed", worker)
            worker.kill()
            await worker.wait_exit()

    @staticmethod
    async def _fast_shutdown(requested: asyncio.Event, running: list[WorkerProcess]) -> None:
        await requested.wait()
        for worker in running:
            worker.signal(FAST_SHUTDOWN)

    async def origin_faults(self) -> Sequence[str]:
        """Returns the faults of the origin, as sentences, once every worker has checked it."""
        while True:
            faults = await self.control.origin_faults()
            if faults is not None:
                return faults
            await asyncio.sleep(CONNECT_RETRY)

    async def reload(self) -> None:
        """The effect of SIGHUP: in all workers, or in none."""
        await self.control.reload()

    def schedule_reload(self) -> None:
        """`reload`, from a signal handler."""
        self._tasks.spawn(self.reload(), "reload")

    # One worker

    async def _start_worker(self, number: int) -> None:
        request, workers = self._start_request(number), self.pool.worker_count
        self.pool.processes[number] = await WorkerProcess.start(
            self.directory, number, workers, self._group, request, self._tasks.spawn, self._run_worker
        )
        if self.control.is_ending:  # told after the others were
            await self.control.announce_shutdown()

    @property
    def _socket_fd(self) -> int | None:
        """The descriptor of the Unix socket, which workers inherit under the same number."""
        return self._socket_file.listening.fileno() if self._socket_file is not None else None

    def _start_request(self, number: int) -> StartRequest:
        control = self.control
        return StartRequest(
            text=control.text,
            mode=control.mode,
            first_text=self._first_text,
            first_mode=self._first_mode,
            file=str(control.source.file) if control.source.file is not None else None,
            flags=control.source.flags,
            listen=self._listen(number, _address(self.address)),
            tls_listen=_address(self.tls_address) if self.tls_address is not None else None,
            socket_fd=self._socket_fd,
            sizes=control.worker_sizes(),
            run=self._run,
        )

    async def _supervise(self, number: int) -> None:
        """Keeps a worker running: polls it, watches it, and starts another when it has exited."""
        loop, backoff = asyncio.get_running_loop(), FIRST_BACKOFF
        while True:
            worker = self.pool.processes.get(number)
            began = loop.time()
            if worker is not None:
                async with asyncio.TaskGroup() as group:
                    watching = [group.create_task(watch(worker)) for watch in (self._poll, self._kill_if_hung)]
                    code = await worker.wait_exit()
                    for task in watching:
                        task.cancel()
                self._record_exit(worker)
                if loop.time() - began >= STABLE_AFTER:
                    backoff = FIRST_BACKOFF
                _log.error("%r ended (%d): another begins in %g s", worker, code, backoff)
            await asyncio.sleep(backoff)
            backoff = min(2 * backoff, MAX_BACKOFF)
            try:
                async with self.control.change_lock:
                    await self._start_worker(number)
            except WorkerStartError as failed:
                _log.error("%s", failed)
            else:
                self.pool.restarts += 1

    def _record_exit(self, worker: WorkerProcess) -> None:
        try:
            self.pool.record_exit(worker)
        except Exception:  # counters are no reason to go without a worker
            _log.exception("what %r had counted is lost", worker)

    async def _poll(self, worker: WorkerProcess) -> None:
        while True:
            await asyncio.sleep(POLL_INTERVAL)
            try:
                async with asyncio.timeout(REPORT_TIMEOUT):
                    await worker.poll()
            except (TimeoutError, ForebayError) as failure:
                _log.debug("%r: %s", worker, failure)  # it has exited, most likely, or it hangs

    async def _kill_if_hung(self, worker: WorkerProcess) -> None:
        why = await wait_until_hung(worker.peer.ping, socket_path(self.directory, worker.number).is_socket)
        _log.error("%r is killed: %s", worker, why)
        worker.kill()


async def _import_admin_server() -> "Callable[[ServerSettings, Control, socket.socket], Awaitable[web.AppRunner]]":
    """Imports the modules of the admin port, while the workers import theirs."""
    await asyncio.sleep(CONNECT_RETRY)  # by then they have started
    import_aiohttp()
    from forebay.server.admin.admin_server import serve_admin  # noqa: PLC0415 # see above

    return serve_admin


def _address(bound: tuple[str, int]) -> ListenAddress:
    return ListenAddress(bound[0], bound[1])

"""The supervisor: keeps N workers running, and serves the node's admin port. It answers no client.

    start ──> N workers begin, side by side ──> all serve ──> admin port
    a worker ends ──> what it had counted is kept ──> after a pause, which doubles while it doesn't last, another begins
    a worker hangs, or its socket was removed (workers.hang_detection) ──> it is killed, and has ended
    SIGTERM ──> to all: each drains, closes, ends; again: each is told to hurry

Workers hang on a lifeline that we hold: however we end, they end. They meet in a directory of mode 0700 under an
unguessable name. The address that clients connect to is reserved for as long as we run, so that nobody else can get it
while no worker listens.
"""

import asyncio
import contextlib
import logging
import secrets
import signal
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import forebay_client
from forebay.core.errors import ForebayError
from forebay.core.task_registry import TaskRegistry
from forebay.peers.frames import Document
from forebay.peers.unix_socket import WorkerStartError, make_socket_directory, socket_path
from forebay.server.config_source import ConfigSource
from forebay.server.http.listening_sockets import bind, reserve
from forebay.server.startup import import_aiohttp
from forebay.settings.addresses import ListenAddress
from forebay.settings.model import ServerSettings, Settings
from forebay.workers.hang_detection import wait_until_hung
from forebay.workers.node_control import NodeControl
from forebay.workers.node_state import NodeState
from forebay.workers.worker_process import CONNECT_RETRY, FAST_SHUTDOWN, WorkerProcess

if TYPE_CHECKING:  # see _admin_port
    from aiohttp import web

    from forebay.server.admin.admin_schema import Control

POLL_INTERVAL: Final = 2.0
"""Seconds between two looks at a worker."""
REPORT_TIMEOUT: Final = 30.0
"""Seconds that it may take to tell its figures."""
FIRST_BACKOFF: Final = 0.1
MAX_BACKOFF: Final = 30.0
STABLE_AFTER: Final = 10.0
"""Seconds of service after which the next end is not one of a row."""
EXIT_GRACE: Final = 10.0
"""Seconds beyond the drain timeout that a worker may take to close what it has open."""

_log = logging.getLogger(__name__)


class Supervisor:
    """See the module. `text`, `mode`: what `settings` were made of, as `source` read them."""

    def __init__(
        self,
        settings: Settings,
        source: ConfigSource,
        text: str | None,
        mode: int,
        workers: int,
        *,
        listen: Callable[[int, ListenAddress], ListenAddress] = lambda _, shared: shared,
    ) -> None:
        """`listen`: where a worker, by its number, is to listen; for tests, that must know whom they ask."""
        self.state = NodeState(settings, source, text, mode, workers)
        self.control = NodeControl(self.state)
        self._listen = listen
        self._family = secrets.token_hex(16)
        self._tasks = TaskRegistry()
        self._supervising: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Returns when all workers serve. Raises AddressTaken, WorkerStartError."""
        server = self.state.settings.server
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
            self._socket_directory = make_socket_directory(self.state.worker_count)
            opened.pop_all()
        self.directory = self._socket_directory.path
        self._runner = None
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self.state.worker_count):
                    group.create_task(self._start_worker(number))
                serve_admin = await _import_admin_server()
        except* WorkerStartError as failed:
            if admin is not None:
                admin.close()
            await self.stop(asyncio.Event())
            raise failed.exceptions[0] from None
        for number in range(self.state.worker_count):
            self._supervising.append(self._tasks.spawn(self._supervise(number), f"keep worker {number}"))
        if admin is not None:
            self._runner = await serve_admin(server, self.control, admin)
            self.admin_address = admin.getsockname()

    async def stop(self, hurry: asyncio.Event) -> None:
        """Drain and end all workers; `hurry`, once set, ends the draining."""
        for keeper in self._supervising:
            keeper.cancel()
        if self._supervising:
            await asyncio.wait(self._supervising)
        running = [worker for worker in self.state.processes.values() if worker.exit_code is None]
        for worker in running:
            worker.signal(signal.SIGTERM)
        ends = [self._tasks.spawn(self._wait_or_kill(worker), f"end of {worker}") for worker in running]
        hurrying = self._tasks.spawn(self._fast_shutdown(hurry, running), "hurry")
        if ends:
            await asyncio.wait(ends)
        hurrying.cancel()
        if self._runner is not None:
            await self._runner.cleanup()
        await self._tasks.close()
        for reserved in self._reserved:
            reserved.close()
        self._socket_directory.remove()

    async def _wait_or_kill(self, worker: WorkerProcess) -> None:
        try:
            async with asyncio.timeout(self.state.settings.server.drain_timeout + EXIT_GRACE):
                await worker.wait_exit()
        except TimeoutError:
            _log.error("%r did not end: it is killed", worker)
            worker.kill()
            await worker.wait_exit()

    @staticmethod
    async def _fast_shutdown(hurry: asyncio.Event, running: list[WorkerProcess]) -> None:
        await hurry.wait()
        for worker in running:
            worker.signal(FAST_SHUTDOWN)

    async def reload(self) -> None:
        """What SIGHUP asks for: in all workers, or in none."""
        await self.control.reload()

    def schedule_reload(self) -> None:
        """`reload`, from a signal handler."""
        self._tasks.spawn(self.reload(), "reload")

    # Keeping

    async def _start_worker(self, number: int) -> None:
        worker = await WorkerProcess.start(
            self.directory,
            number,
            self.state.worker_count,
            self._family,
            self._start_request(number),
            self._tasks.spawn,
        )
        self.state.processes[number] = worker

    def _start_request(self, number: int) -> Document:
        standing = self.state
        listen = self._listen(number, _address(self.address))
        return {
            "version": forebay_client.__version__,
            "text": standing.text,
            "mode": standing.mode,
            "file": str(standing.source.file) if standing.source.file is not None else None,
            "flags": dict(standing.source.flags),
            "listen": [listen.host, listen.port],
            "tls_listen": list(self.tls_address[:2]) if self.tls_address is not None else None,
            "sizes": standing.worker_sizes(),
        }

    async def _supervise(self, number: int) -> None:
        """Have a worker run, for good."""
        loop, pause = asyncio.get_running_loop(), FIRST_BACKOFF
        while True:
            worker = self.state.processes.get(number)
            began = loop.time()
            if worker is not None:
                async with asyncio.TaskGroup() as group:
                    looking = [group.create_task(look(worker)) for look in (self._poll, self._kill_if_hung)]
                    code = await worker.wait_exit()
                    for task in looking:
                        task.cancel()
                self._record_exit(worker)
                if loop.time() - began >= STABLE_AFTER:
                    pause = FIRST_BACKOFF
                _log.error("%r ended (%d): another begins in %g s", worker, code, pause)
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_BACKOFF)
            try:
                async with self.control.change_lock:
                    await self._start_worker(number)
            except WorkerStartError as failed:
                _log.error("%s", failed)
            else:
                self.state.restarts += 1

    def _record_exit(self, worker: WorkerProcess) -> None:
        try:
            self.state.record_exit(worker)
        except Exception:  # figures are no reason to go without a worker
            _log.exception("what %r had counted is lost", worker)

    async def _poll(self, worker: WorkerProcess) -> None:
        while True:
            await asyncio.sleep(POLL_INTERVAL)
            try:
                async with asyncio.timeout(REPORT_TIMEOUT):
                    worker.report = await worker.peer.call({"kind": "look"})
            except (TimeoutError, ForebayError) as failure:
                _log.debug("%r: %s", worker, failure)  # it has ended, most likely, or it hangs

    async def _kill_if_hung(self, worker: WorkerProcess) -> None:
        """End it if it hangs, or can't be reached by the others."""
        place = socket_path(self.directory, worker.number)
        why = await wait_until_hung(worker.peer.ping, place.is_socket)
        _log.error("%r is killed: %s", worker, why)
        worker.kill()


async def _import_admin_server() -> "Callable[[ServerSettings, Control, socket.socket], Awaitable[web.AppRunner]]":
    """What serves the admin port, imported while the workers import what they are made of."""
    await asyncio.sleep(CONNECT_RETRY)  # by then they have begun
    import_aiohttp()
    from forebay.server.admin.admin_server import serve_admin  # noqa: PLC0415 # see above

    return serve_admin


def _address(bound: tuple[str, int]) -> ListenAddress:
    return ListenAddress(bound[0], bound[1])

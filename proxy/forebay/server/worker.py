"""One worker: the listener, the admin port and their background tasks, from start to drained end.

    start: bind, compose, listen ──> serve, probe the origin ──> drain: accept nothing new, finish requests ──> close

The parts that answer requests are made in forebay.server.composition; a worker runs them.
"""

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohttp import web

from forebay.core.errors import JournalUnusable
from forebay.core.timers import Timers
from forebay.server.admin.admin_server import serve_admin
from forebay.server.admin.worker.worker_control import WorkerControl
from forebay.server.composition import WorkerGroup, compose
from forebay.server.config_source import ConfigSource
from forebay.server.connection_parts import connection_services, socket_services
from forebay.server.http.arrived_requests import wait_for_reads
from forebay.server.http.connection_services import ConnectionServices
from forebay.server.http.listener import Listener
from forebay.server.http.listening_sockets import BACKLOG, bind
from forebay.server.http.tls import Certificate, pem_files
from forebay.server.origin_watch import OriginWatch
from forebay.server.rpc.rpc_server import RpcServer
from forebay.server.shared_memory.socket_connection import SocketConnection
from forebay.server.shared_memory.socket_file import SocketFile, listen_on_socket
from forebay.server.telemetry.access_log import AccessLog
from forebay.server.telemetry.log_file import LogFile, PipeLock, stream_descriptor
from forebay.server.telemetry.metrics import Metrics
from forebay.server.worker_gauges import WorkerGauges
from forebay.server.worker_tasks import CHECK_INTERVAL, WorkerTasks, reload_certificate
from forebay.settings.addresses import ListenAddress
from forebay.settings.model import Settings
from forebay.storage.cache_origin import cache_origins
from forebay.storage.private_directory import temporary_directory
from forebay.storage.run_record import NodeRun, begin_run, remove_stale_record

if TYPE_CHECKING:  # only with a journal
    from forebay.storage.journal.journal_files import JournalFiles
    from forebay.write.back.journal_watch import JournalWatch

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Membership:
    """The resources that a worker among several shares with the others. The supervisor has their admin port."""

    group: WorkerGroup
    port: RpcServer
    """Open already: a worker answers the others before it reads the state that they share."""
    run: NodeRun
    """The run of the node."""
    pipe_lock: PipeLock
    """Held to write to the access log."""
    listen: ListenAddress
    tls_listen: ListenAddress | None
    """The shared addresses, with their final ports."""
    socket_fd: int | None
    """The listening Unix socket of all workers; None: there is none."""


class Worker:
    """Serves from `start` to `stop`. Made inside the loop that will serve."""

    def __init__(
        self,
        settings: Settings,
        source: ConfigSource,
        *,
        clock: Callable[[], float] = time.time,
        check_interval: float = CHECK_INTERVAL,
        timers: Timers | None = None,
        membership: Membership | None = None,
        journal_files: "JournalFiles | None" = None,
    ) -> None:
        """`clock`: seconds since the epoch, for freshness. `check_interval`: see CHECK_INTERVAL. `timers`: of the
        listener's time limits, None for the loop's. `membership`: None for the only worker of a node; otherwise
        `settings` are this worker's share (settings.worker_share). `journal_files`: see `compose`."""
        self._journal_files = journal_files
        self._membership = membership
        self._settings = settings
        self.source = source
        self._clock = clock
        self._timers = asyncio.get_running_loop() if timers is None else timers
        self._runners: list[web.ServerRunner | web.AppRunner] = []
        self._servers: list[asyncio.Server] = []
        self._certificate: Certificate | None = None
        self._socket_file: SocketFile | None = None
        self._log_file: LogFile | None = None
        self._access_log: AccessLog | None = None
        self._tasks = WorkerTasks(check_interval)

    async def start(self) -> None:
        """Starts; returns when requests are served. Raises StartError, SettingsError."""
        server, member = self._settings.server, self._membership
        temporary_directory()  # parts look for it when some of them are there, which nobody would close
        plain = secure = admin = None
        with contextlib.ExitStack() as opened:

            def listen(address: ListenAddress | None, setting: str) -> socket.socket | None:
                if address is None:
                    return None
                return opened.enter_context(contextlib.closing(bind(address, setting, shared=member is not None)))

            if member is None:
                plain = listen(server.listen, "server.listen")
                secure = listen(server.tls_listen, "server.tls_listen")
                admin = listen(server.admin, "server.admin")
                if (file := listen_on_socket(server)) is not None:
                    self._socket_file = opened.enter_context(contextlib.closing(file))
            if (files := pem_files(server)) is not None:
                self._certificate = Certificate(files)
            log_to = self._open_access_log(opened)
            metrics = Metrics(origins=[origin.name for origin in self._settings.all_origins])
            # Behind the addresses: a start that they refuse does not end another Forebay's run.
            run = begin_run(server.state_dir, *cache_origins(self._settings)) if member is None else member.run
            await self._make_parts(metrics, run)
            services = self._make_services(metrics, log_to)
            if member is not None:  # not before it can serve: until then connections go to the other workers
                plain = listen(member.listen, "server.listen")
                secure = listen(member.tls_listen, "server.tls_listen")
            assert plain is not None  # noqa: S101 # server.listen is always set
            await self._serve(plain, secure)
            await self._serve_socket(services)
            if admin is not None:
                await self._serve_admin(admin)
            opened.pop_all()
        self._tasks.start(self.parts, self.control, self.origin_watch, self._certificate)
        if member is None:
            self._tasks.spawn(remove_stale_record(run), "run record")

    async def _make_parts(self, metrics: Metrics, run: NodeRun) -> None:
        member = self._membership
        self.parts = compose(
            self._settings,
            metrics,
            self._clock,
            group=member.group if member else None,
            timers=self._timers,
            run=run,
            journal_files=self._journal_files,
        )
        if member is not None:
            await self._join(member)
        if self.parts.writes.write_back is not None:
            await self._start_watch(self.parts.writes.write_back.watch)
        self.origin_watch = OriginWatch(self.parts.origins)
        self.control = WorkerControl(self.parts, self._settings, self.source)

    def _make_services(self, metrics: Metrics, log_to: int | None) -> ConnectionServices:
        """Makes the listener, and the services of its connections. `log_to`: a descriptor, None for no access log."""
        if log_to is not None:
            member = self._membership
            self._access_log = AccessLog(log_to, time.time, member.pipe_lock if member else None)
        services = connection_services(self._settings, self.parts, self._access_log, self._timers)
        self.listener = Listener(services)
        self._channel_services = socket_services(self._settings, self.parts, services, self._timers)
        self.client_memory = self._channel_services.memory
        self.listener.begin_draining = self.client_memory.begin_draining
        metrics.add_gauges(WorkerGauges(self.parts, self.listener, self.client_memory, self.control).samples)
        return services

    async def _start_watch(self, watch: "JournalWatch") -> None:
        """Raises JournalUnusable."""
        try:
            await watch.start()
        except OSError as error:
            path = self._settings.journal.path if self._settings.journal is not None else ""
            raise JournalUnusable(f"journal.path: {path} can't be used ({error.strerror or error})") from None

    async def _join(self, member: Membership) -> None:
        """Answers the other workers from here on, and loads the writes that are in doubt with them."""
        member.port.service = self.parts.peer_service
        for answer in (await member.group.peers.call_all({"kind": "in_doubt_writes"})).values():
            self.parts.peer_service.writes.load_in_doubt_writes(answer)

    def _open_access_log(self, opened: contextlib.ExitStack) -> int | None:
        """The file descriptor to write it to, None for no access log."""
        setting = self._settings.server.access_log
        if setting == "off":
            return None
        if (stream := stream_descriptor(setting)) is not None:
            return stream
        self._log_file = opened.enter_context(contextlib.closing(LogFile(setting)))
        return self._log_file.fd

    async def _serve(self, plain: socket.socket, secure: socket.socket | None) -> None:
        # The loop calls listen() again, with a backlog of 100 by default: fewer than may come at once.
        loop, server = asyncio.get_running_loop(), self.listener.server
        self._servers.append(await loop.create_server(server, sock=plain, backlog=BACKLOG))
        self.address = plain.getsockname()
        if secure is not None and self._certificate is not None:
            self._servers.append(
                await loop.create_server(
                    server,
                    sock=secure,
                    backlog=BACKLOG,
                    ssl=self._certificate.context,
                    ssl_handshake_timeout=self._settings.limits.header_timeout,  # nothing else comes before a head
                )
            )
            self.tls_address = secure.getsockname()

    async def _serve_socket(self, services: ConnectionServices) -> None:
        """Accepts from the Unix socket, if there is one."""
        listening = self._socket_file.listening if self._socket_file is not None else None
        if self._membership is not None and self._membership.socket_fd is not None:
            listening = socket.socket(fileno=self._membership.socket_fd)
        if listening is None:
            return
        loop, server, channels = asyncio.get_running_loop(), self.listener.server, self._channel_services
        self._servers.append(
            await loop.create_unix_server(
                lambda: SocketConnection(server, loop, services, channels), sock=listening, backlog=BACKLOG
            )
        )

    async def _serve_admin(self, admin: socket.socket) -> None:
        self._runners.append(await serve_admin(self._settings.server, self.control.verbs, admin))
        self.admin_address = admin.getsockname()

    def schedule_reload(self) -> None:
        """Starts `reload` from a signal handler."""
        self.parts.context.tasks.spawn(self.reload(), "reload")

    async def reopen_files(self) -> None:
        """Reopens the access log's file, and reads the certificate again."""
        if self._log_file is not None and self._access_log is not None:
            await self._access_log.flush()  # requests before the signal belong to the old file
            try:
                self._log_file.reopen()
            except OSError as error:
                _log.error("the access log can't be opened anew, it goes on in the old file: %s", error)
        if self._certificate is not None:
            await reload_certificate(self._certificate, self.parts.context.metrics, force=True)

    async def reload(self) -> None:
        """Reopens files and reads the configuration again, as SIGHUP asks. A refused configuration changes nothing."""
        await self.reopen_files()
        await self.control.reload_and_log()

    async def announce_shutdown(self) -> None:
        """Makes readiness fail while requests are still served. From now on new writes go through, so that fewer are
        pending at the end."""
        self.control.is_ending = True
        if self.parts.writes.write_back is not None:
            self.parts.writes.write_back.room.is_ending = True

    async def stop(self, hurry: asyncio.Event | None = None) -> bool:
        """Drains and closes. Returns whether every request in flight was finished. `hurry`, once set, ends the
        drain."""
        await wait_for_reads(lambda: [sock.fileno() for server in self._servers for sock in server.sockets])
        for server in self._servers:
            server.close()
        if self._socket_file is not None:
            self._socket_file.close()
        hurry, drain_timeout = hurry or asyncio.Event(), self._settings.server.drain_timeout
        _log.info("ending: requests under way have %g s", drain_timeout)  # once no new connection is accepted
        until = time.monotonic() + drain_timeout
        if (write_back := self.parts.writes.write_back) is not None:
            write_back.begin_finishing(drain_timeout)
        drained = await self.listener.drain(drain_timeout, hurry)
        await self.listener.close()
        self.client_memory.close()
        if self._membership is not None:
            await self._membership.port.close()  # not before: while clients are answered, others' writes count
        for runner in self._runners:
            await runner.cleanup()
        await self._tasks.close()
        await self.parts.jobs.plans.coordinator.save_positions()
        self.parts.jobs.plans.coordinator.close()
        if self.parts.jobs.kept_recordings is not None:
            await self.parts.jobs.kept_recordings.close()
        if write_back is not None:
            await write_back.watch.stop(max(0.0, until - time.monotonic()), hurry)
        await self.parts.context.tasks.close()
        await self.parts.jobs.prefetcher.close()  # at once: what it fetches without a task may go on in one
        if self._access_log is not None:
            await self._access_log.flush()  # not before: small PUTs under way are recorded as they are cancelled
        await self._close_parts()
        return drained

    async def _close_parts(self) -> None:
        parts = self.parts
        parts.jobs.warm_ups.close()
        if parts.writes.write_back is not None:
            await parts.writes.write_back.journal.close()
        parts.storage.spool.close()
        parts.storage.upload_starts.close()
        parts.context.peers.close()
        if parts.storage.tiers.ssd is not None:
            await parts.storage.tiers.ssd.close()
        await parts.origins.close()
        if self._log_file is not None:
            self._log_file.close()

    async def origin_faults(self) -> Sequence[str]:
        """Returns the faults of the origin, as sentences, once it has been checked."""
        await self.origin_watch.first_check.wait()
        return (await self.control.readiness()).reasons

"""One worker: the listener, the admin port, and what keeps them going, from start to drained end.

start: bind, compose, probe the origin ──> serve ──> drain: nothing new is taken, requests end ──> close
"""

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Callable, Iterator
from typing import Final

from aiohttp import web

import forebay_client
from forebay.flights.tasks import TaskRegistry
from forebay.shell.admin.gate import Gate
from forebay.shell.admin.routes import admin_application
from forebay.shell.composition import Parts, compose
from forebay.shell.configuration import ConfigSource
from forebay.shell.control import LiveControl
from forebay.shell.listener.connection import ConnectionLimits
from forebay.shell.listener.server import Listener
from forebay.shell.telemetry.accesslog import AccessLog
from forebay.shell.telemetry.metrics import Metrics, Sample
from forebay.words.errors import ForebayError, SettingsError
from forebay.words.settings.addresses import Address
from forebay.words.settings.model import Settings

_log = logging.getLogger(__name__)

PROBE_INTERVAL: Final = 5.0
"""Seconds between two questions to the origin whether it is there."""
BACKLOG: Final = 4096


class PortTaken(ForebayError):
    """An address can't be listened on. Its text is for people."""


def bind(address: Address, option: str) -> socket.socket:
    """A socket on `address`. PortTaken says what to do, naming the command-line `option`."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address.host, address.port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise PortTaken(
            f"{address} can't be listened on ({error.strerror}): end the program that uses it, or choose another "
            f"address with {option} HOST:PORT."
        ) from error
    listening.setblocking(False)
    return listening


class Worker:
    """Serves until it is told to stop. Made inside the loop that will serve; `start`, then `stop`."""

    def __init__(
        self, settings: Settings, source: ConfigSource, *, log_to: int = 1, clock: Callable[[], float] = time.time
    ) -> None:
        """`log_to`: the file descriptor of the access log. `clock`: seconds since the epoch, for freshness."""
        self._settings = settings
        self._source = source
        self._log_to = log_to
        self._clock = clock
        self._reachable: bool | None = None
        self._runners: list[web.ServerRunner | web.AppRunner] = []
        self._server: asyncio.Server | None = None
        self._keeping = TaskRegistry()

    async def start(self) -> None:
        """Returns when requests are served. Raises PortTaken, SettingsError."""
        settings = self._settings
        listening = bind(settings.server.listen, "--listen")
        with contextlib.ExitStack() as bound:
            bound.callback(listening.close)
            admin = None
            if settings.server.admin is not None:
                admin = bind(settings.server.admin, "--admin")
                bound.callback(admin.close)
            metrics = Metrics()
            self.parts = compose(settings, metrics, self._clock)
            metrics.add_gauges(self._gauges)
            self.control = LiveControl(self.parts, settings, self._source, lambda: self._reachable)
            self._access_log = AccessLog(self._log_to, self.parts.tasks, time.time)
            self.listener = _listener(settings, self.parts, metrics, self._access_log)
            self._server = await asyncio.get_running_loop().create_server(self.listener.server, sock=listening)
            self.address = listening.getsockname()
            if admin is not None:
                await self._serve_admin(admin)
            bound.pop_all()
        self._keeping.spawn(self._probe(), "probe")

    async def _serve_admin(self, admin: socket.socket) -> None:
        server = self._settings.server
        hosts = frozenset({server.admin.host}) if server.admin is not None else frozenset[str]()
        gate = Gate(server.admin_token.reveal() if server.admin_token is not None else None, hosts)
        runner = web.AppRunner(admin_application(self.control, gate), access_log=None, handle_signals=False)
        await runner.setup()
        await web.SockSite(runner, admin).start()
        self._runners.append(runner)
        self.admin_address = admin.getsockname()

    def reload_soon(self) -> None:
        """`reload`, from a signal handler."""
        self.parts.tasks.spawn(self.reload(), "reload")

    async def reload(self) -> None:
        """Read the configuration again, as SIGHUP asks. One that is refused changes nothing."""
        try:
            answer = await self.control.reload_config()
        except SettingsError as error:
            _log.error("the configuration is refused, nothing has changed: %s", error)
        else:
            _log.info("configuration: %s", answer)

    async def stop(self, hurry: asyncio.Event | None = None) -> bool:
        """Drain and close; whether every request under way came to its end. `hurry`, once set, ends the draining."""
        assert self._server is not None  # noqa: S101 # stop comes after start
        self._server.close()
        drained = await self.listener.drain(self._settings.server.drain_timeout, hurry or asyncio.Event())
        await self.listener.close()
        for runner in self._runners:
            await runner.cleanup()
        await self._keeping.close()
        await self.parts.tasks.close()
        if self.parts.tiers.ssd is not None:
            await self.parts.tiers.ssd.close()
        await self.parts.listing.close()
        await self.parts.origin.close()
        await self._access_log.flush()
        return drained

    async def _probe(self) -> None:
        while True:
            reachable = await self.parts.origin.probe()
            if reachable is not self._reachable:
                endpoint = self._settings.origin.endpoint
                if reachable:
                    _log.info("the origin %s answers", endpoint)
                else:
                    _log.warning("the origin %s can't be reached", endpoint)
            self._reachable = reachable
            await asyncio.sleep(PROBE_INTERVAL)

    def _gauges(self) -> Iterator[Sample]:
        parts = self.parts
        yield "forebay_info", (forebay_client.__version__,), 1
        yield "forebay_connections", (), self.listener.connections
        yield "forebay_requests_in_flight", (), self.listener.in_flight
        yield "forebay_origin_reachable", (), float(bool(self._reachable))
        yield "forebay_flights", (), len(parts.flights)
        yield "forebay_buffer_capacity_bytes", (), parts.budget.capacity
        yield "forebay_buffer_used_bytes", (), parts.budget.in_use
        yield "forebay_buffer_waiting", (), parts.budget.waiting
        occupancies = {"memory": parts.tiers.memory.occupancy()}
        if parts.tiers.ssd is not None:
            occupancies["ssd"] = parts.tiers.ssd.occupancy()
        for tier, occupancy in occupancies.items():
            yield "forebay_tier_capacity_bytes", (tier,), occupancy.capacity
            yield "forebay_tier_used_bytes", (tier,), occupancy.used
            yield "forebay_tier_blocks", (tier,), occupancy.blocks
            yield "forebay_tier_heads", (tier,), occupancy.heads
        yield from parts.metrics.amplification()


def _listener(settings: Settings, parts: Parts, metrics: Metrics, access_log: AccessLog) -> Listener:
    limits = settings.limits
    return Listener(
        parts.gateway,
        metrics,
        access_log,
        ConnectionLimits(limits.header_size, limits.connections, limits.header_timeout, limits.idle_timeout),
        most_requests=limits.requests,
        stall=limits.body_timeout,
    )

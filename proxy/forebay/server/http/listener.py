"""The listener of one worker: makes a connection of each accepted socket, and ends them all.

    accepted ──> ConnectionFactory ──> ClientConnection, which has its services from the start
    drain ──> what has arrived is read; idle connections end, busy ones with their answer, new ones soon
          ──> close: the others are broken off

Sockets are bound elsewhere (forebay.server.http.listening_sockets), and requests are answered elsewhere
(forebay.server.http.connection_services).
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Final, cast

from aiohttp import web

from forebay.server.http.arrived_requests import wait_for_reads
from forebay.server.http.client_connection import ClientConnection
from forebay.server.http.connection_limits import Timeout
from forebay.server.http.connection_services import ConnectionServices

NEW_CONNECTION_WAIT: Final = 0.25
"""Seconds that a connection on which no byte has come stays open during a drain."""


class ConnectionFactory(web.Server):
    """Makes a ClientConnection of each accepted socket, and knows those that are open."""

    def __init__(self, services: ConnectionServices) -> None:
        super().__init__(_handle)
        self.services = services

    def __call__(self) -> ClientConnection:
        """A connection for the loop, which calls its `connection_made`."""
        return ClientConnection(self, self._loop, self.services)


async def _handle(request: web.BaseRequest) -> web.StreamResponse:
    return await cast("ClientConnection", request.protocol).handle(request)


class Listener:
    """See the module. `server` is for the loop's `create_server`."""

    def __init__(self, services: ConnectionServices) -> None:
        self._timers = services.timers
        self.requests = services.requests
        self.reads = services.reads
        self.server = ConnectionFactory(services)
        self.begin_draining: Callable[[], None] = lambda: None
        """Ends other open things when the drain begins."""

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self.server.connections)

    async def drain(self, seconds: float, hurry: asyncio.Event) -> bool:
        """Ends idle connections, and waits `seconds` for the requests in flight, or until `hurry` is set.

        Returns whether all of them ended.
        """
        self.requests.is_draining = True
        self.reads.begin_draining()
        self.begin_draining()
        async with asyncio.TaskGroup() as group:
            waits = [group.create_task(self._end_connections()), group.create_task(hurry.wait())]
            with contextlib.suppress(TimeoutError):
                async with Timeout(self._timers, seconds):
                    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
        return self.requests.is_idle

    async def _end_connections(self) -> None:
        """Ends idle connections, and waits until no request is in flight."""
        await wait_for_reads(self._idle_descriptors)
        new = [connection for connection in self._connections() if connection.is_new]
        for connection in self._connections():
            if not connection.is_new:
                connection.begin_draining()
        if new:  # their clients are about to send requests
            await asyncio.sleep(NEW_CONNECTION_WAIT)
            for connection in new:
                connection.begin_draining()
        await self.requests.until_idle()

    def _idle_descriptors(self) -> Iterator[int]:
        """The sockets of connections that wait for a request."""
        for connection in self._connections():
            transport = connection.transport
            sock = transport.get_extra_info("socket") if transport is not None else None
            if sock is not None and sock.fileno() >= 0 and not connection.is_busy:  # it may be about to end
                yield sock.fileno()

    def _connections(self) -> "list[ClientConnection]":
        return cast("list[ClientConnection]", list(self.server.connections))

    async def close(self) -> None:
        """Breaks the connections that are left."""
        await self.server.shutdown(timeout=0.001)  # aiohttp takes 0 for "forever"
        self.reads.close()
        await self.requests.close()

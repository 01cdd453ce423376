"""The pool of HTTP connections to the origin, for requests without a body.

Idle connections are used again, the last one first. One that was idle for `keepalive` seconds is closed, before the
origin does it, so that a request rarely finds it out. The pool is not bounded here: the origin client's semaphores
bound its requests. Names are resolved for each new connection, and several addresses are tried as RFC 8305 says.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Final

from aiohappyeyeballs import start_connection

from forebay.core.requester import BACKGROUND, requester
from forebay.origin.endpoint import RequestUrl, ServerAddress
from forebay.origin.http.http_connection import HttpConnection
from forebay.origin.http.loopback_resolver import system_name
from forebay.origin.http.origin_tls import tls_context
from forebay.origin.http.outgoing_head import outgoing_head
from forebay.origin.http.receive_buffer import RECEIVED_BESIDE_DEMAND, ReceiveBuffer
from forebay.origin.http.response_head import ResponseHead
from forebay.origin.http.transport_errors import connect_failed
from forebay.origin.http.transport_response import PooledResponse
from forebay.origin.origin_limits import OriginLimits
from forebay.origin.turns.body_turns import BodyTurns

_NEXT_ADDRESS_AFTER: Final = 0.25
"""Seconds, as RFC 8305, 8 recommends."""


class ConnectionPool:
    """Made inside the running loop, and closed."""

    def __init__(self, limits: OriginLimits, ca_file: str | None, body_turns: BodyTurns) -> None:
        """`body_turns`: the turns of background responses."""
        self._limits, self.body_turns = limits, body_turns
        self._ca_file = ca_file
        self._tls: ssl.SSLContext | None = None
        self._loop = asyncio.get_running_loop()
        self._idle: dict[ServerAddress, list[HttpConnection]] = {}
        self._all: set[HttpConnection] = set()
        self._received, self._received_beside_demand = ReceiveBuffer(), ReceiveBuffer(RECEIVED_BESIDE_DEMAND)
        self._sweep: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<ConnectionPool {len(self._all)}, {sum(map(len, self._idle.values()))} idle>"

    async def send(
        self,
        method: str,
        server: ServerAddress,
        request: bytes,
        *,
        fresh: bool = False,
        before: Callable[[], Awaitable[None]] | None = None,
    ) -> PooledResponse:
        """Sends a request, which is a head (forebay.origin.http.outgoing_head); returns with the head of its response.

        `fresh`: on a new connection. `before`: awaited between connecting and the first byte of the request. Raises
        ConnectionFault.
        """
        idle = self._idle.get(server)
        connection = idle.pop() if idle and not fresh else await self._connect(server)
        try:
            if before is not None:
                await before()
            self._choose_buffer(connection)
            head = await connection.send_request(request, method, self._limits.answer_timeout)
        except BaseException:
            connection.close()
            raise
        return self._response(connection, head)

    def take_idle(self, server: ServerAddress) -> HttpConnection | None:
        """An idle connection, for one request; None: there is none."""
        idle = self._idle.get(server)
        if not idle:
            return None
        self._choose_buffer(idle[-1])
        return idle.pop()

    async def receive(self, connection: HttpConnection, seconds: float) -> PooledResponse:
        """Returns with the head of the response on a connection that carries a request already. Raises
        ConnectionFault, also after so many seconds."""
        try:
            head = await connection.response_head(seconds)
        except BaseException:
            connection.close()
            raise
        return self._response(connection, head)

    def _choose_buffer(self, connection: HttpConnection) -> None:
        is_beside_demand = requester.get() == BACKGROUND and self.body_turns.is_beside_demand
        connection.shared = self._received_beside_demand if is_beside_demand else self._received

    def _response(self, connection: HttpConnection, head: ResponseHead) -> PooledResponse:
        body_turns = self.body_turns if requester.get() == BACKGROUND else None
        return PooledResponse(connection, head, self._limits.stall_timeout, body_turns)

    async def probe(self, url: RequestUrl, user_agent: str) -> None:
        """Returns if `url` gives any HTTP response: connected and answered, each within the connect timeout. On a new
        connection, since an old one says nothing of the next. Raises ConnectionFault."""
        connection = await self.acquire(url.server, fresh=True)
        try:
            request = outgoing_head("HEAD", url, [("User-Agent", user_agent)])
            await connection.send_request(request, "HEAD", self._limits.connect_timeout)
        finally:
            connection.close()

    async def acquire(self, address: ServerAddress, *, fresh: bool = False) -> HttpConnection:
        """A connection for one request. `fresh`: a new one. Raises ConnectionFault."""
        idle = self._idle.get(address)
        if idle and not fresh:
            return idle.pop()
        return await self._connect(address)

    async def _connect(self, address: ServerAddress) -> HttpConnection:
        connection = HttpConnection(
            lambda connection: self._make_idle(address, connection),
            lambda connection: self._remove(address, connection),
            self._received,
        )
        try:
            async with asyncio.timeout(self._limits.connect_timeout):
                name = system_name(address.host)
                found = await self._loop.getaddrinfo(name, address.port, type=socket.SOCK_STREAM)
                sock = await start_connection(found, happy_eyeballs_delay=_NEXT_ADDRESS_AFTER)
                try:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                    host = address.host if address.secure else None
                    context = self.tls() if address.secure else None
                    await self._loop.create_connection(lambda: connection, sock=sock, ssl=context, server_hostname=host)
                except BaseException:
                    connection.close()
                    sock.close()
                    raise
        except OSError as fault:  # TimeoutError and ssl.SSLError are among them
            raise connect_failed(fault) from None
        self._all.add(connection)
        return connection

    def tls(self) -> ssl.SSLContext:
        """The TLS context of connections to the origin."""
        if self._tls is None:
            self._tls = tls_context(self._ca_file)
        return self._tls

    def _make_idle(self, address: ServerAddress, connection: HttpConnection) -> None:
        connection.idle_since = self._loop.time()
        self._idle.setdefault(address, []).append(connection)
        if self._sweep is None:
            self._sweep = self._loop.call_later(self._limits.keepalive, self._close_expired)

    def _remove(self, address: ServerAddress, connection: HttpConnection) -> None:
        self._all.discard(connection)
        idle = self._idle.get(address, [])
        if connection in idle:
            idle.remove(connection)

    def _close_expired(self) -> None:
        """The oldest come first in each list, as the last to become idle is the first to be used."""
        self._sweep = None
        oldest = self._loop.time() - self._limits.keepalive
        for idle in list(self._idle.values()):
            while idle and idle[0].idle_since <= oldest:
                idle[0].close()
        self._idle = {address: idle for address, idle in self._idle.items() if idle}
        if self._idle:
            first = min(idle[0].idle_since for idle in self._idle.values())
            self._sweep = self._loop.call_at(first + self._limits.keepalive, self._close_expired)

    async def close(self) -> None:
        """Drops all connections. Responses in progress break."""
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in list(self._all):
            connection.close()
        await asyncio.sleep(0)  # the transports close their sockets in the loop's next turn

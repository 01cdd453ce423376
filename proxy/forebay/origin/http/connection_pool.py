"""The wires to the origin: those that rest are used again, the last one first; others are made.

One that has rested for `keepalive` seconds is closed: before the origin does it, so that it is rarely found out by a
request. How many there are is bounded by who asks (gate.py). Names are resolved for each new wire, and where there are
several addresses they are tried as RFC 8305 says.
"""

import asyncio
import socket
import ssl
from typing import Final

from aiohappyeyeballs import start_connection

from forebay.origin.endpoint import ServerAddress
from forebay.origin.http.http_connection import HttpConnection, tls_context
from forebay.origin.http.loopback_resolver import system_name
from forebay.origin.http.transport_errors import connect_failed

_NEXT_ADDRESS_AFTER: Final = 0.25
"""Seconds; what RFC 8305, 8 recommends."""


class ConnectionPool:
    """To be made inside the running loop, and closed."""

    def __init__(self, connect_timeout: float, keepalive: float, ca_file: str | None) -> None:
        self._connect_timeout = connect_timeout
        self._keepalive = keepalive
        self._ca_file = ca_file
        self._tls: ssl.SSLContext | None = None
        self._loop = asyncio.get_running_loop()
        self._idle: dict[ServerAddress, list[HttpConnection]] = {}
        self._all: set[HttpConnection] = set()
        self._sweep: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<ConnectionPool {len(self._all)}, {sum(map(len, self._idle.values()))} resting>"

    async def acquire(self, address: ServerAddress, *, fresh: bool = False) -> HttpConnection:
        """A wire for one request, connected. `fresh`: not one that has rested. ConnectionFault when there is nobody."""
        resting = self._idle.get(address)
        if resting and not fresh:
            return resting.pop()
        return await self._connect(address)

    async def _connect(self, address: ServerAddress) -> HttpConnection:
        wire = HttpConnection(lambda wire: self._make_idle(address, wire), lambda wire: self._remove(address, wire))
        try:
            async with asyncio.timeout(self._connect_timeout):
                name = system_name(address.host)
                found = await self._loop.getaddrinfo(name, address.port, type=socket.SOCK_STREAM)
                connection = await start_connection(found, happy_eyeballs_delay=_NEXT_ADDRESS_AFTER)
                try:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                    certified = address.host if address.secure else None
                    context = self.tls() if address.secure else None
                    await self._loop.create_connection(
                        lambda: wire, sock=connection, ssl=context, server_hostname=certified
                    )
                except BaseException:
                    wire.close()
                    connection.close()
                    raise
        except OSError as fault:  # TimeoutError and ssl.SSLError are among them
            raise connect_failed(fault) from None
        self._all.add(wire)
        return wire

    def tls(self) -> ssl.SSLContext:
        """What connections to the origin are made with."""
        if self._tls is None:
            self._tls = tls_context(self._ca_file)
        return self._tls

    def _make_idle(self, address: ServerAddress, connection: HttpConnection) -> None:
        connection.idle_since = self._loop.time()
        self._idle.setdefault(address, []).append(connection)
        if self._sweep is None:
            self._sweep = self._loop.call_later(self._keepalive, self._close_expired)

    def _remove(self, address: ServerAddress, connection: HttpConnection) -> None:
        self._all.discard(connection)
        resting = self._idle.get(address, [])
        if connection in resting:
            resting.remove(connection)

    def _close_expired(self) -> None:
        """The oldest come first in each list, as the last to rest is the first to be taken."""
        self._sweep = None
        oldest = self._loop.time() - self._keepalive
        for resting in list(self._idle.values()):
            while resting and resting[0].idle_since <= oldest:
                resting[0].close()
        self._idle = {place: resting for place, resting in self._idle.items() if resting}
        if self._idle:
            first = min(resting[0].idle_since for resting in self._idle.values())
            self._sweep = self._loop.call_at(first + self._keepalive, self._close_expired)

    async def close(self) -> None:
        """Drop all wires. Answers under way break."""
        if self._sweep is not None:
            self._sweep.cancel()
        for wire in list(self._all):
            wire.close()
        await asyncio.sleep(0)  # the transports close their sockets in the loop's next turn

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

from forebay.origin.endpoint import Place
from forebay.origin.http.http_connection import Wire, context_of
from forebay.origin.http.loopback_resolver import known_name
from forebay.origin.http.transport_errors import unconnected

_NEXT_ADDRESS_AFTER: Final = 0.25
"""Seconds; what RFC 8305, 8 recommends."""


class Wires:
    """To be made inside the running loop, and closed."""

    def __init__(self, connect_timeout: float, keepalive: float, ca_file: str | None) -> None:
        self._connect_timeout = connect_timeout
        self._keepalive = keepalive
        self._ca_file = ca_file
        self._context: ssl.SSLContext | None = None
        self._loop = asyncio.get_running_loop()
        self._resting: dict[Place, list[Wire]] = {}
        self._all: set[Wire] = set()
        self._sweep: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<Wires {len(self._all)}, {sum(map(len, self._resting.values()))} resting>"

    async def take(self, place: Place, *, fresh: bool = False) -> Wire:
        """A wire for one request, connected. `fresh`: not one that has rested. WireFault when there is nobody."""
        resting = self._resting.get(place)
        if resting and not fresh:
            return resting.pop()
        return await self._connected(place)

    async def _connected(self, place: Place) -> Wire:
        wire = Wire(lambda wire: self._rest(place, wire), lambda wire: self._gone(place, wire))
        try:
            async with asyncio.timeout(self._connect_timeout):
                name = known_name(place.host)
                found = await self._loop.getaddrinfo(name, place.port, type=socket.SOCK_STREAM)
                connection = await start_connection(found, happy_eyeballs_delay=_NEXT_ADDRESS_AFTER)
                try:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                    certified = place.host if place.secure else None
                    context = self.tls() if place.secure else None
                    await self._loop.create_connection(
                        lambda: wire, sock=connection, ssl=context, server_hostname=certified
                    )
                except BaseException:
                    wire.close()
                    connection.close()
                    raise
        except OSError as fault:  # TimeoutError and ssl.SSLError are among them
            raise unconnected(fault) from None
        self._all.add(wire)
        return wire

    def tls(self) -> ssl.SSLContext:
        """What connections to the origin are made with."""
        if self._context is None:
            self._context = context_of(self._ca_file)
        return self._context

    def _rest(self, place: Place, wire: Wire) -> None:
        wire.rested_at = self._loop.time()
        self._resting.setdefault(place, []).append(wire)
        if self._sweep is None:
            self._sweep = self._loop.call_later(self._keepalive, self._close_rested)

    def _gone(self, place: Place, wire: Wire) -> None:
        self._all.discard(wire)
        resting = self._resting.get(place, [])
        if wire in resting:
            resting.remove(wire)

    def _close_rested(self) -> None:
        """The oldest come first in each list, as the last to rest is the first to be taken."""
        self._sweep = None
        oldest = self._loop.time() - self._keepalive
        for resting in list(self._resting.values()):
            while resting and resting[0].rested_at <= oldest:
                resting[0].close()
        self._resting = {place: resting for place, resting in self._resting.items() if resting}
        if self._resting:
            first = min(resting[0].rested_at for resting in self._resting.values())
            self._sweep = self._loop.call_at(first + self._keepalive, self._close_rested)

    async def close(self) -> None:
        """Drop all wires. Answers under way break."""
        if self._sweep is not None:
            self._sweep.cancel()
        for wire in list(self._all):
            wire.close()
        await asyncio.sleep(0)  # the transports close their sockets in the loop's next turn

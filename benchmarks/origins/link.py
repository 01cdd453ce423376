"""A far link in front of a server, inside the server's own process: so that it costs no CPU that is not the server's.

    client ──connect──> ──request──> (a round trip later) ──> server ──answer, at most `bandwidth`──> client

Everything that a client sends reaches the server a round trip after it was sent, the first bytes of a connection two of
them, as TCP's handshake takes one. What the server writes leaves at once, and no faster than the bandwidth: the kernel
paces each connection by itself (SO_MAX_PACING_RATE, see tcp(7) and tc-fq(8)). What a client sends is taken no faster
than that either. A relay would copy every byte twice, in Python, on the cores of what is measured.

Not a model of loss, jitter, congestion or slow start, and there is no bound on what all connections carry together but
the machine's own.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

# <asm-generic/socket.h>; Python's socket module does not name it.
_SO_MAX_PACING_RATE: Final = 47


ROUND_TRIP: Final = 0.020
"""Seconds to a bucket in the cloud."""
BANDWIDTH: Final = 80e6
"""Bytes a second that one connection to a bucket gives; many of them together give more."""


class Link(NamedTuple):
    """`round_trip` in seconds; `bandwidth` in bytes a second for each connection and direction, None for no bound."""

    round_trip: float
    bandwidth: float | None = None


class FarConnection(asyncio.Protocol):
    """One connection, in front of the server's own protocol."""

    def __init__(self, server: Callable[[], asyncio.Protocol], link: Link) -> None:
        self._inner = server()
        self._link = link
        self._loop = asyncio.get_running_loop()
        self._free_at = 0.0
        self._on_the_way: deque[tuple[float, bytes | None]] = deque()
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._free_at = self._loop.time() + self._link.round_trip
        if self._link.bandwidth is not None:
            connection: socket.socket = transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, int(self._link.bandwidth))
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        now = self._loop.time()
        self._free_at = max(self._free_at, now)
        if self._link.bandwidth is not None:
            self._free_at += len(data) / self._link.bandwidth
            if self._free_at > now + self._link.round_trip:  # more than the link carries at a time
                self._transport.pause_reading()
                self._loop.call_at(self._free_at - self._link.round_trip, self._transport.resume_reading)
        self._send(data)

    def _send(self, data: bytes | None) -> None:
        self._on_the_way.append((self._free_at + self._link.round_trip, data))
        if len(self._on_the_way) == 1:
            self._loop.call_at(self._on_the_way[0][0], self._arrived)

    def _arrived(self) -> None:
        now = self._loop.time()
        while self._on_the_way and self._on_the_way[0][0] <= now:
            _, data = self._on_the_way.popleft()
            if data is None:
                self._inner.eof_received()
                self._transport.close()
            elif not self._transport.is_closing():
                self._inner.data_received(data)
        if self._on_the_way:
            self._loop.call_at(self._on_the_way[0][0], self._arrived)

    def eof_received(self) -> bool:
        self._send(None)
        return True  # what was sent before is still on its way

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_the_way.clear()
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

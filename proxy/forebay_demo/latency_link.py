"""A far link on loopback: a TCP relay that adds a round trip, and optionally caps the bandwidth of a connection.

    async with LatencyLink("127.0.0.1", 8080, round_trip=0.020) as link:
        ...connect to 127.0.0.1:link.port

    python -m forebay.workers.parent_watch forebay_demo.latency_link 127.0.0.1:8080 0.020 [BYTES_PER_SECOND]

The second form is a process of its own, so that the relay does not share an interpreter with the measured program. It
prints its port.

In each direction bytes arrive half a round trip after they were read, in order. The first bytes of a connection arrive
one round trip later, as after TCP's handshake. Latency costs no bandwidth: a round trip's worth of bytes may be in
flight; then the sender is throttled. A half-close is relayed as a half-close, a reset as a reset.

Not a model of loss, jitter or congestion.
"""

import asyncio
import contextlib
import socket
import struct
import sys
from asyncio import StreamReader, StreamWriter
from collections import deque
from typing import Final, Self, cast

_READ = 256 * 1024
_IN_FLIGHT: Final = 16 * 1024 * 1024
"""Bytes in flight in one direction: 10 ms at 1.6 GB/s, more than two Python processes exchange."""
_LEAST_IN_FLIGHT = 64 * 1024
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER on, for zero seconds: close() then sends RST


class LatencyLink:
    """Relays connections to one target until closed."""

    def __init__(self, host: str, port: int, *, round_trip: float, bandwidth: float | None = None) -> None:
        """`round_trip` in seconds; `bandwidth` in bytes a second, for each connection and direction."""
        self._target = (host, port)
        self._round_trip = round_trip
        self._bandwidth = bandwidth
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0, limit=_READ, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        open_connections = list(self._connections)
        for connection in open_connections:
            connection.cancel()
        await asyncio.gather(*open_connections, return_exceptions=True)
        await self._server.wait_closed()

    async def _relay(self, near_reader: StreamReader, near: StreamWriter) -> None:
        task = cast("asyncio.Task[None]", asyncio.current_task())  # start_server runs us in a task of its own
        self._connections.add(task)
        handshake_done = asyncio.get_running_loop().time() + self._round_trip
        far: StreamWriter | None = None
        try:
            far_reader, far = await asyncio.open_connection(*self._target, limit=_READ)
            async with asyncio.TaskGroup() as ways:
                ways.create_task(self._way(not_before=handshake_done).relay(near_reader, far))
                ways.create_task(self._way().relay(far_reader, near))
        except* (OSError, asyncio.CancelledError):
            # A reset of one side, a target that refuses, or the link is closing: the other side sees a reset.
            # Cancellation ends here: this task is the connection, and there is nothing left to do for it.
            for writer in filter(None, (near, far)):
                _reset(writer)
        finally:
            self._connections.discard(task)
            for writer in filter(None, (near, far)):
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()

    def _way(self, not_before: float = 0.0) -> "LinkDirection":
        return LinkDirection(self._round_trip / 2, self._bandwidth, not_before)


class LinkDirection:
    """One direction of one connection."""

    def __init__(
        self, delay: float, bandwidth: float | None = None, not_before: float = 0.0, in_flight: int = _IN_FLIGHT
    ) -> None:
        """`not_before`: the loop's time before which nothing is sent; `in_flight`: the most bytes in flight."""
        self._delay = delay
        self._bandwidth = bandwidth
        self._line_free = not_before
        self._most = in_flight
        if bandwidth is not None:  # a slow link has a round trip's worth of bytes in flight, not a deep queue
            self._most = max(_LEAST_IN_FLIGHT, min(in_flight, int(2 * delay * bandwidth)))
        self._queue: deque[tuple[float, bytes]] = deque()
        self._in_flight = 0
        self._changed = asyncio.Condition()

    async def relay(self, source: StreamReader, sink: StreamWriter) -> None:
        """Relays until `source` ends and all of its bytes are delivered."""
        async with asyncio.TaskGroup() as ends:
            ends.create_task(self._read_source(source))
            ends.create_task(self._deliver(sink))

    async def _read_source(self, source: StreamReader) -> None:
        now = asyncio.get_running_loop().time
        while True:
            read = await source.read(_READ)
            self._line_free = max(self._line_free, now())
            if self._bandwidth is not None:
                self._line_free += len(read) / self._bandwidth
            async with self._changed:
                self._queue.append((self._line_free + self._delay, read))
                self._in_flight += len(read)
                self._changed.notify_all()
                if not read:
                    return
                await self._changed.wait_for(lambda: self._in_flight < self._most)

    async def _deliver(self, sink: StreamWriter) -> None:
        now = asyncio.get_running_loop().time
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: bool(self._queue))
                arrives, read = self._queue.popleft()
            if (wait := arrives - now()) > 0:
                await asyncio.sleep(wait)
            if not read:
                if sink.can_write_eof():
                    sink.write_eof()
                return
            sink.write(read)
            await sink.drain()
            async with self._changed:
                self._in_flight -= len(read)
                self._changed.notify_all()


def _reset(writer: StreamWriter) -> None:
    with contextlib.suppress(OSError):  # the socket may be gone
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()


async def _serve(target: str, round_trip: float, bandwidth: float | None) -> None:
    host, _, port = target.rpartition(":")
    async with LatencyLink(host, int(port), round_trip=round_trip, bandwidth=bandwidth) as link:
        sys.stdout.write(f"{link.port}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()  # until the lifeline ends


def main() -> None:
    """Runs a link as a process; see the module."""
    target, round_trip, *bandwidth = sys.argv[1:]
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(target, float(round_trip), float(bandwidth[0]) if bandwidth else None))


if __name__ == "__main__":
    main()

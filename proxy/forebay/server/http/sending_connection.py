"""The sending side of a client connection: how responses leave, and how long a client may take for them.

    small                         joined, one write
    in memory                     one write; what the client does not accept at once is charged (`unsent`), and timed
    in files                      sendfile, past the transport, in turns with other connections (sendfile_writer)
    block by block, full lane     `write_now`, `drain` (forebay.server.fastpath.direct_reply)

While a body waits for its client nothing is read from the socket, so nothing is answered meanwhile.
"""

import asyncio
from collections.abc import Sequence
from typing import cast

from aiohttp import web

from forebay.core.buffers import Buffer
from forebay.server.fastpath.direct_reply import MAX_JOINED_SIZE
from forebay.server.fastpath.lane_answer import HitResponse
from forebay.server.http.aiohttp_connection import AiohttpConnection
from forebay.server.http.connection_limits import StallTimer, Timeout
from forebay.server.http.connection_services import ConnectionServices
from forebay.server.http.sendfile_writer import SendfileWriter
from forebay.server.http.socket_writes import unacknowledged, write_now


class SendingConnection(AiohttpConnection):
    """See the module."""

    __slots__ = (
        "_fd",
        "_pauses_early",
        "_requests",
        "_sendfile_writer",
        "_services",
        "_stall_timer",
        "unsent",
    )

    def __init__(self, server: web.Server, loop: asyncio.AbstractEventLoop, services: ConnectionServices) -> None:
        super().__init__(server, loop, services.limits, services.timers, services.receiving)
        self._services = services
        self._requests = services.requests
        self.unsent = services.unsent
        self._fd = -1
        """The descriptor of the socket, while the transport is open."""
        self._pauses_early = False
        """Whether the transport's buffer is full with the first byte in it."""
        self._sendfile_writer: SendfileWriter | None = None
        self._stall_timer = StallTimer(services.timers, services.limits.stall, self._send_progress, self._abort)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Starts serving the connection."""
        super().connection_made(transport)
        socket = transport.get_extra_info("socket")
        self._fd = socket.fileno() if socket is not None else -1

    def connection_lost(self, exc: BaseException | None) -> None:
        """Closes the senders of bodies."""
        self._stall_timer.close()
        if self._sendfile_writer is not None:
            if self._sendfile_writer.is_blocked:
                self._requests.count_in_flight(-1)
            self._sendfile_writer.close()
        # It refers to this connection: a cycle would keep it until a collection, or for good (forebay.server.startup).
        self._sendfile_writer = None
        super().connection_lost(exc)

    def process_pending(self) -> None:
        """Answers the bytes that have waited until a body had left."""
        raise NotImplementedError

    @property
    def _is_sending(self) -> bool:
        return self._sendfile_writer is not None and self._sendfile_writer.is_busy

    def _write(self, response: HitResponse) -> None:
        """Writes one response whose body is not joined to its head."""
        head, body, extents, size = response
        if not extents:
            self._write_pieces((head, *body), size)
        elif self.transport is not None:
            assert self._sendfile_writer is not None  # noqa: S101 # the lane returns extents only where there is one
            self._idle_until = self._timers.time() + self._limits.idle_timeout
            self._sendfile_writer.send(head, extents)

    def _write_pieces(self, pieces: Sequence[Buffer | bytes], size: int) -> None:
        """Writes to the transport at once: uvloop has the kernel accept each write immediately. `size`: of the body; 0
        where bodies are joined to their heads."""
        transport = self.transport
        if transport is None:
            return
        self._idle_until = self._timers.time() + self._limits.idle_timeout
        if len(pieces) == 1:
            transport.write(pieces[0])
        else:
            transport.writelines(pieces)
        if self._paused:
            self._stall_timer.start(size or sum(map(len, pieces)), self._services.unsent)

    def write_response(self, head: bytes, body: Buffer) -> None:
        """Writes a complete response."""
        self._write_pieces((head + body,) if len(body) <= MAX_JOINED_SIZE else (head, body), len(body))

    def write_now(self, pieces: Sequence[Buffer | bytes]) -> int:
        """Writes as much as the client accepts at once, past the transport, and returns how many bytes that was. From
        then on the transport's buffer is full with the first byte in it. Not for TLS. Raises ConnectionError."""
        transport = self.transport
        if not self._pauses_early and transport is not None:
            self._pauses_early = True
            transport.set_write_buffer_limits(0)
        return write_now(transport, self._fd, pieces)

    async def drain(self) -> None:
        """Waits until the client has accepted nearly all that was written. Raises ConnectionError if it does not."""
        while True:
            before = self._unacknowledged()
            try:
                async with Timeout(self._timers, self._limits.stall):
                    await self._drain_helper()
                return
            except TimeoutError as error:
                self._drain_waiter = None  # the timeout has cancelled it, and aiohttp would wait for it once more
                if self._unacknowledged() == before:
                    raise ConnectionAbortedError("the client takes no bytes") from error

    def resume_writing(self) -> None:
        """The client has accepted enough of the written bytes."""
        super().resume_writing()
        self._stall_timer.stop()
        self._idle_until = self._timers.time() + self._limits.idle_timeout

    def _make_sendfile_writer(self) -> SendfileWriter:
        transport = cast("asyncio.Transport", self.transport)  # of which uvloop's is no subclass
        self._sendfile_writer = SendfileWriter(
            transport, self._services.send_queue, self._send_blocked, self._send_finished, self._send_failed
        )
        return self._sendfile_writer

    def _send_blocked(self, size: int) -> None:
        """A body waits for the client. Nothing is read until all of it has left, so nothing is answered meanwhile."""
        self._requests.count_in_flight(1)
        if self.transport is not None:
            self.transport.pause_reading()
        self._stall_timer.start(size, self._services.unsent)

    def _send_finished(self, was_blocked: bool) -> None:
        if was_blocked:
            self._requests.count_in_flight(-1)
            self._stall_timer.stop()
            self._idle_until = self._timers.time() + self._limits.idle_timeout
            if self.transport is not None:
                self.transport.resume_reading()
        if self.transport is not None:
            self.process_pending()

    def _send_failed(self, was_blocked: bool) -> None:
        if was_blocked:
            self._requests.count_in_flight(-1)
        self._abort()

    def _send_progress(self) -> int:
        """A number that changes whenever the client accepts bytes."""
        if self._sendfile_writer is not None and self._sendfile_writer.is_busy:
            return self._sendfile_writer.sent - self._unacknowledged()
        return self._unacknowledged()

    def _unacknowledged(self) -> int:
        return unacknowledged(self.transport, self._fd)

    def _abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

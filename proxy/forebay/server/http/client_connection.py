"""One connection, as aiohttp's server keeps it, with what an S3 endpoint in the open needs on top.

- A head that is not complete in time ends the connection (aiohttp's own timer knows idle connections only).
- What aiohttp refuses (malformed, too large) is answered in S3's form, and the connection is closed: after a framing
  error nothing on it can be trusted to begin where a request begins. So is what aiohttp forgives and we do not
  (forebay.server.http.strict_framing).
- What comes behind a chunked body before that was answered is dropped, with the connection: parsers differ most on
  where such a body ends, and no S3 client sends a request before it has its answer.
- One connection too many is told to slow down.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from forebay.core.buffers import Buffer
from forebay.core.errors import S3Error
from forebay.server.fastpath.fast_lane import AdmittedRead, ClientState, FastLane, HitResponse
from forebay.server.http.aiohttp_handler import AiohttpConnection
from forebay.server.http.connection_limits import ConnectionLimits
from forebay.server.http.early_errors import error_response, parse_error, rejection
from forebay.server.http.request_boundary import RequestBoundary
from forebay.server.http.sendfile_writer import SendfileWriter
from forebay.server.http.stall_timer import StallTimer

if TYPE_CHECKING:  # it makes these
    from forebay.server.http.connection_factory import ConnectionFactory

_END: Final = b"\r\n\r\n"
_MAX_JOINED: Final = 16
"""Small answers to requests that came together which leave by one write: 256 KiB at the most, before it is seen whether
the client takes them."""


class ClientConnection(AiohttpConnection):
    """See the module."""

    __slots__ = (
        "_awaits_request",
        "_boundary",
        "_caller",
        "_head_timer",
        "_is_closing",
        "_is_only_request",
        "_is_reading",
        "_limits",
        "_pending",
        "_refuse",
        "_sendfile_writer",
        "_server",
        "_stall_timer",
        "secure",
    )

    def __init__(self, server: "ConnectionFactory", loop: asyncio.AbstractEventLoop, limits: ConnectionLimits) -> None:
        super().__init__(
            server,
            loop=loop,
            keepalive_timeout=limits.idle_timeout,
            access_log=None,  # type: ignore[arg-type] # None turns it off, which its annotation does not say
            max_line_size=limits.header_size,
            max_field_size=limits.header_size,
            lingering_time=0,  # what is left of a body: forebay.server.http.lingering_close
            read_bufsize=1 << 17,  # of a body, then paused at twice that: one read of uvloop's, and no pause for each
            auto_decompress=False,  # a body is stored as it was sent: nothing on the way decodes it
        )
        self._limits = limits
        self._head_timer: asyncio.TimerHandle | None = None
        self._refuse: Callable[[S3Error, str], str] = server.refused
        self._server = server
        self._boundary = RequestBoundary()
        self._caller = ClientState("")
        self._sendfile_writer: SendfileWriter | None = None
        self._pending = b""
        """What was read and must wait until what is under way has been answered."""
        self._is_reading = False
        """Whether a read that the fast lane has understood is being answered here."""
        self.secure = False
        """Whether it is TLS."""
        self._is_closing = False
        self._is_only_request = False
        """Whether the request that aiohttp has is the only one, head and all."""
        self._awaits_request = True
        """Whether aiohttp is about to wait for a request: it has none, or its answer to the only one has been written.
        Until its task has had its turn, the next request comes in, on a busy server always."""
        self._stall_timer = StallTimer(loop, limits.stall, self._send_progress, self._abort)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        peername = transport.get_extra_info("peername")
        plain = transport.get_extra_info("sslcontext") is None
        self.secure = not plain
        peer = str(peername[0]) if isinstance(peername, tuple) else "unix"
        self._caller = ClientState(peer, self._make_sendfile_writer if plain else None)
        manager = self._manager
        if manager is not None and len(manager.connections) > self._limits.connections:
            error = S3Error("SlowDown", "Too many connections.")
            cast("asyncio.Transport", transport).write(rejection(error, self._refuse(error, peer)))
            self.force_close()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._cancel_head_timer()
        self._stall_timer.close()
        self._pending = b""
        if self._sendfile_writer is not None:
            if self._sendfile_writer.is_blocked:
                self._server.sending(-1)
            self._sendfile_writer.close()
        # All three know this connection, which would stay until the next collection of cycles, or longer (collector).
        self._sendfile_writer, self._caller = None, ClientState("")
        super().connection_lost(exc)

    def close(self) -> None:
        """Draining: an idle connection ends at once (by aiohttp alone, at the end); a busy one with its answer."""
        if self._is_reading or (self._sendfile_writer is not None and self._sendfile_writer.is_busy):
            self._is_closing = True
            return
        idle = self._waiter is not None and not self._waiter.done()
        super().close()
        if idle and self.transport is not None:
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        if self._is_reading or (self._sendfile_writer is not None and self._sendfile_writer.is_busy):
            self._pending += data
            if self.transport is not None:
                self.transport.pause_reading()
            return
        lane = self._server.lane
        rests = self.is_idle
        if rests and lane is not None and data:
            data = self._answer_fast(lane, data)
            if not data:
                return
        self._is_only_request, self._awaits_request = rests and data.find(_END) == len(data) - len(_END), False
        own = self._boundary.follow(data)
        super().data_received(data[:own])
        if own < len(data):
            # Apart, so that a request is answered whatever follows it: aiohttp forgets those that it has parsed in the
            # same stroke with something malformed.
            super().data_received(data[own:])
        if self._waiter is None or self._waiter.done():
            self._cancel_head_timer()  # a request is being handled, or is complete and about to be
        elif self._head_timer is None:
            self._head_timer = self._loop.call_later(self._limits.header_timeout, self._head_timed_out)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way here: aiohttp waits for a request, and all that was written has gone or soon
        will."""
        waiter = self._waiter
        return (
            (self._awaits_request if waiter is None else not waiter.done())
            and not (self._messages or self._paused or self._force_close or self._is_reading)
            and self._boundary.is_clean
        )

    def response_written(self, *, keep_alive: bool) -> None:
        """aiohttp's answer has been written to its last byte; `stays`: it will take another request here."""
        self._awaits_request = keep_alive and self._is_only_request

    def _answer_fast(self, lane: FastLane, data: bytes) -> bytes:
        """Have the fast lane answer these requests, in their order, as far as it does; what is left for aiohttp."""
        # Several heads at once (pipelining)? Each ends at the first empty line, as none that is answered has a body.
        start, end = 0, data.find(_END) + len(_END)
        small: list[bytes] = []
        while end >= len(_END) and not self._paused:
            answer = lane.answer(data[start:end], self._caller)
            if answer is None or (isinstance(answer, AdmittedRead) and end - start > self._limits.header_size):
                break
            start, end = end, data.find(_END, end) + len(_END)
            if isinstance(answer, AdmittedRead):
                self._write_small(small)
                self._pending = data[start:]
                self._begin_read(answer)
                return b""
            if not answer[3]:
                small.append(answer[0])
                self._caller.has_unsent = True
                if len(small) == _MAX_JOINED:
                    self._write_small(small)
                continue
            self._write_small(small)
            self._write(answer)
            if self._sendfile_writer is not None and self._sendfile_writer.is_busy:
                self._pending = data[start:]
                return b""
        self._write_small(small)
        return data[start:]

    def _begin_read(self, read: AdmittedRead) -> None:
        """Have the story answer it. Until it has, what comes waits."""
        self._is_reading = True
        self._server.read(self, self._caller.peer, read)

    def read_answered(self, *, keep_alive: bool) -> None:
        """It is answered; `stays`: another request may follow."""
        self._is_reading = False
        self._next_keepalive_close_time = self._loop.time() + self._limits.idle_timeout
        if self.transport is None:
            return
        if not keep_alive:
            self.force_close()
        else:
            self._process_pending()

    async def drain(self) -> None:
        """Until the client has taken what was written, but for little. Raises ConnectionError when it never will."""
        await self._drain_helper()

    def _process_keepalive(self) -> None:
        if self._is_reading:  # aiohttp takes it for idle
            self._next_keepalive_close_time = self._loop.time() + self._limits.idle_timeout
        super()._process_keepalive()

    def _write_small(self, answers: list[bytes]) -> None:
        """Write answers that are whole, in their order, and empty the list. There may be none."""
        self._caller.has_unsent = False
        if answers:
            self._write_pieces(answers, 0)
            answers.clear()

    def _write(self, answer: HitResponse) -> None:
        """Write one whose body goes by itself."""
        head, body, stretches, length = answer
        if not stretches:
            self._write_pieces((head, *body), length)
        elif self.transport is not None:
            assert self._sendfile_writer is not None  # noqa: S101 # the lane got these stretches because there is one
            self._next_keepalive_close_time = self._loop.time() + self._limits.idle_timeout
            self._sendfile_writer.send(head, stretches)

    def _write_pieces(self, pieces: Sequence[Buffer | bytes], length: int) -> None:
        """To the transport, by one write: uvloop has the kernel take each at once. `length`: of the body; 0 where
        bodies are joined to their heads."""
        transport = self.transport
        if transport is None:
            return
        self._next_keepalive_close_time = self._loop.time() + self._limits.idle_timeout
        if len(pieces) == 1:
            transport.write(pieces[0])
        else:
            transport.writelines(pieces)
        if self._paused:
            self._stall_timer.start(length or sum(map(len, pieces)), self._server.budget)

    def _make_sendfile_writer(self) -> SendfileWriter:
        # What a TCP server hands to a protocol. uvloop's is no subclass of asyncio's.
        transport = cast("asyncio.Transport", self.transport)
        self._sendfile_writer = SendfileWriter(
            transport, self._server.departures, self._send_blocked, self._send_finished, self._send_failed
        )
        return self._sendfile_writer

    def _send_blocked(self, size: int) -> None:
        """The client takes its time. Until it has it all nothing is read here, so nothing can be answered meanwhile."""
        self._server.sending(1)
        if self.transport is not None:
            self.transport.pause_reading()
        self._stall_timer.start(size, self._server.budget)

    def _send_finished(self, waited: bool) -> None:
        if waited:
            self._server.sending(-1)
            self._stall_timer.stop()
            self._next_keepalive_close_time = self._loop.time() + self._limits.idle_timeout
            if self.transport is not None:
                self.transport.resume_reading()
        if self.transport is not None:
            self._process_pending()

    def _send_failed(self, waited: bool) -> None:
        if waited:
            self._server.sending(-1)
        self._abort()

    def _process_pending(self) -> None:
        """With what came meanwhile; or end, if that was wished for meanwhile."""
        if self._is_closing:
            self.close()
            return
        rest, self._pending = self._pending, b""
        if rest:
            if self.transport is not None:
                self.transport.resume_reading()
            self.data_received(rest)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stall_timer.stop()

    def _send_progress(self) -> int:
        """Changes whenever the client has taken something. Asked while it takes its time."""
        if self._sendfile_writer is not None and self._sendfile_writer.is_busy:
            self._next_keepalive_close_time = self._loop.time() + self._patience
            return self._sendfile_writer.sent
        return self.transport.get_write_buffer_size() if self.transport is not None else 0

    def _abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    @property
    def _patience(self) -> float:
        """Seconds for which aiohttp must not take a connection that is being sent to for an idle one."""
        return self._limits.idle_timeout + 2 * self._limits.stall

    @property
    def is_pipelined(self) -> bool:
        """Whether more requests have come than were taken."""
        return bool(self._messages)

    def _cancel_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_timed_out(self) -> None:
        self._head_timer = None
        if self._waiter is not None and not self._waiter.done():
            self._refuse(S3Error("RequestTimeout"), self._caller.peer)
            self.force_close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What aiohttp could not parse, and what the story let through (it lets nothing through)."""
        if request.writer.output_size > 0 or request.transport is None:
            raise ConnectionError("broken off after the head had left")
        match exc:
            case HttpProcessingError():
                error = parse_error(exc)
                exc.__traceback__ = None  # a frame of aiohttp's in there holds it, and the connection
            case _:
                error = S3Error("InternalError")
                self.logger.error("unhandled", exc_info=exc)
        return error_response(error, self._refuse(error, self._caller.peer))

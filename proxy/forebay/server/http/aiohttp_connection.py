"""aiohttp's server connection, hardened for an S3 endpoint on an open network.

All that depends on private attributes of aiohttp's `RequestHandler`, beside the fast lane's way past it, is here:

- A head that is not complete in time ends the connection (aiohttp's own timer knows idle connections only), and both
  limits run on the listener's timers.
- Bytes that aiohttp can't parse, or that are too many, are answered in S3's form, and the connection is closed: after a
  framing error nothing on it can be trusted to begin where a request begins.
- A chunked body may have few bytes of framing for each byte of content: chunk extensions have no bound of their own
  (CVE-2024-22019, CVE-2023-39326).
- The rest of a large counted body does not pass aiohttp's parser (forebay.server.http.body_receiver).
- One connection too many is answered SlowDown.
- Exceptions that are no defects of Forebay, such as those of clients that leave, are not logged as errors: see `start`
  and `log_exception`.

https://github.com/aio-libs/aiohttp/blob/v3.14.5/aiohttp/web_protocol.py
"""

import asyncio
from typing import Any, Final, cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import HttpRequestParser
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler, RequestPayloadError

from forebay.core.errors import S3Error
from forebay.core.fair_semaphore import SemaphoreShare
from forebay.core.timers import Timer, Timers
from forebay.server.http.aiohttp_exchange import ExcessiveFraming
from forebay.server.http.body_receiver import BUFFER, FAST, LEAST, BodyReceiver
from forebay.server.http.connection_limits import ConnectionLimits
from forebay.server.http.refusals import parse_error, refused_connection, refused_request
from forebay.server.http.request_framing import RequestBoundary

MAX_FRAMING: Final = 16 << 10
"""Bytes of chunk sizes, chunk extensions and trailers that a body may have beyond its allowance."""
_FRAMING_ALLOWANCE: Final = 32
"""Such bytes for each byte of content; one byte a chunk needs five."""


class AiohttpConnection(RequestHandler):
    """A connection whose requests aiohttp parses. A subclass says where refusals are recorded."""

    __slots__ = (
        "_boundary",
        "_buffered",
        "_framing_left",
        "_head_timer",
        "_holds_buffer",
        "_idle_until",
        "_incoming_body",
        "_limits",
        "_receiver",
        "_receiving",
        "_timers",
        "peer",
        "secure",
    )

    def __init__(
        self,
        server: web.Server,
        loop: asyncio.AbstractEventLoop,
        limits: ConnectionLimits,
        timers: Timers,
        receiving: SemaphoreShare,
    ) -> None:
        """`receiving`: bytes of the buffers that bodies are received into, of all connections."""
        super().__init__(
            server,
            loop=loop,
            keepalive_timeout=0,  # see _watch_idle
            access_log=None,  # type: ignore[arg-type] # None turns it off, which its annotation does not say
            max_line_size=limits.header_size,
            max_field_size=limits.header_size,
            lingering_time=0,  # forebay.server.http.connection_limits reads the rest of a refused body
            read_bufsize=1 << 17,  # of a body, paused at twice that: one read of uvloop's, and no pause for each
            auto_decompress=False,  # a body is stored as it was sent: nothing on the way decodes it
        )
        self._limits = limits
        self._timers = timers
        self._head_timer: Timer | None = None
        self._idle_until = 0.0
        """The time at which the connection ends if it stays idle."""
        self._incoming_body: StreamReader | None = None
        """The body of which more is to come."""
        self._framing_left = 0
        """Bytes of framing that it may still have."""
        self._boundary = RequestBoundary()
        self._receiving = receiving
        self._receiver: BodyReceiver | None = None
        """Receives the rest of a body; None: aiohttp's parser does."""
        self._buffered: StreamReader | None = None
        """The body that was received past the parser, until its last reader has finished."""
        self._holds_buffer = False
        """Whether the receiver's buffer is charged."""
        self.peer = ""
        """The client's address, "unix" if it has none."""
        self.secure = False
        """Whether the connection is TLS."""

    def record_refusal(self, error: S3Error) -> str:
        """Records the refusal of input that never became a request. Returns the request id for its response."""
        raise NotImplementedError

    @property
    def is_over_limit(self) -> bool:
        """Whether there are more connections than the limit allows."""
        manager = self._manager
        return manager is not None and len(manager.connections) > self._limits.connections

    @property
    def is_busy(self) -> bool:
        """Whether a request is being answered, so that the connection is not idle."""
        return not self.is_awaiting

    @property
    def is_awaiting(self) -> bool:
        """Whether aiohttp's task waits for a request."""
        return self._waiter is not None and not self._waiter.done()

    @property
    def is_receiving(self) -> bool:
        """Whether the rest of a request's body is yet to arrive."""
        return self._incoming_body is not None and not self._incoming_body.is_eof()

    @property
    def is_pipelined(self) -> bool:
        """Whether more requests have been parsed than are being answered."""
        return bool(self._messages)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Starts serving the connection, or refuses it if there are too many."""
        super().connection_made(transport)
        peername = transport.get_extra_info("peername")
        self.peer = str(peername[0]) if isinstance(peername, tuple) else "unix"
        self.secure = transport.get_extra_info("sslcontext") is not None
        self._idle_until = self._timers.time() + self._limits.idle_timeout
        self._watch_idle(self._limits.idle_timeout)
        if self.is_over_limit:
            error = S3Error("SlowDown", "Too many connections.")
            error.log_reason = "limits.connections are open"
            cast("asyncio.Transport", transport).write(refused_connection(error, self.record_refusal(error)))
            self.force_close()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Drops the timers and the receiver of a body."""
        self._cancel_head_timer()
        self._receiver = self._buffered = None
        self._release_buffer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Has aiohttp parse these bytes, and begins to receive the rest of a large body past it."""
        own = self._boundary.follow(data)
        self._parse(data[:own])
        if own < len(data):
            # Apart, so that a request is answered whatever follows it: aiohttp drops the requests that it has parsed
            # together with something malformed.
            self._parse(data[own:])
        elif own >= FAST and self._boundary.body_left >= LEAST and self._receiver is None:
            self._receive_body()

    def _parse(self, data: bytes) -> None:
        """Has aiohttp parse these bytes, bounds a body's framing, and times a head that they leave incomplete."""
        body = self._incoming_body
        content = body.total_bytes if body is not None else 0
        super().data_received(data)
        if body is not None and not body.is_eof():
            self._count_framing(body, body.total_bytes - content, len(data))
        else:
            last = self._messages[-1][1] if self._messages else None
            self._incoming_body = last if isinstance(last, StreamReader) and not last.is_eof() else None
            self._framing_left = MAX_FRAMING
        if not self.is_awaiting:
            self._cancel_head_timer()  # a request is being answered, or is complete and about to be
        elif self._head_timer is None:
            self._head_timer = self._timers.call_later(self._limits.header_timeout, self._head_timed_out)

    def _count_framing(self, body: StreamReader, content: int, received: int) -> None:
        """Counts `received` bytes, `content` of them the body's own, and breaks off a body with too many others."""
        self._framing_left = min(MAX_FRAMING, self._framing_left + (_FRAMING_ALLOWANCE + 1) * content - received)
        if self._framing_left < 0 and not self._reading_paused:  # while it is, aiohttp has bytes that it has not parsed
            body.set_exception(ExcessiveFraming("too many bytes of chunked framing"))

    def _receive_body(self) -> None:
        """Has the rest of the body received past aiohttp's parser, if there is memory for that."""
        content, transport = self._incoming_body, self.transport
        if content is None or transport is None or content.total_bytes != self._boundary.body_followed:
            return  # it has ended, or the parser holds some of it
        if self._holds_buffer or not self._receiving.try_acquire(BUFFER):
            return
        self._holds_buffer, self._buffered = True, content
        self._receiver = BodyReceiver(self, content, self._boundary.body_left)
        transport.set_protocol(self._receiver)

    def body_received(self, count: int) -> None:
        """Counts bytes of the body that were received past aiohttp's parser."""
        self._boundary.skip(count)

    def body_ended(self) -> None:
        """Ends the body. The parser still waits for its bytes, so another one reads the next request."""
        content, self._incoming_body = self._incoming_body, None
        self._receiver = None
        self._release_buffer()
        self._parser = HttpRequestParser(
            self,
            self._loop,
            self._read_bufsize,
            max_line_size=self.max_line_size,
            max_field_size=self.max_field_size,
            max_headers=self.max_headers,
            payload_exception=RequestPayloadError,
            auto_decompress=False,
            max_msg_queue_size=self._max_msg_queue_size,
        )
        if self.transport is not None:
            self.transport.set_protocol(self)
        if content is not None:
            content.feed_eof()

    def release_buffer(self, content: StreamReader) -> None:
        """Note that no more of this body is read: it keeps the buffer that it was received into until then."""
        if content is self._buffered:
            self._buffered = None
            self._release_buffer()

    def _release_buffer(self) -> None:
        """Gives the charge of the buffer back, if it is neither written to nor read."""
        if self._holds_buffer and self._receiver is None and self._buffered is None:
            self._holds_buffer = False
            self._receiving.release(BUFFER)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Finishes the response to a request, whose handler reads nothing more."""
        self.release_buffer(request.content)
        return await super().finish_response(request, resp, start_time)

    def _watch_idle(self, seconds: float) -> None:
        # aiohttp makes no timer of its own while there is one here, and cancels it when the connection ends.
        self._keepalive_handle = cast("asyncio.Handle", self._timers.call_later(seconds, self._check_idle))

    def _check_idle(self) -> None:
        now = self._timers.time()
        if self.is_busy:
            self._idle_until = now + self._limits.idle_timeout
        if now < self._idle_until:
            self._watch_idle(self._idle_until - now)
        else:
            self.force_close()

    def _head_timed_out(self) -> None:
        self._head_timer = None
        if self.is_awaiting:
            self.record_refusal(S3Error("RequestTimeout"))
            self.force_close()

    def _cancel_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    async def start(self) -> None:
        """aiohttp's task, without the exception of a connection that has ended already.

        It looks for parts that are gone when a connection was lost in the moment in which it was made (before Python
        3.12), or as a request had come whole, and ends with an exception that is awaited nowhere.
        """
        if self._manager is None:
            return
        try:
            await super().start()
        except TypeError:  # None is no factory of requests
            if self._manager is not None:
                raise

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Logs an exception, but for the rest of a refused body, which may be malformed as well."""
        if isinstance(kw.get("exc_info"), RequestPayloadError):
            self.log_debug("The rest of a refused body was malformed.")
        else:
            super().log_exception(*args, **kw)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The response to bytes that aiohttp could not parse, and to exceptions of the gateway (it raises none)."""
        # A ConnectionError: the reply has broken the connection, which may be before its head has left.
        if request.writer.output_size > 0 or request.transport is None or isinstance(exc, ConnectionError):
            raise ConnectionError("broken off after the head had left")
        match exc:
            case HttpProcessingError():
                error = parse_error(exc, self.max_headers)
                exc.__traceback__ = None  # a frame of aiohttp's in there refers to it, and to the connection
            case _:
                error = S3Error("InternalError")
                self.logger.error("unhandled", exc_info=exc)
        return refused_request(error, self.record_refusal(error))

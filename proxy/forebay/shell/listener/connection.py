"""One connection, as aiohttp's server keeps it, with what an S3 endpoint in the open needs on top.

- A head that is not complete in time ends the connection (aiohttp's own timer knows idle connections only).
- What aiohttp refuses (malformed, too large) is answered in S3's form, and the connection is closed: after a framing
  error nothing on it can be trusted to begin where a request begins.
- One connection too many is told to slow down.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong
from aiohttp.web_protocol import RequestHandler

from forebay.protocol.documents import error_document
from forebay.words.errors import S3Error


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Times in seconds, sizes in bytes."""

    header_size: int
    connections: int
    header_timeout: float
    idle_timeout: float
    lingering: float = 2.0
    """How long the rest of a refused body is read and dropped, so that the client reads the refusal and no reset."""


class Connection(RequestHandler):
    """See the module."""

    __slots__ = ("_counted", "_head_timer", "_limits", "_refused")

    def __init__(self, server: "ListenerServer", loop: asyncio.AbstractEventLoop, limits: ConnectionLimits) -> None:
        super().__init__(
            server,
            loop=loop,
            keepalive_timeout=limits.idle_timeout,
            access_log=None,  # type: ignore[arg-type] # None turns it off, which its annotation does not say
            max_line_size=limits.header_size,
            max_field_size=limits.header_size,
            lingering_time=limits.lingering,
            auto_decompress=False,  # a body is stored as it was sent: nothing on the way decodes it
        )
        self._limits = limits
        self._head_timer: asyncio.TimerHandle | None = None
        self._refused: Callable[[S3Error], None] = server.refused

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        manager = self._manager
        if manager is not None and len(manager.connections) > self._limits.connections:
            error = S3Error("SlowDown", "Too many connections.")
            self._refused(error)
            document = error_document(error, resource="", request_id="")
            assert isinstance(transport, asyncio.Transport)  # noqa: S101 # what a TCP server hands to a protocol
            transport.write(
                b"HTTP/1.1 503 Slow Down\r\nConnection: close\r\nContent-Type: application/xml\r\n"
                b"Content-Length: %d\r\n\r\n%b" % (len(document), document)
            )
            self.force_close()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._waiter is None or self._waiter.done():
            self._disarm()  # a request is being handled, or is complete and about to be
        elif self._head_timer is None:
            self._head_timer = self._loop.call_later(self._limits.header_timeout, self._head_too_slow)

    def _disarm(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_too_slow(self) -> None:
        self._head_timer = None
        if self._waiter is not None and not self._waiter.done():
            self._refused(S3Error("RequestTimeout"))
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
            case LineTooLong():
                error = S3Error("RequestHeaderSectionTooLarge")
            case HttpProcessingError():
                error = S3Error("BadRequest", "The request is not well-formed HTTP.")
            case _:
                error = S3Error("InternalError")
                self.logger.error("unhandled", exc_info=exc)
        self._refused(error)
        response = web.Response(
            status=error.status,
            body=error_document(error, resource="", request_id=""),
            content_type="application/xml",
        )
        response.force_close()
        return response


class ListenerServer(web.Server):
    """Makes a Connection for each socket that is accepted. `refused` is told of what never became a request."""

    def __init__(
        self,
        handler: Callable[[web.BaseRequest], Any],
        limits: ConnectionLimits,
        refused: Callable[[S3Error], None],
    ) -> None:
        super().__init__(handler)
        self._limits = limits
        self.refused = refused

    def __call__(self) -> Connection:
        return Connection(self, self._loop, self._limits)

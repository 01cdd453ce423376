"""The adapter between an aiohttp request and the gateway's exchange (forebay.protocol.exchange).

Framing and flow control are aiohttp's; the meaning of a request is the gateway's.
"""

import asyncio
import select
import socket
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from aiohttp import web
from aiohttp.client_exceptions import ClientPayloadError
from aiohttp.http_writer import HttpVersion11
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestPayloadError

from forebay.core.buffers import Buffer
from forebay.core.errors import S3Error
from forebay.core.fair_semaphore import SemaphoreShare
from forebay.core.heads import HeaderPairs
from forebay.core.request_record import RequestRecord
from forebay.core.timers import Timers
from forebay.server.http.connection_limits import Timeout
from forebay.server.response_heads import response_fields, write_continue

_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
"""SO_LINGER with a timeout of zero: closing the socket, also when the process dies, resets the connection."""
_FIN_ON_CLOSE: Final = struct.pack("ii", 0, 0)
COPIED_SIZE: Final = 65 << 10
"""Bytes of an object that are handed to aiohttp at once: just more than it writes before it waits for the client."""


class ExcessiveFraming(RequestPayloadError):
    """The body has far more bytes of chunked framing than of content."""


class UntypedResponse(web.StreamResponse):
    """A response for whose body aiohttp guesses no type: an origin that sends none is passed on unchanged."""

    async def _prepare_headers(self) -> None:
        has_type = "Content-Type" in self.headers
        await super()._prepare_headers()
        if not has_type:
            self.headers.popall("Content-Type", None)


class RequestBody:
    """The body of an aiohttp request. Implements forebay.protocol.exchange.Body."""

    def __init__(
        self,
        request: web.BaseRequest,
        timers: Timers,
        stall: float,
        record: RequestRecord,
        was_read: Callable[[StreamReader], None],
    ) -> None:
        """`stall`: seconds that may pass between two pieces. `was_read`: called when all of the body was."""
        self._request = request
        self._timers = timers
        self._stall = stall
        self._record = record
        self._was_read = was_read

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it arrives. Raises S3Error when it stalls or ends too soon."""
        request = self._request
        if request.headers.get("Expect", "").lower() == "100-continue":
            send_continue(request)
        while True:
            try:
                async with Timeout(self._timers, self._stall):
                    piece = await request.content.readany()
            except TimeoutError as error:
                raise S3Error("RequestTimeout", "The body stalled.") from error
            except ExcessiveFraming as error:
                raise S3Error("InvalidRequest", "The body has too many bytes of chunked framing.") from error
            except (RequestPayloadError, ClientPayloadError, ConnectionError) as error:
                raise S3Error("IncompleteBody") from error
            except RuntimeError as error:
                # aiohttp's: the connection had ended before the request was begun, so that its body has no error.
                if request.transport is not None:
                    raise
                raise S3Error("IncompleteBody") from error
            if not piece:
                self._was_read(request.content)
                return
            self._record.received += len(piece)
            yield piece


def send_continue(request: web.BaseRequest) -> None:
    """Sends the interim response 100 (Continue), which a client of HTTP/1.0 must not get."""
    if request.version >= HttpVersion11:
        write_continue(request.transport)


def has_left(transport: asyncio.BaseTransport | None) -> bool:
    """Whether the client has closed the connection, also if unread bytes of it are left."""
    connection = transport.get_extra_info("socket") if transport is not None else None
    if transport is None or transport.is_closing() or connection is None:
        return True
    poller = select.poll()
    poller.register(connection.fileno(), select.POLLRDHUP)
    return bool(poller.poll(0))


class StreamedReply:
    """The response to an aiohttp request. Implements forebay.protocol.exchange.Reply."""

    def __init__(
        self,
        request: web.BaseRequest,
        timers: Timers,
        stall: float,
        record: RequestRecord,
        is_last: Callable[[], bool],
        isolation: HeaderPairs,
        unsent: SemaphoreShare,
    ) -> None:
        """`stall`: seconds that a client may accept no byte. `is_last`: whether the connection ends with this.
        `isolation`: see `response_fields`. `unsent`: the bytes that may wait for slow clients, of all connections."""
        self._request = request
        self._timers = timers
        self._stall = stall
        self._record = record
        self._is_last = is_last
        self._isolation = isolation
        self._unsent = unsent
        self._response: UntypedResponse | None = None
        self._copied = b""
        """A piece that was accepted, and is sent by `drain`."""
        self._ends_with_connection = False
        """Whether only the end of the connection ends the body: its length is unknown, and HTTP/1.0 has no chunks."""
        self.aborted = False

    @property
    def started(self) -> bool:
        """Whether the head has been sent."""
        return self._response is not None

    @property
    def response(self) -> web.StreamResponse:
        """The response that was sent, as aiohttp wants it returned."""
        if self._response is None:
            raise RuntimeError("the gateway ended without a response")
        return self._response

    async def start(self, status: int, headers: HeaderPairs, length: int | None) -> None:
        """Sends the head. `length`: of the body, None if unknown."""
        response = UntypedResponse(status=status, headers=response_fields(headers, length, self._isolation))
        if self._is_last() or not self._request.content.is_eof():
            response.force_close()  # the rest of a body must not be mistaken for the next request
        self._response = response
        self._ends_with_connection = length is None and self._request.version < HttpVersion11
        if self._ends_with_connection:
            response.force_close()  # aiohttp would keep it open for a client that asks to
            self._prepare_connection_end()
        self._record.status = status
        self._record.first_byte = time.monotonic()
        await response.prepare(self._request)

    async def write(self, buffer: Buffer | bytes) -> None:
        """Sends a piece of the body. Raises ConnectionError when the client has left or accepts nothing."""
        await self._bounded(self.response.write(buffer))

    def accept(self, piece: Buffer) -> int:
        """Copies the front of a piece, which `drain` sends."""
        if self._request.transport is not None:
            self._request.transport.set_write_buffer_limits(1, 0)
        self._copied = bytes(piece[:COPIED_SIZE])
        return len(self._copied)

    @property
    def is_blocked(self) -> bool:
        """Whether a piece has yet to be sent: aiohttp tells no more."""
        return bool(self._copied)

    async def drain(self) -> None:
        """Sends the piece accepted last."""
        copied, self._copied = self._copied, b""
        charged = len(copied) if self._unsent.try_acquire(len(copied)) else 0
        try:
            await self.write(copied)
        finally:
            self._unsent.release(charged)

    async def finish(self) -> None:
        """Ends the body."""
        await self.response.write_eof()
        if self._ends_with_connection:
            await self._bounded(self._request.writer.drain())
            _set_linger(self._request.transport, _FIN_ON_CLOSE)

    def abort(self) -> None:
        """Breaks the connection, so that the client sees a truncated response."""
        self.aborted = True
        self._record.aborted = True
        if self._request.transport is not None:
            self._request.transport.abort()

    async def _bounded(self, writing: Awaitable[object]) -> None:
        """Awaits a write. Raises ConnectionError if the client accepts nothing for the stall timeout."""
        try:
            async with Timeout(self._timers, self._stall):
                await writing
        except TimeoutError as error:
            raise ConnectionAbortedError("the client takes no bytes") from error

    def _prepare_connection_end(self) -> None:
        """Has the connection reset whatever ends it, until the kernel has all of the body.

        A client takes the end of such a connection (FIN) for the end of the body, so a truncated body must not end so
        (RFC 9112 section 8).
        """
        transport = self._request.transport
        _set_linger(transport, _RESET_ON_CLOSE)
        if transport is not None:
            transport.set_write_buffer_limits(high=1, low=0)  # `drain` waits until nothing is left


def _set_linger(transport: asyncio.Transport | None, value: bytes) -> None:
    connection = transport.get_extra_info("socket") if transport is not None else None
    if connection is not None and connection.family in {socket.AF_INET, socket.AF_INET6}:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, value)

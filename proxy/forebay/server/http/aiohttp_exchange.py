"""Between an aiohttp request and the gateway's exchange (forebay.protocol.exchange).

Framing and flow control are aiohttp's; the meaning of a request is the gateway's.
"""

import secrets
import time
from collections.abc import AsyncIterator, Callable
from typing import Final

from aiohttp import web
from aiohttp.client_exceptions import ClientPayloadError
from aiohttp.web_protocol import RequestPayloadError
from multidict import CIMultiDict

from forebay.core.buffers import Buffer
from forebay.core.errors import S3Error
from forebay.core.heads import HeaderPairs
from forebay.core.request_record import RequestRecord
from forebay.server.http.connection_limits import Timeout, Timers

SERVER_NAME: Final = "Forebay"
HOST_ID: Final = secrets.token_hex(8)
"""The process that answered, in S3's header for it (x-amz-id-2): clients show it when they complain."""


def response_fields(headers: HeaderPairs, length: int | None) -> CIMultiDict[str]:
    """A response's headers with those of every response of ours. `length`: of its body, None if unknown."""
    fields = CIMultiDict(headers)
    if "x-oss-request-id" not in fields:  # OSS's responses have no second id
        fields.setdefault("x-amz-id-2", HOST_ID)
    fields.setdefault("Server", SERVER_NAME)
    if length is not None:
        fields["Content-Length"] = str(length)
    return fields


class UntypedResponse(web.StreamResponse):
    """A response for whose body aiohttp guesses no type: an origin that sends none is passed on unchanged."""

    async def _prepare_headers(self) -> None:
        has_type = "Content-Type" in self.headers
        await super()._prepare_headers()
        if not has_type:
            self.headers.popall("Content-Type", None)


class RequestBody:
    """The body of an aiohttp request. Implements forebay.protocol.exchange.Body."""

    def __init__(self, request: web.BaseRequest, timers: Timers, stall: float, record: RequestRecord) -> None:
        """`stall`: seconds that may pass between two pieces."""
        self._request = request
        self._timers = timers
        self._stall = stall
        self._record = record

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it arrives. Raises S3Error when it stalls or ends too soon."""
        request = self._request
        if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while True:
            try:
                async with Timeout(self._timers, self._stall):
                    piece = await request.content.readany()
            except TimeoutError as error:
                raise S3Error("RequestTimeout", "The body stalled.") from error
            except (RequestPayloadError, ClientPayloadError, ConnectionError) as error:
                raise S3Error("IncompleteBody") from error
            if not piece:
                return
            self._record.received += len(piece)
            yield piece


class StreamedReply:
    """The response to an aiohttp request. Implements forebay.protocol.exchange.Reply."""

    def __init__(
        self,
        request: web.BaseRequest,
        timers: Timers,
        stall: float,
        record: RequestRecord,
        is_last: Callable[[], bool],
    ) -> None:
        """`stall`: seconds that a client may accept no byte. `is_last`: whether the connection ends with this."""
        self._request = request
        self._timers = timers
        self._stall = stall
        self._record = record
        self._is_last = is_last
        self._response: UntypedResponse | None = None
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
        """Send the head. `length`: of the body, None if unknown."""
        response = UntypedResponse(status=status, headers=response_fields(headers, length))
        if self._is_last() or not self._request.content.is_eof():
            response.force_close()  # the rest of a body must not be mistaken for the next request
        self._response = response
        self._record.status = status
        self._record.first_byte = time.monotonic()
        await response.prepare(self._request)

    async def write(self, buffer: Buffer | bytes) -> None:
        """Send a piece of the body. Raises ConnectionError when the client has left or accepts nothing."""
        try:
            async with Timeout(self._timers, self._stall):
                await self.response.write(buffer)
        except TimeoutError as error:
            raise ConnectionAbortedError("the client takes no bytes") from error

    async def finish(self) -> None:
        """End the body."""
        await self.response.write_eof()

    def abort(self) -> None:
        """Break the connection, so that the client sees a truncated response."""
        self.aborted = True
        self._record.aborted = True
        if self._request.transport is not None:
            self._request.transport.abort()

"""Between aiohttp's request and the story's exchange: framing and flow control are aiohttp's, meaning is the
story's."""

import asyncio
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

SERVER_NAME: Final = "Forebay"
HOST_ID: Final = secrets.token_hex(8)
"""Which process answered, in the header that S3 has for that: clients show it when they complain."""


def response_fields(headers: HeaderPairs, length: int | None) -> CIMultiDict[str]:
    """An answer's headers, and what stands in every answer of ours. `length`: of its body, None: not known."""
    fields = CIMultiDict(headers)
    if "x-oss-request-id" not in fields:  # OSS's answers have no second id
        fields.setdefault("x-amz-id-2", HOST_ID)
    fields.setdefault("Server", SERVER_NAME)
    if length is not None:
        fields["Content-Length"] = str(length)
    return fields


class UntypedResponse(web.StreamResponse):
    """aiohttp's, but that guesses no type for a body: an origin that tells none is passed on as it is."""

    async def _prepare_headers(self) -> None:
        told = "Content-Type" in self.headers
        await super()._prepare_headers()
        if not told:
            self.headers.popall("Content-Type", None)


class RequestBody:
    """The body of an aiohttp request. Implements forebay.protocol.exchange.Body."""

    def __init__(self, request: web.BaseRequest, stall: float, record: RequestRecord) -> None:
        """`stall`: seconds that may pass between two pieces."""
        self._request = request
        self._stall = stall
        self._record = record

    async def pieces(self) -> AsyncIterator[bytes]:
        request = self._request
        if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while True:
            try:
                async with asyncio.timeout(self._stall):
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
    """Where the answer goes. Implements forebay.protocol.exchange.Reply."""

    def __init__(self, request: web.BaseRequest, stall: float, record: RequestRecord, last: Callable[[], bool]) -> None:
        """`stall`: seconds that a client may take no byte at all. `last`: whether the connection is to end with
        this."""
        self._request = request
        self._stall = stall
        self._record = record
        self._last = last
        self._response: UntypedResponse | None = None
        self.aborted = False

    @property
    def started(self) -> bool:
        return self._response is not None

    @property
    def response(self) -> web.StreamResponse:
        """For aiohttp, which wants it returned."""
        if self._response is None:
            raise RuntimeError("the story ended without an answer")
        return self._response

    async def start(self, status: int, headers: HeaderPairs, length: int | None) -> None:
        response = UntypedResponse(status=status, headers=response_fields(headers, length))
        if self._last() or not self._request.content.is_eof():
            response.force_close()  # what is left of a body must not be taken for the next request
        self._response = response
        self._record.status = status
        self._record.first_byte = time.monotonic()
        await response.prepare(self._request)

    async def write(self, buffer: Buffer | bytes) -> None:
        try:
            async with asyncio.timeout(self._stall):
                await self.response.write(buffer)
        except TimeoutError as error:
            raise ConnectionAbortedError("the client takes no bytes") from error

    async def finish(self) -> None:
        await self.response.write_eof()

    def abort(self) -> None:
        self.aborted = True
        self._record.aborted = True
        if self._request.transport is not None:
            self._request.transport.abort()

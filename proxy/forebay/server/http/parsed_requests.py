"""Requests that aiohttp has parsed: the request and the reply of each, until its response can be finished.

aiohttp's request ──> plain framing? ──> Request, reply ──> request service ──> rest of a refused body is dropped
"""

import time
from typing import Protocol

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage
from aiohttp.http_writer import HttpVersion11
from aiohttp.streams import StreamReader

from forebay.core.errors import S3Error
from forebay.core.request_record import RequestRecord, new_request_id
from forebay.core.timers import Timers
from forebay.protocol.channel_frames import CHANNEL_PATH, HINT_HEADER
from forebay.protocol.exchange import Request
from forebay.server.fastpath.admitted_reads import ReadConnection
from forebay.server.fastpath.direct_reply import ReplyConnection
from forebay.server.http.aiohttp_exchange import RequestBody, StreamedReply, has_left, send_continue
from forebay.server.http.chunk_sender import ChunkSender
from forebay.server.http.connection_limits import ConnectionLimits, linger
from forebay.server.http.request_framing import framing_error, head_size, origin_form
from forebay.server.request_service import RequestService


class RequestConnection(ReadConnection, ReplyConnection, Protocol):
    """The connection of any request."""

    @property
    def is_pipelined(self) -> bool:
        """Whether more requests have been parsed than are being answered."""
        ...

    @property
    def came_alone(self) -> bool:
        """Whether nothing has come behind the head of the request."""
        ...

    def release_buffer(self, content: StreamReader) -> None:
        """Note that no more of this body is read."""


class ParsedRequests:
    """See the module. One for each worker."""

    __slots__ = ("_limits", "_requests", "_socket_path", "_timers")

    def __init__(
        self, requests: RequestService, limits: ConnectionLimits, timers: Timers, socket_path: str | None = None
    ) -> None:
        """`socket_path`: of the Unix socket, for clients that ask."""
        self._requests = requests
        self._limits = limits
        self._timers = timers
        self._socket_path = socket_path

    async def answer(self, request: web.BaseRequest, connection: RequestConnection) -> web.StreamResponse:
        """Answers a request. Raises BadHttpMessage if its framing is not plain."""
        if (reason := framing_error(request)) is not None:
            raise BadHttpMessage(reason)  # for handle_error, as if the parser had raised it
        if request.method == "OPTIONS" and asks_for_socket(request, connection.peer):
            hint = {HINT_HEADER: self._socket_path} if self._socket_path is not None else {}
            return web.Response(status=204, headers=hint)
        requests, stall = self._requests, self._limits.stall
        record = RequestRecord(request.method, time.monotonic(), new_request_id(), peer=connection.peer)
        is_too_large = head_size(request) > self._limits.header_size
        is_chunked = "Transfer-Encoding" in request.headers
        is_upgrade = "Upgrade" in request.headers

        def is_last() -> bool:
            # No S3 client sends a request behind a chunked body before it has its answer, but that is what a body looks
            # like whose end two parsers see in two places. Asked before the response's head leaves: a client that has
            # it may send its next request at once, and is to find the connection open.
            if is_upgrade and not connection.came_alone:
                return True  # what followed it is lost in aiohttp's parser
            return requests.is_draining or is_too_large or (is_chunked and connection.is_pipelined)

        has_chunks = request.version >= HttpVersion11
        chunks = ChunkSender(request, connection, is_local=is_local(record.peer)) if has_chunks else None
        reply = StreamedReply(
            request, self._timers, stall, record, is_last, requests.isolation_headers, connection.unsent
        )
        parsed = Request(
            method=request.method,
            raw_target=origin_form(request),
            host=request.headers.get("Host", ""),
            headers=request.headers,
            body=RequestBody(request, self._timers, stall, record, connection.release_buffer),
            has_body=request.body_exists,
            received_at=time.time(),
            peer=record.peer,
            secure=connection.secure,
            chunks=chunks,
            has_left=lambda: has_left(request.transport),
            send_interim=lambda: send_continue(request),
        )
        requests.count_in_flight(1)
        if parsed.expects_continue and not parsed.has_body:
            # RFC 9110 allows to leave it out, but then botocore takes the status of this answer for that of the next.
            send_continue(request)
        try:
            if is_too_large:
                await requests.refuse(S3Error("RequestHeaderSectionTooLarge"), parsed, reply, record)
            else:
                await requests.answer(parsed, reply, record)
        finally:
            requests.finish(record)
        if reply.aborted:
            raise ConnectionResetError("aborted")
        await linger(request.content, self._timers)
        return reply.response


def asks_for_socket(request: web.BaseRequest, peer: str) -> bool:
    """Whether a request of a client on this machine asks for the path of the Unix socket."""
    return request.raw_path == CHANNEL_PATH and is_local(peer)


def is_local(peer: str) -> bool:
    """Whether a client's address is one of this machine."""
    return peer.startswith("127.") or peer in {"::1", "unix"}

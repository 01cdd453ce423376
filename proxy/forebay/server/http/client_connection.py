"""One client connection: which lane each of its requests takes.

    bytes ──> idle, at a clean boundary? ──yes──> fast lane ──> a hit: written, or sent from files
                      │ no                            ├──> an admitted read (admitted_reads)
                      │                               ├──> a small PUT (small_uploads)
                      │                               └──> neither
                      └──────────────────> aiohttp <──────────┘                    (parsed_requests)

- While a read is being answered, or a body is being sent, further bytes wait (`_pending`), and the socket is not read.
- Bytes behind a chunked body that has not been answered are dropped with the connection: parsers differ most on where
  such a body ends, and no S3 client sends a request before it has its answer. So are bytes that came with a request to
  switch protocols (Upgrade): aiohttp's parser in C loses those, and would read the next ones as a request.
- How responses leave is in forebay.server.http.sending_connection; the timers of idle connections and heads, and
  refusals, are in forebay.server.http.aiohttp_connection.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from aiohttp import web

from forebay.core.errors import S3Error
from forebay.core.heads import HeaderPairs
from forebay.core.request_record import RequestRecord
from forebay.server.fastpath.client_state import ClientState
from forebay.server.fastpath.direct_reply import DirectReply
from forebay.server.fastpath.fast_lane import FastLane
from forebay.server.fastpath.lane_answer import AdmittedRead
from forebay.server.http.arriving_body import ArrivingBody
from forebay.server.http.connection_services import ConnectionServices
from forebay.server.http.sending_connection import SendingConnection

_END: Final = b"\r\n\r\n"
_MAX_JOINED: Final = 16
"""Small responses to requests that arrived together which leave in one write: 256 KiB at most, before it is seen
whether the client accepts them."""


class ClientConnection(SendingConnection):
    """See the module."""

    __slots__ = (
        "_arriving",
        "_awaits_request",
        "_body_turns",
        "_client",
        "_is_closing",
        "_is_only_request",
        "_is_reading",
        "_pending",
        "_reads",
        "came_alone",
        "is_new",
    )

    def __init__(self, server: web.Server, loop: asyncio.AbstractEventLoop, services: ConnectionServices) -> None:
        super().__init__(server, loop, services)
        self._reads, self._body_turns = services.reads, services.body_turns
        self._client = ClientState("")
        self._pending = b""
        """Bytes that wait until the current requests have been answered."""
        self._is_reading = False
        """Whether a read that the fast lane has admitted, or a small PUT, is being answered."""
        self._arriving: ArrivingBody | None = None
        """The body of a small PUT, of which more is to come."""
        self._is_closing = False
        """Whether the connection ends with the current answer."""
        self._is_only_request = False
        """Whether aiohttp has one request, head and all, and no byte more."""
        self.is_new = True
        """Whether no byte has come."""
        self.came_alone = False
        """Whether the request that aiohttp has was the last thing that came, and has no body."""
        self._awaits_request = True
        """Whether aiohttp is about to wait for a request: it has none, or the response to the one it had is written.
        On a busy server the next request always arrives before aiohttp's task has had its turn."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Starts serving the connection."""
        super().connection_made(transport)
        self._client = ClientState(self.peer, None if self.secure else self._make_sendfile_writer)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Drops everything that refers to the connection."""
        self._pending = b""
        if self._arriving is not None:
            self._arriving.break_off()
            self._arriving = None
        self._client = ClientState("")  # the other refers to this connection: see SendingConnection
        super().connection_lost(exc)

    def begin_draining(self) -> None:
        """Ends the connection: at once if it is idle, else with its answer. aiohttp's own `close` ends idle ones last,
        and drops the rest of a body."""
        if self._is_reading or self._is_sending:
            self._is_closing = True
        if self._is_closing or self.is_receiving:
            return
        is_awaiting = self.is_awaiting
        self.close()
        if is_awaiting and self.transport is not None:
            self.transport.close()

    @property
    def is_idle(self) -> bool:
        """Whether the fast lane may answer here: aiohttp waits for a request, and all written bytes are leaving."""
        return self._boundary.is_clean and self._is_free

    @property
    def _is_free(self) -> bool:
        waiter = self._waiter
        return (self._awaits_request if waiter is None else not waiter.done()) and not (
            self._messages or self._paused or self._force_close or self._is_reading
        )

    @property
    def is_busy(self) -> bool:
        """Whether a request is being answered, or a response is still being sent."""
        return self._is_reading or self._is_sending or self._paused or super().is_busy

    def record_refusal(self, error: S3Error) -> str:
        """Records the refusal of input that never became a request. Returns the request id for its response."""
        return self._requests.record_refusal(error, self.peer)

    def data_received(self, data: bytes) -> None:
        """Has these bytes answered by the fast lane as far as it can, the rest by aiohttp."""
        self._body_turns.demand += 1
        self.is_new = False
        if self._arriving is not None:
            data = self._arriving.feed(data)
            if self._arriving.is_eof():
                self._arriving = None
            if not data:
                return
        if self._is_reading or (self._sendfile_writer is not None and self._sendfile_writer.is_busy):
            self._pending += data
            if self.transport is not None:
                self.transport.pause_reading()
            return
        lane = self._reads.fast_lane
        is_idle = self.is_idle
        if is_idle and lane is not None and data:
            if data.startswith(b"PUT "):
                body = self._services.uploads.begin(data, self)
                if body is not None:
                    self._is_reading = True
                    self._arriving = None if body.is_eof() else body
                    return
            elif not (data := self._answer_fast(lane, data)):
                return
        is_head = data.find(_END) == len(data) - len(_END)
        self.came_alone = is_head and self._is_free
        self._is_only_request, self._awaits_request = is_idle and is_head, False
        super().data_received(data)

    def body_received(self, count: int) -> None:
        """Counts bytes of a body that were received past aiohttp's parser."""
        self._body_turns.demand += 1
        super().body_received(count)

    def _answer_fast(self, lane: FastLane, data: bytes) -> bytes:
        """Has the fast lane answer these requests, in order, as far as it can. Returns the bytes left for aiohttp."""
        # Several heads at once (pipelining)? Each ends at the first empty line, as no request answered here has a body.
        start, end = 0, data.find(_END) + len(_END)
        small: list[bytes] = []
        while end >= len(_END) and not self._paused:
            answer = lane.answer(data[start:end], self._client)
            if answer is None or (isinstance(answer, AdmittedRead) and end - start > self._limits.header_size):
                break
            start, end = end, data.find(_END, end) + len(_END)
            if isinstance(answer, AdmittedRead):
                if small:
                    self._write_small(small)
                self._pending = data[start:]
                self._is_reading = True
                self._reads.begin(answer, self, self)
                return b""
            if not answer[3]:
                small.append(answer[0])
                self._client.has_unsent = True
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

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answers a request that aiohttp has parsed."""
        response = await self._services.parsed.answer(request, self)
        keep_alive = bool(response.keep_alive) and request.content.is_eof()
        self._awaits_request = keep_alive and self._is_only_request
        self._idle_until = self._timers.time() + self._limits.idle_timeout
        return response

    def make_reply(
        self, record: RequestRecord, is_last: Callable[[], bool], isolation: HeaderPairs, *, is_head: bool
    ) -> DirectReply:
        """The reply to an admitted read."""
        return DirectReply(self, record, is_last, isolation, is_head=is_head)

    def read_answered(self, *, keep_alive: bool) -> None:
        """The admitted read has been answered; `keep_alive`: another request may follow."""
        self._is_reading, self._arriving = False, None
        self._idle_until = self._timers.time() + self._limits.idle_timeout
        if self.transport is None:
            return
        if not keep_alive:
            self.force_close()
        else:
            self.process_pending()

    def process_pending(self) -> None:
        """Answers the bytes that have waited, or ends the connection if it is closing."""
        if self._is_closing:
            self._is_closing = False
            self.begin_draining()
            return
        pending, self._pending = self._pending, b""
        if pending:
            if self.transport is not None:
                self.transport.resume_reading()
            self.data_received(pending)

    def _write_small(self, responses: list[bytes]) -> None:
        """Writes complete responses, in order, and empties the list."""
        self._client.has_unsent = False
        if responses:
            self._write_pieces(responses, 0)
            responses.clear()

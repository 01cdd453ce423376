"""Answers the requests of all connections of one worker, and records each.

    aiohttp parsed it     ──> handle ─────┐
    fast lane admitted it ──> read ───────┼─> gateway ──> reply ──> record: metrics, access log
    batch of a channel    ──> read_batch ─┤
    small PUT             ──> answer ─────┘                         (forebay.server.http.small_uploads)
    no valid request ──> refuse ───────────────────────────────> record

It bounds the requests in flight, and wakes a drain when none is left. It knows connections by
forebay.server.http.request_connections only.
"""

import asyncio
import time

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage
from aiohttp.http_writer import HttpVersion11

from forebay.core.errors import S3Error
from forebay.core.heads import HeaderPairs
from forebay.core.names import BATCH_KEY
from forebay.core.request_record import RequestRecord, new_request_id
from forebay.core.task_registry import TaskRegistry
from forebay.core.timers import Timers
from forebay.metadata.direct_openings import DirectOpening
from forebay.origin.turns.body_turns import BodyTurns
from forebay.protocol.channel_frames import CHANNEL_PATH, HINT_HEADER
from forebay.protocol.exchange import EMPTY_BODY, BytesBody, ObjectReply, Request
from forebay.protocol.target import parse_target
from forebay.request.admission import GatewayPolicy, KnownHead
from forebay.request.gateway import Gateway
from forebay.server.fastpath.direct_misses import DirectMisses, MissConnection
from forebay.server.fastpath.fast_lane import FastLane
from forebay.server.fastpath.lane_answer import AdmittedRead
from forebay.server.fastpath.request_head import parse_request_head
from forebay.server.http.aiohttp_exchange import RequestBody, StreamedReply, has_left, send_continue
from forebay.server.http.chunk_sender import ChunkSender
from forebay.server.http.connection_limits import ConnectionLimits, linger
from forebay.server.http.request_connections import (
    AbortableReply,
    BatchChannel,
    ReadConnection,
    RequestConnection,
)
from forebay.server.http.request_framing import framing_error, head_size, origin_form
from forebay.server.telemetry.access_log import AccessLog
from forebay.server.telemetry.metrics import Metrics


class RequestService:
    """See the module. One for each worker."""

    def __init__(
        self,
        gateway: Gateway,
        metrics: Metrics,
        access_log: AccessLog | None,
        limits: ConnectionLimits,
        timers: Timers,
        body_turns: BodyTurns,
        fast_lane: FastLane | None = None,
        socket_path: str | None = None,
        misses: DirectMisses | None = None,
    ) -> None:
        """`body_turns`: notified of each message of a client. `access_log`, `fast_lane`, `misses`: None for none.
        `socket_path`: of the Unix socket, for clients that ask."""
        self.body_turns = body_turns
        self.misses = misses
        self._socket_path = socket_path
        self._gateway = gateway
        self._metrics = metrics
        self._access_log = access_log
        self._limits = limits
        self._timers = timers
        self._reads = TaskRegistry()
        self._idle = asyncio.Event()
        self._idle.set()
        self.fast_lane = fast_lane
        """Answers hits, and admits reads, before aiohttp parses them; None: aiohttp parses every request."""
        self.in_flight = 0
        """Requests that are being answered, and bodies that a slow client has yet to accept."""
        self.is_draining = False

    def begin_draining(self) -> None:
        """Has each connection end with its next response."""
        self.is_draining = True
        self.fast_lane = None  # the gateway's replies tell clients that the connection ends

    @property
    def policy(self) -> GatewayPolicy:
        """The policy that requests are admitted by now."""
        return self._gateway.policy

    @property
    def isolation_headers(self) -> HeaderPairs:
        """The headers of every response in open mode."""
        return self._gateway.policy.isolation_headers

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in flight."""
        return not self.in_flight

    async def until_idle(self) -> None:
        """Waits until nothing is in flight."""
        await self._idle.wait()

    async def close(self) -> None:
        """Cancels the reads in flight."""
        if self.misses is not None:
            self.misses.close()
        await self._reads.close()

    def count_in_flight(self, change: int) -> None:
        """Note that a request or a body is in flight (1), or no longer (-1)."""
        before, self.in_flight = self.in_flight, self.in_flight + change
        if not self.in_flight:
            self._idle.set()
        elif not before:
            self._idle.clear()

    async def handle(self, request: web.BaseRequest, connection: RequestConnection) -> web.StreamResponse:
        """Answers a request that aiohttp has parsed. Raises BadHttpMessage if its framing is not plain."""
        if (reason := framing_error(request)) is not None:
            raise BadHttpMessage(reason)  # for handle_error, as if the parser had raised it
        if request.method == "OPTIONS" and asks_for_socket(request, connection.peer):
            hint = {HINT_HEADER: self._socket_path} if self._socket_path is not None else {}
            return web.Response(status=204, headers=hint)
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
            return self.is_draining or is_too_large or (is_chunked and connection.is_pipelined)

        stall = self._limits.stall
        isolation = self.isolation_headers
        has_chunks = request.version >= HttpVersion11
        chunks = ChunkSender(request, connection, is_local=is_local(record.peer)) if has_chunks else None
        reply = StreamedReply(request, self._timers, stall, record, is_last, isolation, connection.unsent)
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
        self.count_in_flight(1)
        if parsed.expects_continue and not parsed.has_body:
            # RFC 9110 allows to leave it out, but then botocore takes the status of this answer for that of the next.
            send_continue(request)
        try:
            if is_too_large:
                await self._gateway.refuse(S3Error("RequestHeaderSectionTooLarge"), parsed, reply, record)
            else:
                await self.answer(parsed, reply, record)
        finally:
            self.finish(record)
        if reply.aborted:
            raise ConnectionResetError("aborted")
        await linger(request.content, self._timers)
        return reply.response

    def read(self, read: AdmittedRead, connection: ReadConnection, miss: MissConnection | None = None) -> None:
        """Answers a plain read that the fast lane has admitted, then calls `connection.read_answered`: in a task, or
        without one if `miss`, the connection as the direct misses use it, is passed and the read allows it."""
        self.count_in_flight(1)  # before the task runs, so that a drain waits for it
        if (
            miss is None
            or self.misses is None
            or self.is_draining
            or self.in_flight > self._limits.requests
            or not self.misses.begin(read, miss, self)
        ):
            self._reads.spawn(self._read(read, connection), "read")

    def fall_back(self, read: AdmittedRead, connection: MissConnection, opening: DirectOpening) -> None:
        """Answers a read in a task that was begun without one; `opening` is under way, or has ended."""
        self._reads.spawn(self._read(read, connection, opening), "read")

    async def _read(self, read: AdmittedRead, connection: ReadConnection, opening: DirectOpening | None = None) -> None:
        record = RequestRecord(read.method, read.started, new_request_id(), peer=connection.peer)
        isolation = read.admission.policy.isolation_headers
        is_head = read.method == "HEAD"
        reply = connection.make_reply(record, lambda: self.is_draining, isolation, is_head=is_head)
        request = Request(
            read.method,
            read.raw_target,
            read.headers["Host"],
            read.headers,
            EMPTY_BODY,
            has_body=False,
            received_at=read.received_at,
            peer=record.peer,
            secure=connection.secure,
            send_interim=reply.send_interim,
        )
        try:
            if not await self._is_refused(request, reply, record):
                await self._gateway.read(read.admission, request, reply, record)
        except BaseException:
            reply.abort()
            raise
        finally:
            if opening is not None:
                opening.abandon()
            self.finish(record)
            connection.read_answered(keep_alive=reply.keep_alive and not reply.aborted)

    def read_batch(self, head: bytes, document: bytes, connection: BatchChannel) -> bool:
        """Answers the batch with this head and body in a task, then calls `connection.read_answered`. Returns False,
        and does nothing, if the request is no batch."""
        parsed = None if self.is_draining else parse_request_head(head, is_post=True)
        if parsed is None:
            return False
        headers, policy = parsed.headers, self._gateway.policy
        try:
            target = parse_target(parsed.raw_target, headers["Host"], policy.domains, policy.cnames)
        except S3Error:
            return False
        if target.key != BATCH_KEY:
            return False
        headers["Content-Length"] = str(len(document))  # the head had none
        record = RequestRecord("POST", time.monotonic(), new_request_id(), peer=connection.peer)
        output, reply = connection.make_batch_reply(record)
        request = Request(
            "POST",
            parsed.raw_target,
            headers["Host"],
            headers,
            BytesBody(document),
            has_body=True,
            received_at=time.time(),
            peer=connection.peer,
            batch_output=output,
        )
        self.count_in_flight(1)
        self._reads.spawn(self._read_batch(request, reply, record, connection), "batch")
        return True

    async def _read_batch(
        self, request: Request, reply: AbortableReply, record: RequestRecord, connection: BatchChannel
    ) -> None:
        record.received = int(request.headers["Content-Length"])
        try:
            await self.answer(request, reply, record)
        finally:
            self.finish(record)
            connection.read_answered(keep_alive=not reply.aborted)

    async def answer(
        self, request: Request, reply: AbortableReply, record: RequestRecord, known: KnownHead | None = None
    ) -> None:
        """Has the gateway answer a request, unless too many are in flight; the reply is aborted where that fails.
        `known`: see Gateway.handle."""
        try:
            if not await self._is_refused(request, reply, record):
                await self._gateway.handle(request, reply, record, known)
        except BaseException:
            reply.abort()  # closing in order would wait for a client that takes nothing
            raise

    def refuse(self, error: S3Error, peer: str) -> str:
        """Records a refusal of input that never became a request. Returns the request id for its response."""
        now = time.monotonic()
        record = RequestRecord("", now, new_request_id(), peer, status=error.status, error=error.code, ended=now)
        self._metrics.record_refusal(error)
        if self._access_log is not None:
            self._access_log.write(record)
        return record.request_id

    async def _is_refused(self, request: Request, reply: ObjectReply, record: RequestRecord) -> bool:
        """Refuses the request if too many are in flight; whether that was so."""
        if self.in_flight <= self._limits.requests:
            return False
        await self._gateway.refuse(S3Error("SlowDown", "Too many requests at once."), request, reply, record)
        return True

    def finish(self, record: RequestRecord) -> None:
        """Records a request that has been answered."""
        self.count_in_flight(-1)
        record.ended = time.monotonic()
        self._metrics.record_request(record)
        if self._access_log is not None:
            self._access_log.write(record)


def asks_for_socket(request: web.BaseRequest, peer: str) -> bool:
    """Whether a request of a client on this machine asks for the path of the Unix socket."""
    return request.raw_path == CHANNEL_PATH and is_local(peer)


def is_local(peer: str) -> bool:
    """Whether a client's address is one of this machine."""
    return peer.startswith("127.") or peer in {"::1", "unix"}

"""The listener: takes requests from aiohttp, has the gateway answer them, and keeps the record of each."""

import asyncio
import time

from aiohttp import web

from forebay.core.errors import S3Error
from forebay.core.request_record import RequestRecord, new_request_id
from forebay.core.task_registry import TaskRegistry
from forebay.protocol.exchange import EMPTY_BODY, Request
from forebay.request.gateway import Gateway
from forebay.server.fastpath.direct_reply import DirectReply
from forebay.server.fastpath.fast_lane import AdmittedRead, FastLane, HitSources, HitTelemetry
from forebay.server.http.aiohttp_exchange import RequestBody, StreamedReply
from forebay.server.http.client_connection import ClientConnection
from forebay.server.http.connection_factory import ConnectionFactory
from forebay.server.http.connection_limits import ConnectionLimits
from forebay.server.http.lingering_close import linger
from forebay.server.http.strict_framing import origin_form
from forebay.server.telemetry.access_log import AccessLog
from forebay.server.telemetry.metrics import Metrics


class Listener:
    """Both lanes of one worker. `access_log` None: no access log."""

    def __init__(
        self,
        gateway: Gateway,
        metrics: Metrics,
        access_log: AccessLog | None,
        limits: ConnectionLimits,
        *,
        max_requests: int,
        stall: float,
        hits: HitSources | None = None,
    ) -> None:
        """`most_requests` under way at once, beyond which clients are told to slow down; `stall`: seconds that a client
        may neither send nor take a byte; `hits`: what the fast lane answers from, None for no fast lane."""
        self._gateway = gateway
        self._metrics = metrics
        self._access_log = access_log
        self._max_requests = max_requests
        self._stall = stall
        self._limits = limits
        self._idle = asyncio.Event()
        self._idle.set()
        self.in_flight = 0
        self.is_draining = False
        self.server = ConnectionFactory(self._handle, limits, self._refuse)
        self.server.sending = self._count_in_flight
        self.server.read = self._read
        self._reads = TaskRegistry()
        if hits is not None:
            self.server.lane, self.server.budget = (
                FastLane(gateway, hits, HitTelemetry(metrics, access_log)),
                hits.budget,
            )

    @property
    def connections(self) -> int:
        return len(self.server.connections)

    async def drain(self, seconds: float, hurry: asyncio.Event) -> bool:
        """End idle connections and wait for the requests under way; whether all of them ended in time, and before
        `hurry` was set."""
        self.is_draining = True
        self.server.lane = None  # the full lane tells clients that the connection ends
        self.server.pre_shutdown()
        async with asyncio.TaskGroup() as group:
            waits = [group.create_task(self._idle.wait()), group.create_task(hurry.wait())]
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
        return self._idle.is_set()

    async def close(self) -> None:
        """Break what is left."""
        await self.server.shutdown(timeout=0.001)  # aiohttp takes 0 for "for ever"
        await self._reads.close()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        record = RequestRecord(
            request.method, "full", time.monotonic(), new_request_id(), peer=request.remote or "unix"
        )
        too_large = _head_size(request) > self._limits.header_size
        reply = StreamedReply(
            request, self._stall, record, lambda: self.is_draining or too_large or _is_overtaken(request)
        )
        self._count_in_flight(1)
        try:
            await self._gateway_handle(request, reply, record, too_large)
        finally:
            self._count_in_flight(-1)
            record.ended = time.monotonic()
            self._record(record)
        if reply.aborted:
            raise ConnectionResetError("aborted")
        await linger(request.content, self._limits)
        return reply.response

    def _read(self, connection: ClientConnection, peer: str, read: AdmittedRead) -> None:
        """Answer a plain read that the fast lane has understood."""
        self._count_in_flight(1)  # now, so that draining waits for it
        self._reads.spawn(self._answer(connection, peer, read), "read")

    async def _answer(self, connection: ClientConnection, peer: str, read: AdmittedRead) -> None:
        record = RequestRecord(read.method, "full", read.started, new_request_id(), peer=peer)
        reply = DirectReply(connection, self._stall, record, lambda: self.is_draining, is_head=read.method == "HEAD")
        request = Request(
            read.method,
            read.raw_target,
            read.headers["Host"],
            read.headers,
            EMPTY_BODY,
            has_body=False,
            received_at=read.received_at,
            peer=peer,
            secure=connection.secure,
        )
        try:
            if self.in_flight > self._max_requests:
                await self._gateway.refuse(S3Error("SlowDown", "Too many requests at once."), request, reply, record)
            else:
                await self._gateway.read(read.admission, request, reply, record)
        except BaseException:
            reply.abort()
            raise
        finally:
            self._count_in_flight(-1)
            record.ended = time.monotonic()
            self._record(record)
            connection.read_answered(keep_alive=reply.keep_alive and not reply.aborted)

    def _count_in_flight(self, more: int) -> None:
        self.in_flight += more
        if self.in_flight:
            self._idle.clear()
        else:
            self._idle.set()

    def _refuse(self, error: S3Error, peer: str) -> str:
        """Tell of what never became a request. Returns its id."""
        now = time.monotonic()
        record = RequestRecord(
            "", "full", now, new_request_id(), peer, status=error.status, error=error.code, ended=now
        )
        self._metrics.record_refusal(error)
        if self._access_log is not None:
            self._access_log.write(record)
        return record.request_id

    def _record(self, record: RequestRecord) -> None:
        self._metrics.record_request(record)
        if self._access_log is not None:
            self._access_log.write(record)

    async def _gateway_handle(
        self, request: web.BaseRequest, reply: StreamedReply, record: RequestRecord, too_large: bool
    ) -> None:
        inbound = Request(
            method=request.method,
            raw_target=origin_form(request),
            host=request.headers.get("Host", ""),
            headers=request.headers,
            body=RequestBody(request, self._stall, record),
            has_body=request.body_exists,
            received_at=time.time(),
            peer=record.peer,
            secure=request.secure,
        )
        if too_large:
            await self._gateway.refuse(S3Error("RequestHeaderSectionTooLarge"), inbound, reply, record)
        elif self.in_flight > self._max_requests:
            await self._gateway.refuse(S3Error("SlowDown", "Too many requests at once."), inbound, reply, record)
        else:
            await self._gateway.handle(inbound, reply, record)


def _head_size(request: web.BaseRequest) -> int:
    """Bytes of the head. aiohttp bounds each line by itself, and their number, but not what they come to."""
    return len(request.raw_path) + sum(len(name) + len(value) + 4 for name, value in request.raw_headers)


def _is_overtaken(request: web.BaseRequest) -> bool:
    """Whether what follows a chunked body was taken for a request before this one is answered: no client of S3 does
    that, but it is what a body looks like whose end two parsers see in two places. To be asked before the head of the
    answer leaves: a client that has it may send its next request at once, and is to find the connection open."""
    connection = request.protocol
    return (
        "Transfer-Encoding" in request.headers and isinstance(connection, ClientConnection) and connection.is_pipelined
    )

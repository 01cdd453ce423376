"""Small PUTs, which are read past aiohttp: one task answers each, while its body arrives.

    head, front of the body ──> begin ──> gateway ──> reply ──> what is left of the body is dropped ──> read_answered
    the rest ──────────────────> ArrivingBody.feed ──┘

The request service answers, bounds and records them. Head and body are charged to the buffers until the answer; without
room, aiohttp reads the request. A client that leaves does not end it: the write is carried out, as in aiohttp's lane.
"""

import asyncio
import time
from typing import Final, Protocol

from forebay.core.fair_semaphore import SemaphoreShare
from forebay.core.request_record import RequestRecord, new_request_id
from forebay.core.task_registry import TaskRegistry
from forebay.core.timers import Timers
from forebay.protocol.exchange import Request, SmallBody
from forebay.server.fastpath.admitted_reads import ReadConnection
from forebay.server.fastpath.upload_heads import KnownUpload, UploadHeads
from forebay.server.http.aiohttp_exchange import has_left
from forebay.server.http.arriving_body import ArrivingBody
from forebay.server.http.connection_limits import ConnectionLimits, linger
from forebay.server.request_service import RequestService
from forebay.server.response_heads import write_continue

_END: Final = b"\r\n\r\n"


class UploadConnection(ReadConnection, Protocol):
    """The connection of a small PUT."""

    @property
    def transport(self) -> asyncio.Transport | None:
        """None after the client has left."""
        ...


class SmallUploads:
    """See the module. One for each worker."""

    def __init__(
        self,
        requests: RequestService,
        limits: ConnectionLimits,
        timers: Timers,
        receiving: SemaphoreShare,
        tasks: TaskRegistry,
    ) -> None:
        """`receiving`: the bytes of bodies that are received past aiohttp, of all connections. `tasks`: the owner of
        answers, which go on when their client leaves."""
        self._requests = requests
        self._limits = limits
        self._timers = timers
        self._receiving = receiving
        self._tasks = tasks
        self.heads = UploadHeads()

    def begin(self, data: bytes, connection: UploadConnection) -> ArrivingBody | None:
        """Answers a small PUT whose head these bytes are, and the front of its body or all of it, in a task;
        `connection.read_answered` follows. Returns its body, which the connection feeds with the rest. None: they are
        anything else, or there is no memory, and nothing was done."""
        size = data.find(_END) + len(_END)
        if self._requests.is_draining or size > self._limits.header_size:
            return None
        known = self.heads.read(data[:size], self._requests.policy)
        if known is None:
            return None
        head = known.head
        if size + head.length < len(data) or not self._receiving.try_acquire(size + head.length):
            return None
        record = RequestRecord("PUT", time.monotonic(), new_request_id(), peer=connection.peer)

        def send_interim() -> None:
            write_continue(connection.transport)

        left, announced = size + head.length - len(data), send_interim if head.expects_continue else None
        body = ArrivingBody(data[size:], left, self._timers, self._limits.stall, record, announced)
        request = Request(
            "PUT",
            head.raw_target,
            head.headers["Host"],
            head.headers,
            SmallBody(body.receive),
            has_body=head.length > 0,
            received_at=time.time(),
            peer=connection.peer,
            secure=connection.secure,
            has_left=lambda: has_left(connection.transport),
            outlives_client=True,
            send_interim=send_interim,
        )
        if request.expects_continue and not request.has_body:
            send_interim()  # as forebay.server.http.parsed_requests does, where it is explained
        self._requests.count_in_flight(1)
        self._tasks.spawn(self._answer(request, known, body, record, connection, size + head.length), "upload")
        return body

    async def _answer(
        self,
        request: Request,
        known: KnownUpload,
        body: ArrivingBody,
        record: RequestRecord,
        connection: UploadConnection,
        charged: int,
    ) -> None:
        requests = self._requests

        def is_last() -> bool:
            return requests.is_draining or not body.is_eof()  # the rest must not be mistaken for the next request

        reply = connection.make_reply(record, is_last, requests.isolation_headers, is_head=False)
        try:
            try:
                await requests.answer(request, reply, record, known)
            finally:
                self._receiving.release(charged)
                requests.finish(record)
            if not reply.aborted:
                await linger(body, self._timers)
        finally:
            connection.read_answered(keep_alive=reply.keep_alive and not reply.aborted)

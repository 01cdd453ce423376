"""Plain reads that the fast lane has admitted and that are no hits: the request of each, and its end.

AdmittedRead ──> direct misses (direct_misses): small objects that no tier knows, without a task
         └──else, or given up──> task ──> request service ──> gateway, with the admission ──> read_answered
"""

from collections.abc import Callable
from typing import Protocol

from forebay.core.heads import HeaderPairs
from forebay.core.request_record import RequestRecord, new_request_id
from forebay.metadata.direct_openings import DirectOpening
from forebay.protocol.exchange import EMPTY_BODY, Request
from forebay.server.fastpath.direct_misses import DirectMisses, MissConnection
from forebay.server.fastpath.direct_reply import DirectReply
from forebay.server.fastpath.fast_lane import FastLane
from forebay.server.fastpath.lane_answer import AdmittedRead
from forebay.server.request_service import RequestService


class ReadConnection(Protocol):
    """The connection of an admitted read."""

    peer: str
    secure: bool

    def make_reply(
        self, record: RequestRecord, is_last: Callable[[], bool], isolation: HeaderPairs, *, is_head: bool
    ) -> DirectReply:
        """The reply to a `read` that this connection began."""
        ...

    def read_answered(self, *, keep_alive: bool) -> None:
        """The request that this connection began has been answered; `keep_alive`: another request may follow."""


class AdmittedReads:
    """See the module. One for each worker, with the fast lane that admits the reads."""

    __slots__ = ("_requests", "fast_lane", "misses")

    def __init__(self, requests: RequestService, fast_lane: FastLane, misses: DirectMisses) -> None:
        self._requests = requests
        self.misses = misses
        self.fast_lane: FastLane | None = fast_lane
        """Answers hits, and admits reads, before aiohttp parses them; None: aiohttp parses every request."""

    def begin_draining(self) -> None:
        """Leaves every request from now on to aiohttp."""
        self.fast_lane = None  # the gateway's replies tell clients that the connection ends

    def close(self) -> None:
        """Ends the reads under way that take no task."""
        self.misses.close()

    def begin(self, read: AdmittedRead, connection: ReadConnection, miss: MissConnection | None = None) -> None:
        """Begins to answer a read; `connection.read_answered` follows. `miss`: the connection as the direct misses use
        it; None: the read takes a task."""
        requests = self._requests
        requests.count_in_flight(1)  # before the task runs, so that a drain waits for it
        if (
            miss is None
            or requests.is_draining
            or requests.is_full
            or not self.misses.begin(read, miss, self._answer_opened)
        ):
            requests.spawn(self._answer(read, connection), "read")

    def _answer_opened(self, read: AdmittedRead, connection: MissConnection, opening: DirectOpening) -> None:
        """Answers a read in a task that was begun without one; `opening` is under way, or has ended."""
        self._requests.spawn(self._answer(read, connection, opening), "read")

    async def _answer(
        self, read: AdmittedRead, connection: ReadConnection, opening: DirectOpening | None = None
    ) -> None:
        requests = self._requests
        record = RequestRecord(read.method, read.started, new_request_id(), peer=connection.peer)
        isolation = read.admission.policy.isolation_headers
        is_head = read.method == "HEAD"
        reply = connection.make_reply(record, lambda: requests.is_draining, isolation, is_head=is_head)
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
            await requests.answer_read(read.admission, request, reply, record)
        finally:
            if opening is not None:
                opening.abandon()
            requests.finish(record)
            connection.read_answered(keep_alive=reply.keep_alive and not reply.aborted)

"""The ground that the requests of all connections of one worker have in common: bounds, gateway, record.

    admitted by the fast lane ──> admitted_reads ──┐
    parsed by aiohttp ──────────> parsed_requests ─┤
    small PUT ──────────────────> small_uploads ───┼──> counted ──> too many? ──no──> gateway ──> record: metrics,
    batch of a read channel ────> batch_requests ──┘                  └─yes─> SlowDown ──┘        access log
    no valid request ──────────────────────────────────────────────────────> refuse ─────┘

A module above makes of what its connection has a `Request` and a reply, and ends the exchange. This one wakes a drain
when no request is left. It knows no connection.
"""

import asyncio
import logging
import time
from collections.abc import Coroutine
from typing import Any, Protocol

from forebay.core.errors import S3Error
from forebay.core.heads import HeaderPairs
from forebay.core.request_record import RequestRecord, new_request_id
from forebay.core.task_registry import TaskRegistry
from forebay.protocol.exchange import ObjectReply, Request
from forebay.request.admission import Admission, GatewayPolicy, KnownHead
from forebay.request.gateway import Gateway
from forebay.server.telemetry.access_log import AccessLog
from forebay.server.telemetry.metrics import Metrics

_log = logging.getLogger(__name__)


class AbortableReply(ObjectReply, Protocol):
    """A reply that knows whether it was aborted."""

    aborted: bool


class RequestService:
    """See the module."""

    __slots__ = ("_access_log", "_gateway", "_idle", "_max_in_flight", "_metrics", "_tasks", "in_flight", "is_draining")

    def __init__(self, gateway: Gateway, metrics: Metrics, access_log: AccessLog | None, max_in_flight: int) -> None:
        """`access_log`: None for none. `max_in_flight`: requests at once; more are refused."""
        self._gateway = gateway
        self._metrics = metrics
        self._access_log = access_log
        self._max_in_flight = max_in_flight
        self._tasks = TaskRegistry()
        self._idle = asyncio.Event()
        self._idle.set()
        self.in_flight = 0
        """Requests that are being answered, and bodies that a slow client has yet to accept."""
        self.is_draining = False
        """Whether each connection ends with its next response."""

    @property
    def policy(self) -> GatewayPolicy:
        """The policy that requests are admitted by now."""
        return self._gateway.policy

    @property
    def isolation_headers(self) -> HeaderPairs:
        """The headers of every response in open mode."""
        return self._gateway.policy.isolation_headers

    # From the arrival of a request to its record

    def count_in_flight(self, change: int) -> None:
        """Note that a request or a body is in flight (1), or no longer (-1)."""
        before, self.in_flight = self.in_flight, self.in_flight + change
        if not self.in_flight:
            self._idle.set()
        elif not before:
            self._idle.clear()

    def spawn(self, answer: Coroutine[Any, Any, None], name: str) -> None:
        """Answers a request, which is counted already, in a task that ends with the worker at the latest."""
        self._tasks.spawn(answer, name)

    @property
    def is_full(self) -> bool:
        """Whether so many requests are in flight that the latest is to be refused."""
        return self.in_flight > self._max_in_flight

    async def answer(
        self, request: Request, reply: AbortableReply, record: RequestRecord, known: KnownHead | None = None
    ) -> None:
        """Has the gateway answer a request, unless too many are in flight; the reply is aborted where that fails.
        `known`: see Gateway.handle."""
        try:
            if self.is_full:
                await self._refuse_excess(request, reply, record)
            else:
                await self._gateway.handle(request, reply, record, known)
        except BaseException:
            reply.abort()  # closing in order would wait for a client that takes nothing
            raise

    async def answer_read(
        self, admission: Admission, request: Request, reply: AbortableReply, record: RequestRecord
    ) -> None:
        """`answer` for a plain read that was admitted."""
        try:
            if self.is_full:
                await self._refuse_excess(request, reply, record)
            else:
                await self._gateway.read(admission, request, reply, record)
        except BaseException:
            reply.abort()
            raise

    async def _refuse_excess(self, request: Request, reply: ObjectReply, record: RequestRecord) -> None:
        error = S3Error("SlowDown", "Too many requests at once.")
        error.log_reason = "limits.requests are under way"
        await self._gateway.refuse(error, request, reply, record)

    async def refuse(self, error: S3Error, request: Request, reply: ObjectReply, record: RequestRecord) -> None:
        """Answers a request by an error."""
        await self._gateway.refuse(error, request, reply, record)

    def finish(self, record: RequestRecord) -> None:
        """Records a request that has been answered."""
        self.count_in_flight(-1)
        record.ended = time.monotonic()
        self._metrics.record_request(record)
        if self._access_log is not None:
            self._access_log.write(record)

    def record_refusal(self, error: S3Error, peer: str) -> str:
        """Records a refusal of input that never became a request. Returns the request id for its response."""
        now = time.monotonic()
        record = RequestRecord("", now, new_request_id(), peer, status=error.status, error=error.code, ended=now)
        self._metrics.record_refusal(error)
        if error.log_reason is not None:
            _log.info("%s: %s: %s", record.request_id, error.code, error.log_reason)
        if self._access_log is not None:
            self._access_log.write(record)
        return record.request_id

    # The end of the worker

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in flight."""
        return not self.in_flight

    async def until_idle(self) -> None:
        """Waits until nothing is in flight."""
        await self._idle.wait()

    async def close(self) -> None:
        """Cancels the tasks that answer requests."""
        await self._tasks.close()

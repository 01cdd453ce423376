"""Sent reads: reads of whole objects whose requests leave at once, and whose responses call back. No task waits.

    send ──> sent ──all of an object has come──> take_whole: the read is over
              └── anything else came, nothing in time, or a failure ──> a task takes it over (`adopt`), or `close`

A read that is taken over goes on as if its task had sent the request itself: with the request's turn, connection and
deadlines, and the response or failure that there is by then (forebay.origin.origin_client). So everything that is
not plain (refusals, retries, hedges, large objects, bodies that come in pieces) has one implementation.

Sent are only requests for which nothing has to be waited for: an idle connection, a free turn, a known key, a closed
breaker, an origin that speaks S3, in its own region.
"""

from typing import Final, Protocol

from forebay.core.byte_ranges import Span
from forebay.core.events import OriginAnswered
from forebay.core.fences import RequestTime
from forebay.core.heads import ObjectFacts
from forebay.core.names import ObjectName
from forebay.core.requester import BACKGROUND
from forebay.origin.adopted_read import AdoptedRead
from forebay.origin.breaker import BreakerState
from forebay.origin.http.http_connection import HttpConnection
from forebay.origin.http.large_body import LargeBody
from forebay.origin.http.response_head import ResponseHead
from forebay.origin.http.transport_errors import ConnectionFault
from forebay.origin.origin_client import OriginClient
from forebay.origin.origin_request import OriginRequest
from forebay.origin.reads.hedging import Hedging
from forebay.origin.reads.origin_read import OriginRead
from forebay.origin.reads.verdict import ValidResponse, judge
from forebay.origin.turns.request_turns import Turn
from forebay.protocol.response_templates import ResponseTemplates

CHECKSUM_MODE: Final = ("x-amz-checksum-mode", "ENABLED")
LATE_SHARE: Final = 0.5
"""The share of the time to a hedge after which a task takes the read over."""
_MAX_SPANS: Final = 64
"""First spans that are remembered: one for each size of blocks, mostly."""


class ReadReceiver(Protocol):
    """The receiver of a sent read."""

    def answered(self) -> None:
        """The response has come, or its failure, or it is late. Called once, unless the read is closed before."""

    def make_room(self, size: int, is_beside_demand: bool) -> memoryview | None:
        """Memory for all bytes of a large object, if all of it is to be waited for. Called for background reads."""
        ...


class SentReads:
    """Sends reads at one origin."""

    def __init__(self, client: OriginClient, hedging: Hedging | None = None) -> None:
        """`hedging`: of the same client; None: no read is hedged."""
        self._client, self._hedging = client, hedging
        self._pool, self._signer = client.pool, client.signer
        self._requests: dict[Span, tuple[OriginRead, OriginRequest]] = {}
        self._templates = ResponseTemplates()

    def send(
        self,
        name: ObjectName,
        span: Span,
        principal: str,
        requested: RequestTime,
        receiver: ReadReceiver,
    ) -> "SentRead | None":
        """Sends the GET of the first `span` of an object; None where something would have to be waited for.

        `requested`: the time, from before it is sent.
        """
        client, (bucket, key) = self._client, name
        dialect = client.dialect
        if dialect.speaks_oss or bucket in dialect.reserved_names or client.other_region(bucket) is not None:
            return None
        if client.breaker.state is not BreakerState.CLOSED:
            return None
        secret = self._signer.credentials.known()
        if secret is None:
            return None
        read, request = self._requests.get(span) or self._request(span)
        url = client.endpoint.url_of(bucket, key, ())
        turn = client.reads.try_acquire(principal)
        if turn is None:
            return None
        connection = self._pool.take_idle(url.server)
        if connection is None:
            turn.release()
            return None
        sent = SentRead(client, connection, turn, read, span, requested, receiver, self._templates)
        try:
            connection.write_request(self._signer.signed_head(request, url, secret), "GET")
        except (ConnectionFault, ValueError):  # the full way says what is wrong
            sent.close()
            return None
        sent.wait(self._hedging, waits_for_all=principal == BACKGROUND)
        return sent

    def _request(self, span: Span) -> tuple[OriginRead, OriginRequest]:
        """The read of a span: the part of its request that is the same for all objects."""
        read = OriginRead("GET", span)
        request = OriginRequest("GET", headers=(*read.headers(), CHECKSUM_MODE), operation="GetObject")
        if len(self._requests) < _MAX_SPANS:
            self._requests[span] = read, request
        return read, request


class SentRead:
    """One read, until it is taken, taken over or closed. A member of the sweep of late reads."""

    __slots__ = (
        "_client",
        "_connection",
        "_hedging",
        "_is_open",
        "_read",
        "_receiver",
        "_started",
        "_templates",
        "_turn",
        "_waits_since",
        "requested",
        "span",
    )

    def __init__(
        self,
        client: OriginClient,
        connection: HttpConnection,
        turn: Turn,
        read: OriginRead,
        span: Span,
        requested: RequestTime,
        receiver: ReadReceiver,
        templates: ResponseTemplates,
    ) -> None:
        self._client, self._connection, self._turn, self._read = client, connection, turn, read
        self.span, self.requested, self._templates = span, requested, templates
        self._receiver: ReadReceiver | None = receiver
        self._started = client.monotonic()
        self._hedging: Hedging | None = None
        self._waits_since = 0.0
        """The time of sending, by the clock of the sweep; moved on by time in which the loop did not run."""
        self._is_open = True

    def wait(self, hedging: Hedging | None, *, waits_for_all: bool) -> None:
        """Waits for the response. `waits_for_all`: also for a large body, where it is noticed that it is late: else it
        could come for ever."""
        large = None
        if hedging is not None:
            if waits_for_all:
                large = LargeBody(self._make_room, self._client.pool.body_turns)
            self._hedging, self._waits_since = hedging, hedging.timers.time()
            hedging.sweep.add(self)
        self._connection.call_when_ready(self._end_wait, self._client.limits.answer_timeout, self._templates, large)

    def _make_room(self, head: ResponseHead) -> memoryview | None:
        facts = self._facts(head)
        if self._receiver is None or facts is None or facts.size != head.body_length:
            return None
        return self._receiver.make_room(facts.size, self._client.pool.body_turns.is_beside_demand)

    def hurry(self) -> None:
        """Ends the wait for the whole body: a reader wants the first bytes as they come."""
        self._end_wait()

    def _end_wait(self) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            if self._hedging is not None:
                self._hedging.sweep.remove(self)
            receiver.answered()

    # The sweep's side

    def postpone(self, seconds: float) -> None:
        """See forebay.core.sweep.Examined."""
        self._waits_since += seconds

    def examine(self, now: float) -> None:
        """See forebay.core.sweep.Examined. Ends the wait of a read that a task may soon have to hedge."""
        if self._hedging is not None and now - self._waits_since >= self._hedging.after * LATE_SHARE:
            self._end_wait()

    @property
    def waited(self) -> float:
        """Seconds that count as waited for the response, where reads are hedged."""
        return self._hedging.timers.time() - self._waits_since if self._hedging is not None else 0.0

    # The response

    def whole(self) -> ObjectFacts | None:
        """Returns the facts in the response, if it is a whole object with at least one byte, all received; None:
        anything else."""
        head = self._connection.whole_head
        return self._facts(head) if head is not None else None

    def _facts(self, head: ResponseHead) -> ObjectFacts | None:
        """Returns the facts of an object in the head of a response with all its bytes."""
        if head.status != 206:
            return None
        if head.facts is not None:
            return head.facts if head.facts.size <= self.span.stop else None
        verdict = judge(self._read, 206, head.headers)
        if not isinstance(verdict, ValidResponse) or not verdict.span.length == verdict.facts.size == head.body_length:
            return None
        if head.is_persistent:
            self._templates.learn(head.reason, tuple(head.headers.items()), verdict.facts)
        return verdict.facts

    def take_whole(self) -> memoryview | None:
        """Takes the body of a response that is `whole`, with which the read is over."""
        whole, client = self._connection.buffered_body(), self._client
        self._is_open = False
        self._turn.release()
        client.breaker.succeeded()
        client.credential_check.succeeded(self._started)
        client.observe(OriginAnswered("GetObject", 206, client.monotonic() - self._started, client.name))
        return whole

    def adopt(self) -> AdoptedRead | None:
        """See forebay.origin.adopted_read.AdoptableRead."""
        if not self._is_open:
            return None
        self._leave()
        return AdoptedRead(self._connection, self._turn, self._started)

    def close(self) -> None:
        """Drops the request, unless it is over or was taken over."""
        if self._is_open:
            self._leave()
            self._connection.close()
            self._turn.release()

    def _leave(self) -> None:
        self._is_open, self._receiver = False, None
        if self._hedging is not None:
            self._hedging.sweep.remove(self)

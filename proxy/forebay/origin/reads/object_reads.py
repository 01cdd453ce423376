"""Typed reads of objects: send, judge the head of the response, repeat while that can help.

The meaning of a response is in verdict.py, the outcomes are in read_outcomes.py. A read is repeated on connection
failures and on 429, 500, 502, 503 and 504, until a byte of the body has been handed out; the caller gets the last
response. An open breaker ends it at once. Each attempt is hedged while its response is late (hedging.py): until the
head of a success, or the end of a refusal.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol, assert_never

from forebay.core.byte_ranges import Span
from forebay.core.errors import OriginBroken, OriginError, VersionChanged
from forebay.core.events import OriginFailed
from forebay.core.fences import RequestTime
from forebay.core.names import ObjectName
from forebay.origin.origin_client import OriginClient
from forebay.origin.origin_limits import RETRIED_STATUSES
from forebay.origin.origin_request import OriginRequest, RequestCredential
from forebay.origin.origin_response import OriginResponse
from forebay.origin.reads.hedging import Hedging
from forebay.origin.reads.origin_read import OriginRead
from forebay.origin.reads.read_attempts import ReadAttempts
from forebay.origin.reads.read_outcomes import (
    ErrorResponse,
    ObjectOpened,
    ReadBody,
    ReadOutcome,
    Revalidated,
    Uncacheable,
)
from forebay.origin.reads.sent_reads import CHECKSUM_MODE, ReadReceiver, SentRead, SentReads
from forebay.origin.reads.verdict import (
    EmptyObject,
    ErrorStatus,
    InvalidResponse,
    ValidResponse,
    Verdict,
    VersionMismatch,
    judge,
)

REFUSAL_LIMIT: Final = 64 * 1024
"""Bytes of a refusal's body that are passed on. Error documents have a few hundred."""


class ObjectReads(Protocol):
    """Opens reads: at one origin, or at the one that has the bucket (forebay.origin.origins)."""

    def open_read(
        self,
        name: ObjectName,
        read: OriginRead,
        *,
        credential: RequestCredential | None = None,
        is_hedge: bool = False,
        sent: SentRead | None = None,
    ) -> Coroutine[Any, Any, ReadOutcome]:
        """See OriginReads."""
        ...

    def send_read(
        self,
        name: ObjectName,
        span: Span,
        principal: str,
        requested: RequestTime,
        receiver: ReadReceiver,
    ) -> SentRead | None:
        """See OriginReads."""
        ...

    def admits_hedge(self, bucket: str) -> bool:
        """Whether a hedge of a read in `bucket` would be sent now."""
        ...

    def origin_of(self, bucket: str) -> str:
        """The name of the origin that has `bucket`."""
        ...


class OriginReads:
    """Reads through one OriginClient. Implements ObjectReads."""

    def __init__(
        self,
        client: OriginClient,
        hedging: Hedging | None = None,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """`hedging`: of the same client; None: no read is hedged."""
        self.client = client
        self.hedging = hedging
        self._sent_reads = SentReads(client, hedging)
        self.sleep = sleep
        self.jitter = jitter

    def open_read(
        self,
        name: ObjectName,
        read: OriginRead,
        *,
        credential: RequestCredential | None = None,
        is_hedge: bool = False,
        sent: SentRead | None = None,
    ) -> Coroutine[Any, Any, ReadOutcome]:
        """Opens a read of the object.

        `is_hedge`: beside a read under way, in one attempt, and only if it need not wait for a turn. `sent`: this read,
        under way; it is taken over.

        What a HEAD opens has ended. A span that reaches past the end of the object is clipped: see `ObjectOpened.span`.
        A range of an empty object opens with an empty span. OriginUnreachable, OriginBroken, VersionChanged (another
        version than the pinned one is current), Throttled.
        """
        if read.pin is not None and read.if_none_match is not None:
            raise ValueError("a read is pinned to a version, or excludes one")
        if read.span is not None and (read.method == "HEAD" or read.span.length <= 0):
            raise ValueError("a span has bytes, and a HEAD takes none")
        return _Read(self, name, read, credential, sent, is_hedge=is_hedge).open()

    def send_read(
        self,
        name: ObjectName,
        span: Span,
        principal: str,
        requested: RequestTime,
        receiver: ReadReceiver,
    ) -> SentRead | None:
        """Sends a read without a task: see SentReads.send."""
        return self._sent_reads.send(name, span, principal, requested, receiver)

    def admits_hedge(self, _bucket: str) -> bool:
        """Whether a hedge would be sent now."""
        return self.client.admits_hedge

    def origin_of(self, _bucket: str) -> str:
        """The client's name."""
        return self.client.name


class _Read:
    """One read through all its attempts."""

    __slots__ = ("_client", "_credential", "_is_hedge", "_name", "_read", "_reads", "_repeats", "_sent", "_started")

    def __init__(
        self,
        reads: OriginReads,
        name: ObjectName,
        read: OriginRead,
        credential: RequestCredential | None,
        sent: SentRead | None,
        *,
        is_hedge: bool,
    ) -> None:
        self._reads = reads
        self._client = reads.client
        self._name = name
        self._read = read
        self._credential = credential
        self._sent = sent
        self._is_hedge = is_hedge
        self._started = self._client.monotonic()
        self._repeats: ReadAttempts | None = None

    @property
    def _attempts(self) -> ReadAttempts:
        """Made when the first attempt has failed: few have."""
        if self._repeats is None:
            self._repeats = ReadAttempts(
                self._client,
                self._operation,
                started=self._started,
                sleep=self._reads.sleep,
                jitter=self._reads.jitter,
                is_single=self._is_hedge,
            )
        return self._repeats

    async def open(self) -> ReadOutcome:
        response, verdict, refusal = await self._send(self._read)
        if isinstance(verdict, ValidResponse) and self._read.method == "GET":
            return self._opened(response, verdict)
        match verdict:
            case ValidResponse(facts) if self._read.method == "HEAD" and facts.is_doubtfully_empty:
                response.close()
                return await self._confirm_empty()
            case ValidResponse():
                return self._opened(response, verdict)
            case ErrorStatus():
                return ErrorResponse(response.status, tuple(response.headers.items()), refusal)
            case Revalidated() | Uncacheable():
                response.close()
                return verdict
            case EmptyObject():
                response.close()
                return await self._open_empty()
            case VersionMismatch():
                response.close()
                raise VersionChanged("the pinned version is not the current one")
            case InvalidResponse():
                response.close()
                self._client.observe(OriginFailed(self._operation, verdict.reason, self._client.name))
                await self._attempts.pause_or_raise(OriginBroken(verdict.reason))
                return await self.open()
            case _:
                assert_never(verdict)

    async def _confirm_empty(self) -> ReadOutcome:
        """A HEAD can't show that an object has no bytes; a GET of the whole object does. No byte of it is opened."""
        self._read = self._read._replace(method="GET", span=None)
        outcome = await self.open()
        if not isinstance(outcome, ObjectOpened):
            return outcome
        outcome.body.close()
        return outcome._replace(span=Span(0, 0))

    async def _open_empty(self) -> ReadOutcome:
        """A refused range has no facts; a HEAD, under the same condition, has them. If the object has bytes after all,
        the origin refuses a range beyond them, which RFC 9110, 14.1.2 would have it clip: the range is clipped here."""
        read = self._read
        self._read = read._replace(method="HEAD", span=None)
        outcome = await self.open()
        if not isinstance(outcome, ObjectOpened) or not outcome.facts.size:
            return outcome
        outcome.body.close()
        if read.span is None or read.span.stop <= outcome.facts.size:
            return Uncacheable("416 to a range of an object that has bytes")
        self._read = read._replace(span=Span(0, outcome.facts.size))
        return await self.open()

    def _opened(self, response: OriginResponse, valid: ValidResponse) -> ObjectOpened:
        return ObjectOpened(
            valid.facts, valid.span, ReadBody(response, valid.span.length, lambda error: self._reopen(valid, error))
        )

    async def _reopen(self, first: ValidResponse, error: OriginError) -> OriginResponse:
        """Another response with the same bytes, after the body of the first broke before its first byte."""
        await self._attempts.pause_or_raise(error)
        read = self._read._replace(pin=first.facts.version, if_none_match=None)
        response, again, _ = await self._send(read)
        if isinstance(again, ValidResponse) and (again.span, again.facts.size) == (first.span, first.facts.size):
            return response
        response.close()
        if isinstance(again, VersionMismatch):
            raise VersionChanged("the object was replaced between two attempts")
        raise error

    async def _send(self, read: OriginRead) -> "_JudgedResponse":
        """The first response whose status is not repeated, or the last one."""
        request = OriginRequest(
            read.method,
            self._name.bucket,
            self._name.key,
            query=(("versionId", read.version_id),) if read.version_id is not None else (),
            # A pinned read is for bytes alone. Any other is for facts too, and checksums come only on request.
            headers=read.headers() if read.pin is not None else (*read.headers(), CHECKSUM_MODE),
            operation=self._operation,
            credential=self._credential,
            sent=self._sent,
        )
        waited = self._sent.waited if self._sent is not None else 0.0

        async def attempt(is_hedge: bool) -> _JudgedResponse:
            response = await self._client.send(request._replace(is_hedge=True, sent=None) if is_hedge else request)
            verdict, refusal = judge(read, response.status, response.headers), b""
            if isinstance(verdict, ErrorStatus):  # read to its end, which also keeps the connection
                with suppress(OriginError):
                    refusal = await response.read(REFUSAL_LIMIT)
            return _JudgedResponse(response, verdict, refusal)

        hedging = None if self._is_hedge else self._reads.hedging
        while True:
            try:
                judged = await (attempt(self._is_hedge) if hedging is None else hedging.send(attempt, waited))
            except OriginError as error:
                await self._attempts.pause_or_raise(error)
                continue
            response = judged.response
            if response.status not in RETRIED_STATUSES or not await self._attempts.is_repeated(response):
                return judged

    @property
    def _operation(self) -> str:
        return "GetObject" if self._read.method == "GET" else "HeadObject"


class _JudgedResponse(NamedTuple):
    """A response and its verdict. Implements forebay.origin.reads.hedging.Hedgeable."""

    response: OriginResponse
    verdict: Verdict
    refusal: bytes
    """The body of a refusal, which has been read; empty when it was larger than a refusal is, or broke off."""

    @property
    def is_usable(self) -> bool:
        return self.response.status not in RETRIED_STATUSES and not isinstance(self.verdict, InvalidResponse)

    def close(self) -> None:
        self.response.close()

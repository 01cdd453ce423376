"""Typed reads of objects, for whoever fetches: ask, judge the head of the answer, ask again while that can help.

What a read means is in verdict.py, how it ends is in read_outcomes.py. A read is asked again on connection failures
and on
429, 500, 502, 503 and 504, until a byte of the body has been handed out; what the origin says last is what the caller
gets. An open breaker ends it at once.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final, Literal, assert_never

from forebay.core.byte_ranges import Span
from forebay.core.errors import OriginBroken, OriginError, VersionChanged
from forebay.core.events import OriginFailed, OriginRetried
from forebay.core.names import ObjectName, Version
from forebay.origin.breaker import BreakerState
from forebay.origin.origin_client import OriginClient
from forebay.origin.origin_limits import RETRIED_STATUSES
from forebay.origin.origin_request import OriginRequest
from forebay.origin.origin_response import OriginResponse
from forebay.origin.read_outcomes import ErrorResponse, ObjectOpened, ReadBody, ReadOutcome, Revalidated, Uncacheable
from forebay.origin.verdict import (
    EmptyObject,
    ErrorStatus,
    InvalidResponse,
    OriginRead,
    ValidResponse,
    VersionMismatch,
    judge,
)
from forebay.protocol.signatures.signing_key import SecretKey

_CHECKSUM_MODE: Final = ("x-amz-checksum-mode", "ENABLED")
REFUSAL_LIMIT: Final = 64 * 1024
"""Bytes of a refusal's body that are passed on. Error documents have a few hundred."""


class OriginReads:
    """Reads through one OriginClient. Holds nothing of its own."""

    def __init__(
        self,
        client: OriginClient,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.client = client
        self.sleep = sleep
        self.jitter = jitter

    async def open_read(
        self,
        name: ObjectName,
        span: Span | None,
        *,
        method: Literal["GET", "HEAD"] = "GET",
        pin: Version | None = None,
        if_none_match: Version | None = None,
        version_id: str | None = None,
        credential: SecretKey | None = None,
    ) -> ReadOutcome:
        """Asks for `span` of the object, or for all of it.

        `pin`: only if this is the current version, else VersionChanged; its ETag is compared byte for byte, and names
        the bytes by itself, so its version id is not looked at. `unless`: only if this is not the current version,
        else Unchanged. A HEAD takes no span; what it opens has no bytes. `version_id`: the version to read, None for
        the current one; the caller looks at the facts for whether the origin heeded it.

        A span that reaches past the end of the object is clipped: look at `Opened.span`. A range of an empty object
        opens with an empty span. OriginUnreachable, OriginBroken, VersionChanged, Throttled.
        """
        if pin is not None and if_none_match is not None:
            raise ValueError("a read is pinned to a version, or asks for any but one")
        if span is not None and (method == "HEAD" or span.length <= 0):
            raise ValueError("a span has bytes, and a HEAD takes none")
        return await _Read(self, name, OriginRead(method, span, pin, if_none_match, version_id), credential).open()


class _Read:
    """One read through all its attempts."""

    __slots__ = ("_attempt", "_client", "_credential", "_name", "_reads", "_request", "_started")

    def __init__(self, reads: OriginReads, name: ObjectName, read: OriginRead, credential: SecretKey | None) -> None:
        self._reads = reads
        self._client = reads.client
        self._name = name
        self._request = read
        self._credential = credential
        self._attempt = 1
        self._started = self._client.monotonic()

    async def open(self) -> ReadOutcome:
        answer = await self._send(self._request)
        verdict = judge(self._request, answer.status, answer.headers)
        match verdict:
            case ValidResponse():
                return self._opened(answer, verdict)
            case ErrorStatus():
                return await _error_response(answer)
            case Revalidated() | Uncacheable():
                answer.close()
                return verdict
            case EmptyObject():
                answer.close()
                return await self._open_empty()
            case VersionMismatch():
                answer.close()
                raise VersionChanged("the pinned version is not the current one")
            case InvalidResponse():
                answer.close()
                self._client.observe(OriginFailed(self._operation, verdict.reason))
                raise OriginBroken(verdict.reason)
            case _:
                assert_never(verdict)

    async def _open_empty(self) -> ReadOutcome:
        """A refused range has no facts; a HEAD has them. It asks as the range did: pinned, or unless. If the object has
        bytes, the origin refuses what goes beyond them (RFC 9110 14.1.2 would have it clip): asked again, clipped."""
        asked = self._request
        self._request = replace(asked, method="HEAD", span=None)
        outcome = await self.open()
        if not isinstance(outcome, ObjectOpened) or not outcome.facts.size:
            return outcome
        outcome.body.close()
        if asked.span is None or asked.span.stop <= outcome.facts.size:
            return Uncacheable("416 to a range of an object that has bytes")
        self._request = replace(asked, span=Span(0, outcome.facts.size))
        return await self.open()

    def _opened(self, answer: OriginResponse, valid: ValidResponse) -> ObjectOpened:
        async def ask_again(error: OriginError) -> OriginResponse:
            return await self._reopen(valid, error)

        return ObjectOpened(valid.facts, valid.span, ReadBody(answer, valid.span.length, ask_again))

    async def _reopen(self, first: ValidResponse, error: OriginError) -> OriginResponse:
        """Another answer with the same bytes to come, after the body of the first broke before it had given any."""
        await self._pause_or_raise(error)
        asked = replace(self._request, pin=first.facts.version, if_none_match=None)
        answer = await self._send(asked)
        again = judge(asked, answer.status, answer.headers)
        if isinstance(again, ValidResponse) and (again.span, again.facts.size) == (first.span, first.facts.size):
            return answer
        answer.close()
        if isinstance(again, VersionMismatch):
            raise VersionChanged("the object was replaced between two attempts")
        raise error

    async def _send(self, read: OriginRead) -> OriginResponse:
        """The head of an answer that is worth judging: the first one that isn't to be asked again."""
        request = OriginRequest(
            read.method,
            self._name.bucket,
            self._name.key,
            query=(("versionId", read.version_id),) if read.version_id is not None else (),
            # A pinned read is for bytes alone. Any other tells the facts, and checksums come only when asked for.
            headers=read.headers() if read.pin is not None else (*read.headers(), _CHECKSUM_MODE),
            operation=self._operation,
            credential=self._credential,
        )
        while True:
            try:
                answer = await self._client.send(request)
            except OriginError as error:
                await self._pause_or_raise(error)
                continue
            if answer.status in RETRIED_STATUSES and (delay := self._delay()) is not None:
                with suppress(OriginError):
                    await answer.read(REFUSAL_LIMIT)  # keeps the connection
                await self._pause(delay)
                continue
            return answer

    @property
    def _operation(self) -> str:
        return "GetObject" if self._request.method == "GET" else "HeadObject"

    def _delay(self) -> float | None:
        elapsed = self._client.monotonic() - self._started
        return self._client.limits.delay_before(self._attempt + 1, elapsed, self._reads.jitter())

    async def _pause_or_raise(self, error: OriginError) -> None:
        delay = self._delay() if self._client.breaker.state is BreakerState.CLOSED else None
        if delay is None:
            raise error
        await self._pause(delay)

    async def _pause(self, delay: float) -> None:
        self._attempt += 1
        self._client.observe(OriginRetried(self._operation))
        await self._reads.sleep(delay)


async def _error_response(answer: OriginResponse) -> ErrorResponse:
    headers = tuple(answer.headers.items())
    try:
        body = await answer.read(REFUSAL_LIMIT)
    except OriginError:
        body = b""
    return ErrorResponse(answer.status, headers, body)

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
from forebay.origin.backoff import RETRIED_STATUSES, delay_before
from forebay.origin.breaker import BreakerState
from forebay.origin.origin_client import OriginClient
from forebay.origin.origin_request import OriginRequest
from forebay.origin.origin_response import OriginAnswer
from forebay.origin.read_body import ReadBody
from forebay.origin.read_outcomes import Foreign, Opened, Outcome, Refused, Unchanged
from forebay.origin.verdict import Asked, Changed, NoBytes, Refusal, Senseless, Sound, judge
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
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.client = client
        self.sleep = sleep
        self.chance = chance

    async def open_read(
        self,
        name: ObjectName,
        span: Span | None,
        *,
        method: Literal["GET", "HEAD"] = "GET",
        pin: Version | None = None,
        unless: Version | None = None,
        version_id: str | None = None,
        credential: SecretKey | None = None,
    ) -> Outcome:
        """Asks for `span` of the object, or for all of it.

        `pin`: only if this is the current version, else VersionChanged; its ETag is compared byte for byte, and names
        the bytes by itself, so its version id is not looked at. `unless`: only if this is not the current version,
        else Unchanged. A HEAD takes no span; what it opens has no bytes. `version_id`: the version to read, None for
        the current one; the caller looks at the facts for whether the origin heeded it.

        A span that reaches past the end of the object is clipped: look at `Opened.span`. A range of an empty object
        opens with an empty span. OriginUnreachable, OriginBroken, VersionChanged, Throttled.
        """
        if pin is not None and unless is not None:
            raise ValueError("a read is pinned to a version, or asks for any but one")
        if span is not None and (method == "HEAD" or span.length <= 0):
            raise ValueError("a span has bytes, and a HEAD takes none")
        return await _Read(self, name, Asked(method, span, pin, unless, version_id), credential).open()


class _Read:
    """One read through all its attempts."""

    __slots__ = ("_asked", "_attempt", "_began", "_client", "_credential", "_name", "_reads")

    def __init__(self, reads: OriginReads, name: ObjectName, asked: Asked, credential: SecretKey | None) -> None:
        self._reads = reads
        self._client = reads.client
        self._name = name
        self._asked = asked
        self._credential = credential
        self._attempt = 1
        self._began = self._client.monotonic()

    async def open(self) -> Outcome:
        answer = await self._answer(self._asked)
        verdict = judge(self._asked, answer.status, answer.headers)
        match verdict:
            case Sound():
                return self._opened(answer, verdict)
            case Refusal():
                return await _refused(answer)
            case Unchanged() | Foreign():
                answer.close()
                return verdict
            case NoBytes():
                answer.close()
                return await self._open_empty()
            case Changed():
                answer.close()
                raise VersionChanged("the pinned version is not the current one")
            case Senseless():
                answer.close()
                self._client.observe(OriginFailed(self._operation, verdict.reason))
                raise OriginBroken(verdict.reason)
            case _:
                assert_never(verdict)

    async def _open_empty(self) -> Outcome:
        """A refused range has no facts; a HEAD has them. It asks as the range did: pinned, or unless. If the object has
        bytes, the origin refuses what goes beyond them (RFC 9110 14.1.2 would have it clip): asked again, clipped."""
        asked = self._asked
        self._asked = replace(asked, method="HEAD", span=None)
        outcome = await self.open()
        if not isinstance(outcome, Opened) or not outcome.facts.size:
            return outcome
        outcome.body.close()
        if asked.span is None or asked.span.stop <= outcome.facts.size:
            return Foreign("416 to a range of an object that has bytes")
        self._asked = replace(asked, span=Span(0, outcome.facts.size))
        return await self.open()

    def _opened(self, answer: OriginAnswer, sound: Sound) -> Opened:
        async def ask_again(error: OriginError) -> OriginAnswer:
            return await self._resumed(sound, error)

        return Opened(sound.facts, sound.span, ReadBody(answer, sound.span.length, ask_again))

    async def _resumed(self, sound: Sound, error: OriginError) -> OriginAnswer:
        """Another answer with the same bytes to come, after the body of the first broke before it had given any."""
        await self._pause_or(error)
        asked = replace(self._asked, pin=sound.facts.version, unless=None)
        answer = await self._answer(asked)
        again = judge(asked, answer.status, answer.headers)
        if isinstance(again, Sound) and (again.span, again.facts.size) == (sound.span, sound.facts.size):
            return answer
        answer.close()
        if isinstance(again, Changed):
            raise VersionChanged("the object was replaced between two attempts")
        raise error

    async def _answer(self, asked: Asked) -> OriginAnswer:
        """The head of an answer that is worth judging: the first one that isn't to be asked again."""
        request = OriginRequest(
            asked.method,
            self._name.bucket,
            self._name.key,
            query=(("versionId", asked.version_id),) if asked.version_id is not None else (),
            # A pinned read is for bytes alone. Any other tells the facts, and checksums come only when asked for.
            headers=asked.headers() if asked.pin is not None else (*asked.headers(), _CHECKSUM_MODE),
            operation=self._operation,
            credential=self._credential,
        )
        while True:
            try:
                answer = await self._client.send(request)
            except OriginError as error:
                await self._pause_or(error)
                continue
            if answer.status in RETRIED_STATUSES and (delay := self._delay()) is not None:
                with suppress(OriginError):
                    await answer.read(REFUSAL_LIMIT)  # keeps the connection
                await self._pause(delay)
                continue
            return answer

    @property
    def _operation(self) -> str:
        return "GetObject" if self._asked.method == "GET" else "HeadObject"

    def _delay(self) -> float | None:
        elapsed = self._client.monotonic() - self._began
        return delay_before(self._attempt + 1, self._client.limits, elapsed, self._reads.chance())

    async def _pause_or(self, error: OriginError) -> None:
        delay = self._delay() if self._client.breaker.state is BreakerState.CLOSED else None
        if delay is None:
            raise error
        await self._pause(delay)

    async def _pause(self, delay: float) -> None:
        self._attempt += 1
        self._client.observe(OriginRetried(self._operation))
        await self._reads.sleep(delay)


async def _refused(answer: OriginAnswer) -> Refused:
    headers = tuple(answer.headers.items())
    try:
        body = await answer.read(REFUSAL_LIMIT)
    except OriginError:
        body = b""
    return Refused(answer.status, headers, body)

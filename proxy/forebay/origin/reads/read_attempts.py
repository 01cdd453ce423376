"""Read attempts: decides whether one read is sent again, and waits until it is time.

A read is repeated on connection failures and on 429, 500, 502, 503 and 504, with backoff, as long as nothing of its
response was handed out (forebay.origin.origin_limits). An open breaker ends it at once, and so does a credential that
the origin refuses. Only requests without side effects and without a body are reads.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress

from forebay.core.errors import OriginCredentialFault, OriginError
from forebay.core.events import OriginRetried
from forebay.origin.origin_client import OriginClient
from forebay.origin.origin_limits import RETRIED_STATUSES
from forebay.origin.origin_response import OriginResponse

_DRAINED = 64 * 1024
"""Bytes of a refusal that are read, to keep its connection. Error documents have a few hundred."""


class ReadAttempts:
    """One read, from its first attempt on."""

    __slots__ = ("_attempt", "_client", "_is_single", "_jitter", "_operation", "_sleep", "_started")

    def __init__(
        self,
        client: OriginClient,
        operation: str,
        *,
        started: float | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
        is_single: bool = False,
    ) -> None:
        """`started`: on the monotonic clock of the client; None: now. `is_single`: whether the first is the last."""
        self._client, self._operation, self._sleep, self._jitter = client, operation, sleep, jitter
        self._is_single = is_single
        self._attempt = 1
        self._started = client.monotonic() if started is None else started

    async def is_repeated(self, response: OriginResponse) -> bool:
        """Whether the read is to be sent again in place of this response, which then has ended. Returns when it is
        time."""
        delay = self._delay() if response.status in RETRIED_STATUSES else None
        if delay is None:
            return False
        with suppress(OriginError):
            await response.read(_DRAINED)
        await self._pause(delay)
        return True

    async def pause_or_raise(self, error: OriginError) -> None:
        """Returns when it is time to send the read again; raises `error` if it is not sent again."""
        is_hopeless = isinstance(error, OriginCredentialFault) or not self._client.breaker.admit()
        delay = None if is_hopeless else self._delay()
        if delay is None:
            raise error
        await self._pause(delay)

    def _delay(self) -> float | None:
        if self._is_single:
            return None
        elapsed = self._client.monotonic() - self._started
        return self._client.limits.delay_before(self._attempt + 1, elapsed, self._jitter())

    async def _pause(self, delay: float) -> None:
        self._attempt += 1
        self._client.observe(OriginRetried(self._operation, self._client.name))
        await self._sleep(delay)

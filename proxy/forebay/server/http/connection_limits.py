"""The limits of a client connection, and the timers that enforce them.

Every time limit of the listener runs on `Timers`: the event loop in production, a clock that is set by hand in tests.

    idle connection         idle_timeout      before the first request and between two    aiohttp_connection
    head                    header_timeout    from its first byte to its last             aiohttp_connection
    body of a request       stall             without a byte from the client            aiohttp_exchange, ArrivingBody
    response                stall             without a byte accepted by the client       aiohttp_exchange, StallTimer
    rest of a refused body  30 s              in all, 5 s without a byte                  linger
    drain                   (an argument)     for the requests in flight                  listener
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol

from aiohttp.client_exceptions import ClientPayloadError
from aiohttp.web_protocol import RequestPayloadError

from forebay.core.fair_semaphore import SemaphoreShare
from forebay.core.timers import Timer, Timers

_LINGERING: Final = 30.0
"""Seconds for which the rest of a refused body is read and dropped at most, as nginx's lingering_time."""
_LINGERING_PAUSE: Final = 5.0
"""Seconds for which no byte of it may come, as nginx's lingering_timeout."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of connections and their requests. Times are seconds, sizes bytes."""

    header_size: int
    connections: int
    """Open at once; one more is answered SlowDown and closed."""
    requests: int
    """The most requests in flight at once; one more is answered SlowDown."""
    header_timeout: float
    idle_timeout: float
    stall: float = 60.0
    """Seconds in which a client may neither send a byte of a body nor accept one."""


class Timeout:
    """`asyncio.timeout` on `timers`: raises TimeoutError out of its block after `seconds`."""

    __slots__ = ("_scope", "_seconds", "_timer", "_timers")

    def __init__(self, timers: Timers, seconds: float) -> None:
        self._timers, self._seconds = timers, seconds

    async def __aenter__(self) -> None:
        self._scope = asyncio.timeout(None)
        await self._scope.__aenter__()
        self._timer = self._timers.call_later(self._seconds, self._expire)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        await self._scope.__aexit__(kind, error, trace)

    def _expire(self) -> None:
        self._scope.reschedule(0)  # a moment that has passed on every loop


class StallTimer:
    """Watches bytes that were written to a connection and not accepted by its client yet. They count against the share
    of unsent bytes meanwhile. A client that accepts none of them for `stall` seconds is given up: closing the
    connection in order would wait for it forever. One body at a time.
    """

    __slots__ = ("_acquired", "_progress", "_stall", "_stalled", "_timer", "_timers")

    def __init__(self, timers: Timers, stall: float, progress: Callable[[], int], stalled: Callable[[], None]) -> None:
        """`progress`: a number that changes whenever the client accepts bytes. `stalled`: called when it stops."""
        self._timers, self._stall = timers, stall
        self._progress, self._stalled = progress, stalled
        self._acquired: tuple[int, SemaphoreShare] | None = None
        self._timer: Timer | None = None

    def start(self, size: int, unsent: SemaphoreShare) -> None:
        """Watches `size` bytes that were written and did not leave at once."""
        self._watch(self._progress())
        if unsent.try_acquire(size):
            self._acquired = size, unsent

    def stop(self) -> None:
        """Stops watching: all bytes left, or never will. Does nothing if there are none."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._acquired is not None:
            (size, unsent), self._acquired = self._acquired, None
            unsent.release(size)

    def close(self) -> None:
        """Stops for good, and drops the callbacks: they refer to the connection, which would be a cycle."""
        self.stop()
        self._progress, self._stalled = int, lambda: None

    def _watch(self, before: int) -> None:
        def check() -> None:
            now = self._progress()
            if now != before:
                self._watch(now)
            else:
                self._stalled()

        self._timer = self._timers.call_later(self._stall, check)


class UnreadBody(Protocol):
    """The rest of a request's body."""

    def is_eof(self) -> bool:
        """Whether it has ended."""
        ...

    async def readany(self) -> bytes:
        """Waits for more of it."""
        ...


async def linger(content: UnreadBody, timers: Timers) -> None:
    """Reads and drops the rest of a request's body, well-formed or not, as far as the limits allow.

        request, part of its body ──> refused ──> the rest, dropped ──> closed
                                         └──> the client reads this once it has sent everything, as many do

    Bytes that arrive after a close are answered by a reset, which takes from the client what it has not read yet: the
    refusal (RFC 9112 section 9.6). So the connection stays open while bytes come, for `_LINGERING` seconds at most, and
    ends when none came for `_LINGERING_PAUSE`. (aiohttp waits for one time, whether bytes come or not.) A client that
    sends nothing more holds its connection for no longer than an idle one may, and no more memory than one read.

    https://nginx.org/en/docs/http/ngx_http_core_module.html#lingering_close
    """
    if content.is_eof():
        return  # nearly always
    try:
        async with Timeout(timers, _LINGERING):
            while not content.is_eof():
                async with Timeout(timers, _LINGERING_PAUSE):
                    await content.readany()
    except (TimeoutError, RequestPayloadError, ClientPayloadError, ConnectionError):
        return

"""Interim responses: keep a client from giving up while its request waits, for writes or the origin.

    waits ──INTERVAL──> 100 Continue ──INTERVAL──> 100 Continue ... ──> its turn: it is sent
      └ the client has left: it is not sent                       └──> MOST of them, and INTERVAL more: 503 SlowDown
    sent ───INTERVAL──> 100 Continue ──> the origin's answer, or 503 as it was silent for origin.answer_timeout; once
                                         if the request has had some before, as it had to wait
    a read waits ──READ_INTERVAL──> 100 Continue, READ_MOST of them

A client waits for a byte for a minute or less (botocore: 60 s, version 2 of the OSS SDKs: 20 s), and begins its wait
anew with an interim response, which every client has to accept, asked for or not (RFC 9110 section 15.2). Not more than
a few: net/http of Go below 1.24 takes five. So a client of OSS is told more often, and waits for less. A read waits for
30 seconds at most (forebay.storage.journal.pending_objects), and perhaps twice: for its name, then for what was written
under it meanwhile.

s3cmd takes the first head for the answer, whatever its status. It is the one S3 client without a User-Agent, so a
request without one gets no interim response.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from forebay.core.errors import WritesPending
from forebay.protocol.exchange import Request

INTERVAL: Final = 40.0
"""Seconds between two interim responses."""
OSS_INTERVAL: Final = 15.0
"""The same, of a request in OSS's protocol."""
MOST: Final = 4
"""Interim responses to one request."""
READ_INTERVAL: Final = 10.0
"""Seconds between two interim responses to a read."""
READ_MOST: Final = 2
"""Interim responses to one wait of a read."""


class InterimResponses:
    """The interim responses to one request, from `begin` until `end`. Both may be called more than once."""

    __slots__ = ("_interval", "_left", "_most", "_request", "_sent", "_timer")

    def __init__(
        self, request: Request, most: int = MOST, interval: float = INTERVAL, left: Callable[[], None] | None = None
    ) -> None:
        """`interval`: seconds between two of them. `left`: called in place of one if the client has left."""
        self._request = request
        self._interval = interval
        self._most = most
        self._left = left
        self._sent = 0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """The client waits from now on."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._interval, self._go_on)

    def end(self) -> None:
        """Ends the interim responses, before the final one."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _go_on(self) -> None:
        self._timer = None
        if self._request.has_left():
            if self._left is not None:
                self._left()
        elif self._sent < self._most:
            self._sent += 1
            if self._request.oss_request is not None or "User-Agent" in self._request.headers:
                self._request.send_interim()
            self.begin()


def interims_of(request: Request, *, has_waited: bool) -> InterimResponses:
    """Returns the interim responses while the origin works on a write. `has_waited`: it has had some in an
    InterimWait."""
    return InterimResponses(request, 1 if has_waited else MOST, _interval(request, INTERVAL))


@contextmanager
def read_interims(request: Request, interval: float = READ_INTERVAL) -> Generator[None]:
    """A context in which a read waits for pending writes. `interval`: seconds between two interim responses."""
    interims = InterimResponses(request, READ_MOST, interval)
    interims.begin()
    try:
        yield
    finally:
        interims.end()


def _interval(request: Request, longest: float) -> float:
    return longest if request.oss_request is None else min(longest, OSS_INTERVAL)


@dataclass(frozen=True, slots=True)
class InterimWait:
    """A bounded wait of a request, with interim responses to its client."""

    interval: float = INTERVAL
    most: int = MOST

    async def wait(self, waiting: Awaitable[None], request: Request) -> None:
        """Waits for `waiting`. Raises WritesPending when that takes too long, ConnectionError when the client has
        left."""
        loop, interval = asyncio.get_running_loop(), _interval(request, self.interval)
        try:
            async with asyncio.timeout(interval * (self.most + 1)) as limit:

                def left() -> None:
                    limit.reschedule(loop.time())

                interims = InterimResponses(request, self.most, interval, left)
                interims.begin()
                try:
                    await waiting
                finally:
                    interims.end()
        except TimeoutError:
            if not request.has_left():
                raise WritesPending("writes that it has to come after are not at the origin yet") from None
        if request.has_left():
            raise ConnectionAbortedError("the client has left before the turn of its write came")

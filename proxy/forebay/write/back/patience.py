"""Patience: how long a write waits for what was acknowledged before it, and how its client is kept from giving up.

    waits ──INTERVAL──> 100 Continue ──INTERVAL──> 100 Continue ... ──> its turn: it is sent
      └ the client has left: it is not sent                       └──> MOST of them, and INTERVAL more: 503 SlowDown

A client waits for a byte for a minute or less (botocore: 60 s), and begins its wait anew with an interim response,
which every client has to accept, asked for or not (RFC 9110 section 15.2). Not more than a few: net/http of Go below
1.24 takes five.
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Final

from forebay.core.errors import Throttled
from forebay.protocol.exchange import Request

INTERVAL: Final = 40.0
"""Seconds between two interim responses."""
MOST: Final = 4
"""Interim responses to one request."""


@dataclass(frozen=True, slots=True)
class Patience:
    """With a request that waits."""

    interval: float = INTERVAL
    most: int = MOST

    async def wait(self, waiting: Awaitable[None], request: Request) -> None:
        """Waits for what a request has to come after. Raises Throttled when that takes too long, ConnectionError when
        its client has left."""
        loop, sent = asyncio.get_running_loop(), 0
        try:
            async with asyncio.timeout(self.interval * (self.most + 1)) as limit:

                def go_on() -> None:
                    nonlocal sent
                    if request.has_left():
                        limit.reschedule(loop.time())
                    elif sent < self.most:
                        sent += 1
                        request.send_interim()
                        timers.append(loop.call_later(self.interval, go_on))

                timers = [loop.call_later(self.interval, go_on)]
                try:
                    await waiting
                finally:
                    timers[-1].cancel()
        except TimeoutError:
            if not request.has_left():
                raise Throttled("writes that it has to come after are not at the origin yet") from None
        if request.has_left():
            raise ConnectionAbortedError("the client has left before the turn of its write came")

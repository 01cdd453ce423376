"""A bound on requests in flight, first come first served, with a bound on the wait.

It is not the connection pool: the pool would make a request wait without a limit, and would let reads and writes wait
for each other.
"""

import asyncio

from forebay.words.errors import Throttled


class Gate:
    """At most `width` holders at once. `enter` and, exactly once for each success, `leave`."""

    __slots__ = ("_name", "_semaphore", "_wait", "_width", "held", "waiting")

    def __init__(self, name: str, width: int, wait: float) -> None:
        self._name = name
        self._width = width
        self._wait = wait
        self._semaphore = asyncio.Semaphore(width)
        self.held = 0
        self.waiting = 0

    def __repr__(self) -> str:
        return f"<Gate {self._name}: {self.held} of {self._width}, {self.waiting} waiting>"

    async def enter(self) -> None:
        """Throttled when no place came free in time."""
        if not self._semaphore.locked():
            await self._semaphore.acquire()  # does not suspend
            self.held += 1
            return
        self.waiting += 1
        try:
            async with asyncio.timeout(self._wait):
                await self._semaphore.acquire()
        except TimeoutError:
            raise Throttled(f"origin {self._name}: {self._width} in flight") from None
        finally:
            self.waiting -= 1
        self.held += 1

    def leave(self) -> None:
        self.held -= 1
        self._semaphore.release()

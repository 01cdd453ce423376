"""A bound on requests in flight, first come first served, with a bound on the wait.

It is not the connection pool: the pool would make a request wait without a limit, and would let reads and writes wait
for each other.
"""

import asyncio
from collections import deque

from forebay.core.errors import Throttled


class Gate:
    """At most `width` holders at once. `enter` and, exactly once for each success, `leave`."""

    __slots__ = ("_name", "_queue", "_wait", "_width", "held")

    def __init__(self, name: str, width: int, wait: float) -> None:
        self._name = name
        self._width = width
        self._wait = wait
        self._queue: deque[asyncio.Future[None]] = deque()
        self.held = 0

    def __repr__(self) -> str:
        return f"<Gate {self._name}: {self.held} of {self._width}, {self.waiting} waiting>"

    @property
    def waiting(self) -> int:
        return len(self._queue)

    async def enter(self) -> None:
        """Throttled when no place came free in time."""
        if self.held < self._width and not self._queue:
            self.held += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            async with asyncio.timeout(self._wait):
                await turn
        except BaseException as interruption:
            if turn.done() and not turn.cancelled():
                self.leave()  # a place came free in the same turn of the loop in which the wait was given up
            elif turn in self._queue:
                self._queue.remove(turn)
            if isinstance(interruption, TimeoutError):
                raise Throttled(f"origin {self._name}: {self._width} in flight") from None
            raise

    def leave(self) -> None:
        self.held -= 1
        while self._queue and self.held < self._width:
            turn = self._queue.popleft()
            if not turn.done():
                self.held += 1
                turn.set_result(None)

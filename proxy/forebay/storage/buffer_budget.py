"""The bytes that flights may hold in buffers: taken before a buffer is made, given back when it is let go.

Not an allocator: it counts, and makes those wait who come when nothing is left. Each event loop has its own.

Invariants:
- `in_use` is the sum of what was taken and not yet given; it exceeds the capacity only by one request that is larger
  than the whole capacity and was admitted alone, or after the capacity was lowered;
- waiters are served in the order they came; nobody overtakes one that waits, so that a large request is not starved;
- a waiter that is cancelled or times out has taken nothing.
"""

import asyncio
from collections import deque

from forebay.core.errors import Throttled


class Budget:
    """A number of bytes, shared fairly. Used from one event loop only."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._in_use = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def __repr__(self) -> str:
        return f"<Budget {self._in_use} of {self._capacity} bytes, {len(self._waiting)} waiting>"

    @property
    def capacity(self) -> int:
        return self._capacity

    @property
    def in_use(self) -> int:
        return self._in_use

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return len(self._waiting)

    def try_take(self, size: int) -> bool:
        """Take `size` bytes if they are free and nobody waits for them."""
        if self._waiting or not self._fits(size):
            return False
        self._in_use += size
        return True

    async def take(self, size: int, deadline_seconds: float) -> None:
        """Take `size` bytes, after those who came before. Throttled when `deadline_seconds` have passed."""
        if self.try_take(size):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        ticket = (size, turn)
        self._waiting.append(ticket)
        try:
            async with asyncio.timeout(deadline_seconds):
                await turn
        except BaseException as interruption:
            if turn.done() and not turn.cancelled():
                # The bytes were granted in the same turn of the loop in which the wait was given up.
                self.give(size)
            else:
                self._waiting.remove(ticket)
                self._serve()  # those behind a large request may fit, now that it has left
            if isinstance(interruption, TimeoutError):
                raise Throttled(f"no {size} bytes of buffer within {deadline_seconds} s") from None
            raise

    def give(self, size: int) -> None:
        """Give back what was taken."""
        if size > self._in_use:
            raise ValueError(f"{size} bytes given back, but only {self._in_use} are in use")
        self._in_use -= size
        self._serve()

    def resize(self, capacity: int) -> None:
        """Change the capacity. What is in use beyond a smaller one is waited for, not taken away."""
        self._capacity = capacity
        self._serve()

    def _fits(self, size: int) -> bool:
        return self._in_use + size <= self._capacity or self._in_use == 0

    def _serve(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size, turn = self._waiting.popleft()
            if not turn.done():
                self._in_use += size
                turn.set_result(None)
            else:
                # Cancelled, but its coroutine has not run yet: it looks for its ticket, so leave it one.
                self._waiting.appendleft((size, turn))
                break

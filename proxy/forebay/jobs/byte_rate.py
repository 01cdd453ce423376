"""A bound on bytes a second, for what need not be fast: a token bucket.

    acquire(size) ──> waits until the bucket is not in debt, then `size` is drawn from it
    refund(size)  ──> bytes that were not fetched after all

The bucket holds what one second brings, so at most `rate * seconds + rate` bytes, and one piece, come in any time.
"""

import asyncio

from forebay.core.timers import Timers


class ByteRate:
    """`rate`: bytes a second. Waiters are served in the order of their arrival."""

    def __init__(self, rate: int, timers: Timers) -> None:
        self.rate = rate
        self._timers = timers
        self._tokens = float(rate)
        self._filled_at = timers.time()
        self._line = asyncio.Lock()

    async def acquire(self, size: int) -> None:
        """Draws `size` bytes, after earlier callers, once there are tokens."""
        async with self._line:
            while (missing := self._missing()) > 0:
                await pause(self._timers, missing / self.rate)
            self._tokens -= size

    def refund(self, size: int) -> None:
        """Gives back bytes that were drawn and not fetched."""
        self._tokens += size

    def _missing(self) -> float:
        now = self._timers.time()
        self._tokens = min(float(self.rate), self._tokens + (now - self._filled_at) * self.rate)
        self._filled_at = now
        return -self._tokens


async def pause(timers: Timers, seconds: float) -> None:
    """Waits `seconds` by `timers`."""
    due: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    timer = timers.call_later(seconds, lambda: None if due.done() else due.set_result(None))
    try:
        await due
    finally:
        timer.cancel()

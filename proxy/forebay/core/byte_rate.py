"""A token bucket: bounds the bytes a second of background work.

    acquire(size) ──> waits until the bucket is not in debt, then `size` is drawn from it
    refund(size) ──> bytes that did not pass after all: the next waiter goes on at once

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
        self._wake = asyncio.Event()
        """Set when the first in the line is to look at the tokens again."""

    async def acquire(self, size: int) -> None:
        """Draws `size` bytes, after earlier callers, once there are tokens."""
        async with self._line:
            while (missing := self._missing()) > 0:
                self._wake.clear()
                timer = self._timers.call_later(missing / self.rate, self._wake.set)
                try:
                    await self._wake.wait()
                finally:
                    timer.cancel()
            self._tokens -= size

    def refund(self, size: int) -> None:
        """Gives back bytes that were drawn and did not pass."""
        self._tokens += size
        self._wake.set()

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

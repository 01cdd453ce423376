"""The deadline of a response: a timeout for each wait, by one timer that is seldom set.

Its timer is not cancelled when bytes have arrived in time, and not moved when the deadline is. When it is due early it
is set anew, so a connection in use sets one timer now and then, and not one for each request.
"""

import asyncio
from collections.abc import Callable


class ResponseDeadline:
    """One deadline at a time. For one event loop."""

    __slots__ = ("_at", "_loop", "_on_due", "_seconds", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, on_due: Callable[[], None]) -> None:
        """`on_due`: called when the deadline has passed, also if there is no waiter any more."""
        self._loop, self._on_due = loop, on_due
        self._at = self._seconds = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def set(self, seconds: float) -> None:
        """Sets the deadline, in place of the one before."""
        self._seconds, self._at = seconds, self._loop.time() + seconds
        if self._timer is None or self._at < self._timer.when():
            self.close()
            self._timer = self._loop.call_at(self._at, self._check_due)

    def renew(self) -> None:
        """Puts the deadline off: it is as many seconds away as when it was set."""
        self._at = self._loop.time() + self._seconds

    def close(self) -> None:
        """Cancels the timer."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def end(self) -> None:
        """Cancels the timer for good, and forgets the callback."""
        self.close()
        self._on_due = _ignore_deadline

    def _check_due(self) -> None:
        self._timer = None
        if self._loop.time() < self._at:
            self._timer = self._loop.call_at(self._at, self._check_due)
        else:
            self._on_due()


def _ignore_deadline() -> None:
    """The callback of an ended deadline."""

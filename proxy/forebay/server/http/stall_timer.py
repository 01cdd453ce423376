"""What the fast lane wrote to a connection and the client has not taken yet.

Its bytes are taken from the budget meanwhile, and it is given up when the client takes none of them for as long as it
may: closing would wait for it for ever.
"""

import asyncio
from collections.abc import Callable

from forebay.core.fair_semaphore import FairSemaphore


class StallTimer:
    """Of one connection. One body at a time."""

    __slots__ = ("_budgeted", "_loop", "_progress", "_stall", "_stalled", "_timer")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        stall: float,
        progress: Callable[[], int],
        broken: Callable[[], None],
    ) -> None:
        """`progress`: a number that changes whenever the client has taken something. `broken`: told when it has not for
        `stall` seconds."""
        self._loop, self._stall = loop, stall
        self._progress, self._stalled = progress, broken
        self._budgeted: tuple[int, FairSemaphore] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self, length: int, budget: FairSemaphore) -> None:
        """So many bytes were written that did not all leave at once."""
        self._watch(self._progress())
        if budget.try_acquire(length):
            self._budgeted = length, budget

    def stop(self) -> None:
        """The client has taken all of it, or never will. May be said when there was nothing."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._budgeted is not None:
            (size, budget), self._budgeted = self._budgeted, None
            budget.release(size)

    def close(self) -> None:
        """`end`, for good: whom it would have told is let go of, lest they be a cycle."""
        self.stop()
        self._progress, self._stalled = int, lambda: None

    def _watch(self, before: int) -> None:
        def look() -> None:
            now = self._progress()
            if now != before:
                self._watch(now)
            else:
                self._stalled()

        self._timer = self._loop.call_later(self._stall, look)

"""A clock of the listener that tests set by hand: no test waits for a real timeout.

timers = ManualTimers()
async with FakeOrigin() as origin, Rig(..., timers=timers) as rig:
    await connection.send(half_a_head)
    await timers.armed(within=0.1)
    timers.advance(0.1)
"""

import asyncio
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

QUIET: Final = 200
"""Turns of the loop: more than any request of a test takes between two pieces of its answer."""


class Clock:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class ManualTimer:
    """A callback that is due at `when`."""

    def __init__(self, when: float, callback: Callable[[], object]) -> None:
        self.when = when
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        """Drop the callback, as an event loop does: it may refer to what is to be freed."""
        self.callback = None


class ManualTimers:
    """Implements forebay.core.timers.Timers."""

    def __init__(self) -> None:
        self._now = 0.0
        self._timers: list[ManualTimer] = []
        self._armed = asyncio.Event()

    def time(self) -> float:
        """Seconds since this was made, as far as a test has moved it."""
        return self._now

    def call_later(self, delay: float, callback: Callable[[], object], /) -> ManualTimer:
        """Have `callback` called by the `advance` that passes `delay` seconds from now."""
        timer = ManualTimer(self._now + delay, callback)
        self._timers.append(timer)
        self._armed.set()
        return timer

    def advance(self, seconds: float) -> None:
        """Move the clock, and call what becomes due, each at its time."""
        end = self._now + seconds
        while due := self._pending(end):
            timer = min(due, key=lambda each: each.when)
            self._now = max(self._now, timer.when)
            callback, timer.callback = timer.callback, None
            assert callback is not None
            callback()
        self._now = end

    def stall(self, seconds: float) -> None:
        """Move the clock as if the loop had been held up: what becomes due is called at the end."""
        self._now += seconds
        self.advance(0.0)

    @property
    def pending(self) -> int:
        """How many timers are due at some time."""
        return len(self._pending(math.inf))

    async def armed(self, within: float, count: int = 1) -> None:
        """Wait until at least `count` timers are due `within` seconds from now."""
        while len(self._pending(self._now + within)) < count:
            self._armed.clear()
            await self._armed.wait()

    @contextmanager
    def flowing(self, seconds: float, progress: Callable[[], object] = object) -> Iterator[None]:
        """Within its block, `seconds` pass in each turn of the loop.

        `progress`: they pass only when it has returned the same for QUIET turns, so that only time can change anything.
        """
        loop, flowing = asyncio.get_running_loop(), True
        before, quiet = progress(), 0

        def flow() -> None:
            nonlocal before, quiet
            if not flowing:
                return
            loop.call_soon(flow)
            now = progress()
            quiet = quiet + 1 if now == before else 0
            before = now
            if progress is object or quiet > QUIET:
                quiet = 0
                self.advance(seconds)

        loop.call_soon(flow)
        try:
            yield
        finally:
            flowing = False

    def _pending(self, until: float) -> list[ManualTimer]:
        self._timers = [timer for timer in self._timers if timer.callback is not None]
        return [timer for timer in self._timers if timer.when <= until + 1e-9]

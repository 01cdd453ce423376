"""Bodies that leave together: the kernel sends them once all requests that came at the same time have been answered.

    request ─ answered ┐
    request ─ answered ┼─> sent, sent, sent
    request ─ answered ┘

Answering is Python, sending is the kernel's, and either runs faster for running again right after itself. And a client
that waits is woken once: it finds the next answer there when it has taken the first.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Final

TURN_SECONDS: Final = 0.001
"""Seconds of sending after which sockets are looked at again."""


class SendQueue:
    """Of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float] = perf_counter) -> None:
        self._loop, self._clock = loop, clock
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_scheduled = False

    def add(self, send: Callable[[], None]) -> None:
        """Have `depart` called, which sends something, soon and in its turn."""
        self._waiting.append(send)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        until = self._clock() + TURN_SECONDS
        try:
            for _ in range(len(self._waiting)):
                self._waiting.popleft()()
                if self._clock() >= until:
                    break
        finally:
            self._is_scheduled = bool(self._waiting)
            if self._is_scheduled:
                self._loop.call_soon(self._run)

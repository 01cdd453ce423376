"""Yields of the core: between two steps of its work a helper thread lets the event loop run, if the loop is due.

    step ──> sched_yield ──> step ──> sched_yield took LONG: no yield for PAUSE times as long ──> step ──> step

A woken thread preempts another one at once only if it has had less of the core than its share (EEVDF). A loop that has
just answered a client has had more, so the next client's request waits for the scheduler's tick, up to 4 ms, whatever
its slice is (forebay.server.scheduling_slice). A yield asks the scheduler between two ticks.

A thread that yields gives up the rest of its slice, also to other programs of its control group. Where these keep the
core busy a yield takes milliseconds, and the helper would starve: so it stops yielding for a while.

https://man7.org/linux/man-pages/man2/sched_yield.2.html
"""

import os
import time
from collections.abc import Callable
from typing import Final

LONG: Final = 0.001
"""Seconds. One turn of the loop takes less."""
PAUSE: Final = 10
"""The pause of yields after a long one, as a multiple of it: the helper loses a tenth of its speed at most."""


class CoreYield:
    """The yields of some threads. Called between two steps of their work."""

    def __init__(
        self, sched_yield: Callable[[], None] = os.sched_yield, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._sched_yield = sched_yield
        self._clock = clock
        self._paused_until = 0.0

    def __call__(self) -> None:
        """Yields the core, unless a yield took long lately."""
        began = self._clock()
        if began < self._paused_until:
            return
        self._sched_yield()
        ended = self._clock()
        if ended - began > LONG:
            self._paused_until = ended + PAUSE * (ended - began)

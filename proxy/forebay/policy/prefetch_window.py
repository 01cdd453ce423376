"""The prefetch window: how many runs ahead of its reader a body is fetched.

The ordered body (forebay.fetch.ordered_body) plans runs (forebay.policy.coalescing) within the window, and reports for
each block whether its reader waited for it.
"""

from typing import Final

FIRST_RUNS: Final = 2
"""The run being read and the next one: enough to never stop between runs when the origin is fast."""
READY_TO_SHRINK: Final = 32
"""Consecutive blocks that arrived in time, for each run of the window, before it shrinks.

Several windows' worth: a reader that waited for one slow run finds all later blocks in time, and a window that shrinks
too far leaves the link idle.
"""


class PrefetchWindow:
    """The window of one reader: few runs for a short or slow read, up to `parallel` for one faster than the origin.

    Call `reader_waited` or `reader_ready` for each block sent. The window of a reader that never waits never grows, so
    no bytes pile up for a slow reader.
    """

    __slots__ = ("_parallel", "_ready", "_runs")

    def __init__(self, parallel: int) -> None:
        if parallel < 1:
            raise ValueError("at least one run must be allowed")
        self._parallel = parallel
        self._runs = min(FIRST_RUNS, parallel)
        self._ready = 0

    def __repr__(self) -> str:
        return f"Window({self._runs} of {self._parallel})"

    @property
    def runs(self) -> int:
        """Runs that may be in flight or buffered for the reader."""
        return self._runs

    def reader_waited(self) -> None:
        """The reader had to wait for a block."""
        self._ready = 0
        self._runs = min(self._runs * 2, self._parallel)

    def reader_ready(self) -> None:
        """The block arrived before the reader needed it."""
        self._ready += 1
        if self._ready >= READY_TO_SHRINK * self._runs:
            self._ready = 0
            self._runs = max(self._runs // 2, min(FIRST_RUNS, self._parallel))

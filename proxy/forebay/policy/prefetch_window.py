"""How far ahead of its reader a body is fetched, in runs.

The ordered body (forebay.fetch.ordered_body) cuts what lies ahead into runs (forebay.policy.coalescing) up to here, and
tells of each block whether its reader had to wait for it.
"""

from typing import Final

FIRST_RUNS: Final = 2
"""The one that is read and the one behind it: enough to never stop between runs when the origin is fast."""
READY_TO_SHRINK: Final = 32
"""Blocks in a row that were there in time, for each run of the window, before it shrinks: several windows' worth, as a
reader that waited for a slow run finds all behind it ready, and one shrink too far lets the link run empty."""


class PrefetchWindow:
    """How many runs ahead of a reader are fetched: a few for a short or slow read, `parallel` for one that outruns us.

    Call one of the two methods for each block that is sent. A reader that never waits never makes it grow, so bytes for
    a slow reader don't pile up.
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
        """How many runs may be in flight or waiting for the reader."""
        return self._runs

    def reader_waited(self) -> None:
        """The reader wanted a block that had not come from the origin yet."""
        self._ready = 0
        self._runs = min(self._runs * 2, self._parallel)

    def reader_ready(self) -> None:
        """The block was there before the reader wanted it."""
        self._ready += 1
        if self._ready >= READY_TO_SHRINK * self._runs:
            self._ready = 0
            self._runs = max(self._runs // 2, min(FIRST_RUNS, self._parallel))

"""The prefetch window: how far ahead of its reader a body is fetched.

The ordered body (forebay.fetch.ordered_body) plans runs (forebay.policy.coalescing) within the window. It reports for
each block whether its reader waited for it, and how many bytes the client accepted in which time.

    runs     few at first; more while the reader waits for the origin
    bytes    what the client accepts in HORIZON seconds at its pace, once it has made the reader wait
"""

from typing import Final

from forebay.core.byte_ranges import Span

FIRST_RUNS: Final = 2
"""The run being read and the next one: enough to never stop between runs when the origin is fast."""
READY_TO_SHRINK: Final = 32
"""Consecutive blocks that arrived in time, for each run of the window, before it shrinks.

Several windows' worth: a reader that waited for one slow run finds all later blocks in time, and a window that shrinks
too far leaves the link idle.
"""
HORIZON: Final = 2.0
"""Seconds of the client's pace that are fetched ahead: many round trips, even to another continent."""
PACE_BYTES: Final = 8 << 20
"""Bytes over which the pace is measured; earlier ones count half, a quarter and so on. More than a socket buffers: the
bytes that fill a slow client's socket at the start soon count for nothing."""
MIN_READ: Final = 64 << 10
"""Bytes of a block that are read from the SSD at once for the slowest client: one slice, which has a checksum."""
_READ_SHARE: Final = 8
"""A slow client's next bytes are read from the SSD for one in so many parts of HORIZON."""


class PrefetchWindow:
    """The window of one reader: few runs for a short or slow read, up to `parallel` for one faster than the origin.

    Call `reader_waited` or `reader_ready` for each block sent. The window of a reader that never waits never grows, so
    no bytes pile up for a slow reader.
    """

    __slots__ = ("_accepted", "_parallel", "_ready", "_runs", "_seconds")

    def __init__(self, parallel: int) -> None:
        if parallel < 1:
            raise ValueError("at least one run must be allowed")
        self._parallel = parallel
        self._runs = min(FIRST_RUNS, parallel)
        self._ready = 0
        self._accepted = 0
        self._seconds = 0.0

    def __repr__(self) -> str:
        return f"Window({self._runs} of {self._parallel})"

    @property
    def runs(self) -> int:
        """Runs that may be in flight or buffered for the reader."""
        return self._runs

    @property
    def reach(self) -> int | None:
        """Bytes that the client accepts in HORIZON seconds; None while it has never made the reader wait."""
        return int(self._accepted * HORIZON / self._seconds) if self._seconds else None

    def next_read(self, within: Span) -> Span:
        """Returns the bytes of a block that are read from the SSD at once, of those `within` it that are next: the rest
        would have to be kept while the client accepts nothing, or be read again."""
        reach = self.reach
        most = within.length if reach is None else max(MIN_READ, reach // _READ_SHARE)
        if within.length <= most:
            return within
        return Span(within.start, (within.start + most) // MIN_READ * MIN_READ)

    def client_accepted(self, size: int, seconds: float) -> None:
        """The client has accepted `size` bytes, and made the reader wait for `seconds`."""
        if seconds or self._seconds:
            self._accepted += size
            self._seconds += seconds
            if self._accepted > PACE_BYTES:
                self._accepted //= 2
                self._seconds /= 2

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

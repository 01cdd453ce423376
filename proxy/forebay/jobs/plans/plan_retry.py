"""The plan's retry: how long it fetches nothing after a fetch that may succeed later, and when an entry is left out.

    fetch ──unavailable now────> entry put back ──pause──> fetched again, in its order
                                                              └── ATTEMPTS, while others come ──> left out

While the origin answers 503, or not at all, a plan would otherwise run through all of its entries and leave them out;
its reader would have none of them when the origin is back. A plan without a readable entry, such as one with the keys
of another bucket, stops after MOST_LEFT_OUT entries, until its reader reads some. Pure: time is an argument, in
seconds.
"""

from typing import Final

FIRST_PAUSE: Final = 0.05
"""It doubles with each pause in a row, as nothing comes."""
LONGEST_PAUSE: Final = 5.0
ATTEMPTS: Final = 3
"""At an entry, while others come."""
MOST_ATTEMPTS: Final = 20
"""At an entry, whatever comes: a plan that waits behind this one is to begin some time."""
MOST_LEFT_OUT: Final = 512
"""Entries in a row. Each has cost the origin a request, and none counts against the horizon."""


class PlanRetry:
    """The pauses of one plan."""

    def __init__(self) -> None:
        self.until = 0.0
        """Nothing is fetched before."""
        self.left_out = 0
        """Entries since one was read, fetched, or found to be cached."""
        self._in_row = 0

    def succeeded(self) -> None:
        """A fetch has brought something."""
        self._in_row = self.left_out = 0

    @property
    def is_suspended(self) -> bool:
        """Whether nothing is fetched until an entry is read."""
        return self.left_out >= MOST_LEFT_OUT

    def failed(self, now: float, attempts: int) -> bool:
        """A fetch of an entry has failed for now, the `attempts`th time. Returns whether it is to be fetched again."""
        if now >= self.until:  # else it began before the pause, as others did that failed with it
            self.until = now + min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self._in_row, 16))
            self._in_row += 1
        return attempts < (ATTEMPTS if self._in_row <= 1 else MOST_ATTEMPTS)

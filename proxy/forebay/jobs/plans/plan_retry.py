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
"""Seconds of the first pause. Each pause in a row is twice as long as the one before."""
LONGEST_PAUSE: Final = 5.0
ATTEMPTS: Final = 3
"""The attempts at an entry while fetches of other entries succeed."""
MOST_ATTEMPTS: Final = 20
"""The attempts at an entry while all fetches fail. Bounded, so that a queued plan can begin some time."""
MOST_LEFT_OUT: Final = 512
"""Entries in a row. Each has cost the origin a request, and none counts against the horizon."""


class PlanRetry:
    """The pauses of one plan."""

    def __init__(self) -> None:
        self.until = 0.0
        """The end of the current pause."""
        self.left_out = 0
        """The number of entries left out since one was read, fetched, or found in the cache."""
        self._in_row = 0

    def succeeded(self) -> None:
        """Notes that a fetch has succeeded."""
        self._in_row = self.left_out = 0

    @property
    def is_suspended(self) -> bool:
        """Whether nothing is fetched until an entry is read."""
        return self.left_out >= MOST_LEFT_OUT

    def failed(self, now: float, attempts: int) -> bool:
        """Notes the `attempts`th failed fetch of an entry. Returns whether to fetch the entry again."""
        if now >= self.until:  # else it began before the pause, as others did that failed with it
            self.until = now + min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self._in_row, 16))
            self._in_row += 1
        return attempts < (ATTEMPTS if self._in_row <= 1 else MOST_ATTEMPTS)

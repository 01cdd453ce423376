"""The clock watch: notices that the system's clock was set back, so that nothing becomes fresh a second time.

    wall clock  ──> 13:00, heads are validated ──> set back to 12:00 ─────────────> 13:00 again
                    fresh                          stale: a time in the future      fresh, though an hour old?

A head that was validated before the step is stale until the clock shows that time again (policy.freshness). Shortly
before, everything validated until then counts as unproven (core.fences), so that each object is revalidated once.

The step is found by comparison with the monotonic clock, which nobody can set. The watch has no state but times.
"""

from collections.abc import Callable
from typing import Final

from forebay.core.fences import InDoubtWrites
from forebay.policy.freshness import CLOCK_SKEW

MARGIN: Final = 2.0
"""Seconds beside two intervals between looks, by which everything becomes unproven too early."""


class ClockWatch:
    """The watch of one worker. `clock`: seconds since the epoch; `interval`: seconds between two calls of `look`."""

    def __init__(
        self,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        in_doubt_writes: InDoubtWrites,
        forget_permissions: Callable[[], None],
        interval: float,
    ) -> None:
        """`forget_permissions`: drops the origin's permissions, which last for a time as well."""
        self._clock = clock
        self._monotonic = monotonic
        self._in_doubt_writes = in_doubt_writes
        self._forget_permissions = forget_permissions
        self._margin = MARGIN + 2 * interval
        self._seen = clock(), monotonic()
        self._reached: float | None = None
        """The latest time that the clock has shown before it was set back; None: it will not be shown again."""

    def check(self) -> float:
        """Compares the clocks. Returns the seconds by which the clock was set back since the last check; 0.0: it
        was not."""
        (wall, monotonic), self._seen = self._seen, (self._clock(), self._monotonic())
        expected = wall + self._seen[1] - monotonic
        step = expected - self._seen[0]
        if step > CLOCK_SKEW:
            self._reached = max(expected, self._reached or 0.0)
            self._forget_permissions()
        if self._reached is not None and self._seen[0] >= self._reached - self._margin:
            self._in_doubt_writes.merge(None, self._reached)
            self._reached = None
        return step if step > CLOCK_SKEW else 0.0

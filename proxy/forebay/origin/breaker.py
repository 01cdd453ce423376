"""The breaker: while the origin can't be reached, requests fail at once instead of after a timeout.

Pure: `now` is any clock that only goes forward, in seconds. Requests raise the suspicion, and a probe is the judge:

    closed ──threshold failures in a row──▶ suspected ──probe failed──▶ open
      ▲                                         │                         │
      └──────── any response, to a request or to a probe ─────────────────┘

A suspected origin is still asked; an open breaker refuses. Probes are Forebay's own requests
(forebay.origin.reachability), so no client's request serves as a probe, and failing requests alone do not open the
breaker: an object whose reads break their connections proves nothing about others.

Failures are counted in a row, without a response in between, by cause. A connection that could not be made counts each
time. One that was made and broke, or on which no response came in time, counts once for its target: a thousand failures
of one object are one.

A response of any status is a success. A probe that began before the latest response and fails after it means nothing.
"""

from collections.abc import Callable, Hashable
from enum import Enum
from typing import NamedTuple


class BreakerState(Enum):
    """See the module."""

    CLOSED = "closed"
    SUSPECTED = "suspected"
    OPEN = "open"


class Outage(NamedTuple):
    """The origin can't be reached, as far as the latest probe knows."""

    cause: str
    """The failure of the latest probe."""
    since: float
    """The time at which the first probe of the outage failed, on the breaker's clock."""


def _ignore() -> None:
    return


class Breaker:
    """`admit` before each request; then at most one of `succeeded` and `failed`."""

    __slots__ = ("_failures", "_outage", "_state", "_targets", "_threshold", "answers", "on_outage_ended")

    def __init__(self, threshold: int) -> None:
        self._threshold = threshold
        self._state = BreakerState.CLOSED
        self._failures = 0
        self._targets: set[Hashable] = set()
        self._outage: Outage | None = None
        self.answers = 0
        """The number of responses so far."""
        self.on_outage_ended: Callable[[], None] = _ignore
        """Called with the first response after an outage."""

    @property
    def state(self) -> BreakerState:
        """The current state."""
        return self._state

    @property
    def outage(self) -> Outage | None:
        """The outage under way, also while the breaker is closed: the probe has failed, and no requests have."""
        return self._outage

    @property
    def reachable(self) -> bool | None:
        """Whether the origin can be reached; None before the first news of it."""
        if self._outage is not None:
            return False
        return True if self.answers else None

    def __repr__(self) -> str:
        return f"<Breaker {self._state.value}, failures in a row: {self._failures + len(self._targets)}>"

    def admit(self) -> bool:
        """Whether a request may be sent."""
        return self._state is not BreakerState.OPEN

    def succeeded(self) -> None:
        """The origin responded. A response to a request from before the breaker opened closes it as well."""
        self.answers += 1
        if self._failures or self._targets or self._outage is not None:
            had_outage = self._outage is not None
            self._state, self._failures, self._outage = BreakerState.CLOSED, 0, None
            self._targets.clear()
            if had_outage:
                self.on_outage_ended()

    def failed(self, target: Hashable | None = None) -> None:
        """A request got no response. `target`: of a request whose connection was made; None: none was made."""
        if target is None:
            self._failures += 1
        elif len(self._targets) < self._threshold:
            self._targets.add(target)
        if self._state is BreakerState.CLOSED and self._failures + len(self._targets) >= self._threshold:
            self._state = BreakerState.SUSPECTED if self._outage is None else BreakerState.OPEN

    def probe_failed(self, cause: str, answers: int, now: float) -> None:
        """A probe got no response. `answers`: their number when it began."""
        if answers != self.answers:
            return
        self._outage = Outage(cause, now if self._outage is None else self._outage.since)
        if self._state is BreakerState.SUSPECTED:
            self._state = BreakerState.OPEN

"""The breaker: while the origin can't be reached, requests fail at once instead of after a timeout.

Pure: `now` is any clock that only goes forward, in seconds. Only a failure to reach the origin counts; a response of
any status is a success.

    closed ──failed × threshold──▶ open ──cooldown over, next admit──▶ probing
      ▲                             ▲                                     │
      └───────── succeeded ─────────┼── failed / cooldown over ───────────┤
      └───────────────────────────────────────── succeeded ───────────────┘

A probe that never reports (its client left) is withdrawn, or forgotten after one more cooldown: the breaker can't stay
open because a client went away.
"""

from enum import Enum


class BreakerState(Enum):
    """See the module."""

    CLOSED = "closed"
    OPEN = "open"
    PROBING = "probing"


class Breaker:
    """Counts failures in a row. `admit` before each request; then exactly one of `succeeded`, `failed` and
    `withdrawn`."""

    __slots__ = ("_cooldown", "_failures", "_since", "_state", "_threshold")

    def __init__(self, threshold: int, cooldown: float) -> None:
        self._threshold = threshold
        self._cooldown = cooldown
        self._state = BreakerState.CLOSED
        self._failures = 0
        self._since = 0.0

    @property
    def state(self) -> BreakerState:
        """The current state."""
        return self._state

    def __repr__(self) -> str:
        return f"<Breaker {self._state.value}, failures in a row: {self._failures}>"

    def admit(self, now: float) -> bool:
        """Whether a request may be sent. Of an open breaker, True makes that request the probe."""
        if self._state is BreakerState.CLOSED:
            return True
        if now - self._since < self._cooldown:
            return False
        self._state, self._since = BreakerState.PROBING, now
        return True

    def succeeded(self) -> None:
        """The origin responded. A request from before the breaker opened closes it as well."""
        self._state, self._failures = BreakerState.CLOSED, 0

    def failed(self, now: float) -> None:
        """The origin could not be reached."""
        self._failures += 1
        if self._state is BreakerState.PROBING or self._failures >= self._threshold:
            self._state, self._since = BreakerState.OPEN, now

    def withdrawn(self, now: float) -> None:
        """The request ended without news of the origin. If it was the probe, the next request may be."""
        if self._state is BreakerState.PROBING:
            self._state, self._since = BreakerState.OPEN, now - self._cooldown

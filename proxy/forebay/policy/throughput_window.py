"""The throughput window: whether a response is slower than the floor, over windows of time that follow one another.

    |<-- patience -->|<-- patience -->|<---- twice that, once it was slow and replaced ---->|
     enough bytes      too few: slow

A window begins anew when no reader waits for the bytes: a response that is as slow as its readers is not slow.
"""

from typing import Final

PATIENCE: Final = 5.0
"""Seconds of the first window."""


class ThroughputWindow:
    """The bytes of one fetch against a floor. Pure: times are seconds on any clock that only goes forward."""

    __slots__ = ("_began", "_rate", "_received", "patience")

    def __init__(self, rate: float) -> None:
        """`rate`: the floor, in bytes a second; 0 for none."""
        self._rate = rate
        self._began = 0.0
        self._received = 0
        self.patience = PATIENCE
        """Seconds of a window."""

    def restart(self, now: float, received: int) -> None:
        """Begins a window. `received`: bytes so far, of the whole fetch."""
        self._began, self._received = now, received

    def postpone(self, seconds: float) -> None:
        """Leaves so many seconds out of the window."""
        self._began += seconds

    def double(self) -> None:
        """Makes the windows from now on twice as long: another response may be no faster."""
        self.patience *= 2

    def is_slow(self, now: float, received: int, patience: float) -> bool:
        """Whether a window of at least `patience` seconds has passed with fewer bytes than the floor. When one has
        passed, the next begins."""
        elapsed = now - self._began
        if elapsed < patience:
            return False
        is_slow = received - self._received < self._rate * elapsed
        self.restart(now, received)
        return is_slow

"""The room in the journal: whether it takes so many bytes more.

The size is measured now and then; what was accepted since is added to it, what was removed subtracted. Near its end the
journal takes nothing: what is accepted already (parts of uploads, records of deletions) must still fit.
"""

from collections.abc import Callable
from typing import Final

ROOM_SECONDS: Final = 1.0
"""How old the measured size may be."""
_HIGH_WATER: Final = 0.9


class JournalRoom:
    """`size`: bytes of the journal at most. `used()`: bytes of its files. `monotonic`: seconds from any origin."""

    def __init__(self, size: int, used: Callable[[], int], monotonic: Callable[[], float]) -> None:
        self.size = size
        self._used = used
        self._monotonic = monotonic
        self._measured_at = float("-inf")
        self._filled = 0
        self.is_ending = False
        """Whether the process was told to end: nothing new is accepted."""
        self.is_closed = False
        """Whether it waits for what was accepted, and can't begin anything at the origin any more."""

    def has_room(self, size: int) -> bool:
        """Returns whether the journal takes `size` bytes more; if so, they count from now on."""
        self._measure()
        fits = not self.is_ending and self._filled + size <= self.size * _HIGH_WATER
        self._filled += size if fits else 0
        return fits

    def can_hold(self, size: int) -> bool:
        """Returns whether the journal would take `size` bytes if it were empty."""
        return size <= self.size * _HIGH_WATER

    def release(self, size: int) -> None:
        """Files of `size` bytes were removed."""
        self._filled = max(0, self._filled - size)

    @property
    def is_full(self) -> bool:
        """Whether the journal is above its high water."""
        self._measure()
        return self._filled >= self.size * _HIGH_WATER

    def _measure(self) -> None:
        now = self._monotonic()
        if now - self._measured_at > ROOM_SECONDS:
            self._measured_at, self._filled = now, self._used()

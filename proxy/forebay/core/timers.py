"""Timers: a monotonic clock with callbacks. The event loop in production, in tests a clock that is set by hand."""

from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A callback that is due later."""

    def cancel(self) -> None:
        """Keeps the callback from running."""


class Timers(Protocol):
    """A monotonic clock, in seconds, with callbacks. Every event loop is one."""

    def time(self) -> float:
        """Seconds since some moment in the past."""
        ...

    def call_later(self, delay: float, callback: Callable[[], object], /) -> Timer:
        """Has `callback` called once, in `delay` seconds."""
        ...

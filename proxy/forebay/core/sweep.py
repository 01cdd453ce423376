"""The sweep: examines its members at intervals, all of them by one timer.

A timer for each request costs two operations, for deadlines that nearly always are met. A member of a sweep costs a
dictionary entry, and its deadline is precise to one interval. Without members there is no timer.

Time in which the event loop did not run is no member's delay: `postpone` moves the deadlines back by it, and nothing is
examined in that sweep.
"""

from typing import Protocol

from forebay.core.timers import Timers


class Examined(Protocol):
    """A member of a sweep."""

    def examine(self, now: float) -> None:
        """Judges the delay at `now`. Returns at once, and may add and remove members."""

    def postpone(self, seconds: float) -> None:
        """Moves every deadline back, by the time in which the event loop did not run."""


class Sweep:
    """Examines its members every `interval` seconds, those added first, first. For one event loop."""

    def __init__(self, interval: float, timers: Timers) -> None:
        self._interval = interval
        self.timers = timers
        self._members: dict[Examined, None] = {}
        self._due: float | None = None

    def __len__(self) -> int:
        return len(self._members)

    def add(self, member: Examined) -> None:
        """Adds a member, until `remove`."""
        self._members[member] = None
        if self._due is None:
            self._schedule()

    def remove(self, member: Examined) -> None:
        """Removes a member, if it is one."""
        self._members.pop(member, None)

    def _schedule(self) -> None:
        self._due = self.timers.time() + self._interval
        self.timers.call_later(self._interval, self._run)

    def _run(self) -> None:
        now, due, self._due = self.timers.time(), self._due, None
        lag = now - due if due is not None else 0.0
        for member in list(self._members):
            if member not in self._members:
                continue  # removed by one that was examined before it
            if lag > self._interval:
                member.postpone(lag)
            else:
                member.examine(now)
        if self._members and self._due is None:
            self._schedule()

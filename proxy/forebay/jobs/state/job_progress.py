"""Job progress: the position that a restarted job resumes from, and the job's speed. Pure: times are arguments.

entries  0 1 2 3 4 5 6 7 8 ...        several are fetched at once, and end in any order
         x x x x . x . x .
                 ^ position           everything before it is complete: where a restarted job goes on
"""

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

SPEED_WINDOW = 30.0
"""Seconds over which the speed is averaged: long enough to be steady, short enough to follow a change."""
_SAMPLE_INTERVAL = 1.0


class WarmUpFailure(NamedTuple):
    """An object that could not be warmed."""

    bucket: str
    key: str
    reason: str


class CompletedEntry(NamedTuple):
    """One entry that was dealt with."""

    size: int
    """Bytes that are stored."""
    failure: WarmUpFailure | None = None


@dataclass(slots=True)
class JobPosition:
    """The number of entries that are complete without a gap, and their counts."""

    entries: int = 0
    done: int = 0
    failed: int = 0
    size: int = 0
    _ahead: dict[int, CompletedEntry] = field(default_factory=dict)
    """Entries behind the position that are complete: at most as many as are fetched at once, and those between."""

    def complete(self, number: int, entry: CompletedEntry) -> list[WarmUpFailure]:
        """Entry `number` is complete. Returns the failures that the position has passed, in order."""
        self._ahead[number] = entry
        failures: list[WarmUpFailure] = []
        while (passed := self._ahead.pop(self.entries, None)) is not None:
            if passed.failure is None:
                self.done += 1
            else:
                self.failed += 1
                failures.append(passed.failure)
            self.size += passed.size
            self.entries += 1
        return failures


@dataclass(slots=True)
class JobSpeed:
    """Bytes and objects a second, over the last SPEED_WINDOW seconds."""

    _samples: deque[tuple[float, int, int]] = field(default_factory=deque)

    def add_sample(self, now: float, size: int, objects: int) -> None:
        """The job has `size` bytes and `objects` objects at the time `now`. Samples closer than a second are left
        out."""
        if self._samples and now - self._samples[-1][0] < _SAMPLE_INTERVAL:
            return
        self._samples.append((now, size, objects))
        while len(self._samples) > 2 and now - self._samples[1][0] > SPEED_WINDOW:
            self._samples.popleft()

    def rates(self, now: float, size: int, objects: int) -> tuple[float, float] | None:
        """Bytes and objects a second up to `now`; None: too early to say."""
        if not self._samples or now - self._samples[0][0] < _SAMPLE_INTERVAL:
            return None
        begun, first_size, first_objects = self._samples[0]
        return (size - first_size) / (now - begun), (objects - first_objects) / (now - begun)

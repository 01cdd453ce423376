"""The reads of several workers, in about the order in which they were answered. Pure.

    worker 0    a a a a a                b b b b b        as they arrive, by the batch
    worker 1            c c c c c
    in order            a c a c a c  ...                  up to the time that both have delivered

A worker delivers its reads by the batch (core.read_stream). In the order of arrival an epoch would begin with reads of
the one before, and a reader would go back by a batch each time. So groups wait until the other workers have delivered
what they answered meanwhile. A worker that has delivered nothing for a while is not waited for, and a few reads wait
for none.
"""

from math import inf
from operator import attrgetter
from typing import Final

from forebay.core.read_log import ReadGroup

SMALL: Final = 64
"""A group with fewer reads waits for nothing but those before it."""
PATIENCE: Final = 0.5
"""Seconds, more than two intervals of core.read_stream: a worker that is further behind the latest one is not waited
for."""


class WorkerOrder:
    """Puts the reads of one reader in order."""

    def __init__(self) -> None:
        self._waiting: list[ReadGroup] = []
        self._delivered: dict[int, float] = {}
        """The time up to which each worker has delivered."""
        self._is_new = False
        """Whether something was added since `release_stale`."""

    def add(self, worker: int, group: ReadGroup) -> list[ReadGroup]:
        """Adds reads. Returns those of all workers up to the time that is known of each."""
        self._delivered[worker] = group.drained_at
        self._is_new = True
        self._waiting.append(group)
        if len(group) < SMALL and len(self._waiting) == 1:
            return self.release_all()
        oldest = max(self._delivered.values()) - PATIENCE
        return self._release(min(each for each in self._delivered.values() if each >= oldest))

    def release_stale(self) -> list[ReadGroup]:
        """Returns all reads that wait if none was added since the last call."""
        is_new, self._is_new = self._is_new, False
        return [] if is_new else self.release_all()

    def release_all(self) -> list[ReadGroup]:
        """Returns all reads that wait."""
        return self._release(inf)

    def _release(self, until: float) -> list[ReadGroup]:
        self._waiting.sort(key=attrgetter("drained_at"))
        ready = [each for each in self._waiting if each.drained_at <= until]
        del self._waiting[: len(ready)]
        return ready

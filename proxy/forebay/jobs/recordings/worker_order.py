"""The reads of several workers, in about the order in which they were answered. Pure.

    worker 0    a a a a a                b b b b b        as they arrive, by the batch
    worker 1            c c c c c
    in order            a c a c a c  ...                  up to the time that both have delivered

A worker delivers its reads by the batch (core.read_stream). In the order of arrival an epoch would begin with reads of
the one before, and a reader would go back by a batch each time. So groups wait until the other workers have delivered
what they answered meanwhile. A worker that has delivered nothing for a while is not waited for, and a few reads wait
for none.

A group says when it was drained, not when each read was answered. At full speed it is a good part of an epoch, so it is
cut into pieces, as if its worker had answered evenly since the group before.
"""

from math import inf
from operator import attrgetter
from typing import Final

from forebay.core.read_log import ReadGroup
from forebay.core.read_stream import BATCH_SECONDS

SMALL: Final = 64
"""A group with fewer reads waits for nothing but those before it."""
PATIENCE: Final = 0.5
"""Seconds, more than two intervals of core.read_stream: a worker that is further behind the latest one is not waited
for."""
UNORDERED: Final = 128
"""Reads of all workers together of whose order nothing is known: the pieces of as many reads as that."""


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
        before = self._delivered.get(worker, -inf)
        self._delivered[worker] = group.drained_at
        self._is_new = True
        if len(self._delivered) == 1 or (len(group) < SMALL and not self._waiting):
            return [*self.release_all(), group]
        began = max(before, group.drained_at - BATCH_SECONDS)
        self._waiting += _pieces(group, began, max(1, UNORDERED // len(self._delivered)))
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


def _pieces(group: ReadGroup, began: float, size: int) -> list[ReadGroup]:
    """Cuts a group whose reads were answered evenly since `began` into pieces of `size` reads."""
    seconds = (group.drained_at - began) / len(group)
    pieces = [group.part(start, start + size) for start in range(0, len(group), size)]
    for number, piece in enumerate(pieces[:-1], 1):
        piece.drained_at = began + number * size * seconds
    return pieces

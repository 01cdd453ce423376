"""The latest reads of one reader, by their hashes: a plan of the rest of a recording leaves them out.

Nothing is done for each read: batches are kept as they come.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

from forebay.jobs.plans.plan_window import SPREAD

MAX_RECENT: Final = 2 * SPREAD
"""Reads that are kept at least, if there were so many: twice as many as a plan begins behind its reader."""


class RecentReads:
    """The latest reads of one reader."""

    def __init__(self) -> None:
        self._batches: deque[Sequence[int]] = deque()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, hashes: Sequence[int]) -> None:
        """Adds reads."""
        self._batches.append(hashes)
        self._count += len(hashes)
        while self._count - len(self._batches[0]) >= MAX_RECENT:
            self._count -= len(self._batches.popleft())

    def keep(self, latest: int) -> None:
        """Forgets all but the `latest` reads: those before are of another epoch."""
        while self._batches and self._count > latest:
            first = self._batches.popleft()
            surplus = self._count - latest
            self._count -= min(len(first), surplus)
            if surplus < len(first):
                self._batches.appendleft(first[surplus:])

    @property
    def hashes(self) -> frozenset[int]:
        """The hashes of all these reads."""
        return frozenset().union(*self._batches)

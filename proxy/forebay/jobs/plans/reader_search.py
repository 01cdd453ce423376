"""Reader search: finds the position of a plan's reader again once its reads are no entries of the window.

reads that are no entries of the window ──STRAYS in a row──> their keys in the rest of the plan ──> near one another:
                                                                                                   there is the reader

A plan may name a key many times, as one of several epochs does. The reader is taken to be at the next entries where the
latest keys are near one another; where that was chance, the reads that follow are strays again, and the search goes on
from there. So it never passes the reader, and each search reads what is left of the plan once for each of the keys.

Reads that are entries of the window, and those of a later epoch all the same: jobs.plans.scattered_reads.
"""

import asyncio
from collections import deque
from typing import Final

from forebay.jobs.plans.entry_access import EntryAccess
from forebay.jobs.plans.plan_window import SPREAD, WindowEntry
from forebay.jobs.plans.scattered_reads import ScatteredReads

STRAYS: Final = 32
"""Reads in a row that are not in the window, after which they are looked for in the rest of the plan."""
MOST_STRAYS: Final = 4096
"""The most such reads, after searches that found nothing: a reader of something else costs few searches."""
KEYS: Final = 4
"""Different keys that are looked for."""
ROUNDS: Final = 16
"""Places at most at which the keys are compared in one search."""


class ReaderSearch:
    """The search in one plan. One at a time: who finds it due calls `position`."""

    def __init__(self, entries: EntryAccess) -> None:
        self._entries = entries
        self._keys: deque[str] = deque(maxlen=KEYS)
        self._strays, self._wanted = 0, STRAYS
        self._scattered = ScatteredReads()
        self._is_under_way = False

    def read_outside_window(self, key: str) -> None:
        """The reader has read something that is not in the window."""
        self._strays += 1
        if key not in self._keys:  # one object that is read over and over says nothing
            self._keys.append(key)

    def entry_read(self, entry: WindowEntry) -> None:
        """The reader has read an entry of the window."""
        if entry.stop is None and not entry.start:
            self._scattered.entry_read(entry.key, entry.number)
        if self._strays:
            self._strays, self._wanted = 0, STRAYS
            self._keys.clear()

    @property
    def is_due(self) -> bool:
        """Whether the reader is to be searched."""
        return not self._is_under_way and (self._is_astray or self._scattered.is_due())

    @property
    def _is_astray(self) -> bool:
        return self._strays >= self._wanted and len(self._keys) == KEYS

    def begin(self) -> None:
        """The search is due no longer."""
        self._is_under_way = True

    async def position(self, loaded: int, front: int) -> int | None:
        """Looks for the latest reads in the plan: for strays from `loaded` on, for others from `front` on. Returns the
        first entry of them, if all are there and near one another."""
        try:
            if self._is_astray:
                return await self._position_of_strays(loaded)
            search, found = self._scattered.begin(), None
            try:
                found = await asyncio.to_thread(search, self._entries.find, front)
            finally:
                self._scattered.end(found is not None)
            return found
        except (OSError, ValueError):
            return None  # the plan has ended
        finally:
            self._is_under_way = False

    async def _position_of_strays(self, after: int) -> int | None:
        found = None
        try:
            found = await asyncio.to_thread(self._find, tuple(self._keys), after)
        finally:
            self._wanted = STRAYS if found is not None else min(2 * self._wanted, MOST_STRAYS)
            self._strays = 0
        return found

    def _find(self, keys: tuple[str, ...], after: int) -> int | None:
        positions = dict.fromkeys(keys, -1)
        for _ in range(ROUNDS):
            for key, position in positions.items():
                if position < after:
                    found = self._entries.find(key, after)
                    if found is None:
                        return None
                    positions[key] = found
            first, last = min(positions.values()), max(positions.values())
            if last - first <= SPREAD:
                return first
            after = last - SPREAD  # no entry before it is near the last one, nor near any that follows
        return None

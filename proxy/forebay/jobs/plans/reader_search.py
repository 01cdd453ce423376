"""The search for a plan's reader that is not where the plan has it.

reads that are no entries of the window ──STRAYS in a row──> their keys in the whole plan ──> near one another:
                                                                                              there is the reader
"""

import asyncio
from collections import deque
from typing import Final

from forebay.jobs.plans.entry_access import EntryAccess
from forebay.jobs.plans.plan_window import SPREAD

STRAYS: Final = 32
"""Reads in a row that are not in the window, after which they are looked for in the rest of the plan."""


class ReaderSearch:
    """The search in one plan. One at a time: who finds it due calls `position`."""

    def __init__(self, entries: EntryAccess) -> None:
        self._entries = entries
        self._keys: deque[str] = deque(maxlen=4)
        self._strays = 0
        self._is_under_way = False

    def stray_read(self, key: str) -> None:
        """The reader has read something that is not in the window."""
        self._strays += 1
        self._keys.append(key)

    def entry_read(self) -> None:
        """The reader has read an entry of the window."""
        self._strays = 0

    @property
    def is_due(self) -> bool:
        """Whether the reader is to be searched."""
        return self._strays >= STRAYS and not self._is_under_way

    def begin(self) -> None:
        """The search is due no longer."""
        self._is_under_way = True

    async def position(self) -> int | None:
        """Looks for the latest reads in the whole plan. Returns the first entry of them, if all are there and near one
        another."""
        keys = tuple(self._keys)
        try:
            positions = [await asyncio.to_thread(self._entries.find, key) for key in keys]
        except (OSError, ValueError):
            return None  # the plan has ended
        finally:
            self._strays, self._is_under_way = 0, False
        found = [position for position in positions if position is not None]
        return min(found) if len(found) == len(keys) and max(found) - min(found) <= SPREAD else None

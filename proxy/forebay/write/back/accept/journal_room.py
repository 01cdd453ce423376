"""The room in the journal: whether it takes so many bytes more.

    asked, and the size is old ──> measured on a thread ──> size = theirs + what was accepted meanwhile
                                     └ a small write that fits goes on beside it

A long backlog has many files, and a scan of all of them would block the event loop. Bytes that any worker
(record_exchange) has accepted since the last measurement are added to it, and removed bytes are subtracted. A nearly
full journal accepts nothing: a reserve is left for records of writes that it has accepted (parts of uploads, records of
deletions).

Bodies that other workers are receiving count once their records are known. So writes during a measurement take a small
share of that reserve, and none is refused because of an old size.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from forebay.core.task_registry import TaskRegistry

ROOM_SECONDS: Final = 1.0
"""Seconds after which the size is measured again."""
DENIED_SECONDS: Final = 300.0
"""Seconds for which a write without room is remembered: longer than it waits for its turn (patience)."""
_SHARE: Final = 20
"""The times that a measurement took, until the next one at the least."""
_HIGH_WATER: Final = 0.9
_BESIDE: Final = 0.01
"""The share of the journal that may be accepted while an old size is being measured."""

_log = logging.getLogger(__name__)


class JournalRoom:
    """The room of one worker."""

    def __init__(
        self, size: int, measure: Callable[[], Awaitable[int]], tasks: TaskRegistry, monotonic: Callable[[], float]
    ) -> None:
        """`size`: bytes of the journal at most. `measure()`: bytes of its files; raises OSError. `monotonic`: seconds
        from any origin."""
        self.size = size
        self._measure = measure
        self._tasks = tasks
        self._monotonic = monotonic
        self._next_at = float("-inf")
        self._filled = 0
        self._accepted = 0
        """Bytes since the last measurement began."""
        self._is_measured = False
        self._failure: str | None = None
        """Why the last measurement failed; None: it did not."""
        self._denied = 0
        """Bytes for which there was no room, until `_denied_until`."""
        self._denied_until = float("-inf")
        self._measuring: asyncio.Task[None] | None = None
        self.is_ending = False
        """Whether the process was told to end: nothing new is accepted."""
        self.is_finishing = False
        """Whether only requests under way are answered any more."""

    async def has_room(self, size: int, *, for_part: bool = False) -> bool:
        """Returns whether the journal takes `size` bytes more; if so, they count from now on. `for_part`: of an upload
        in the journal, which the next start goes on with."""
        measuring = self._measure_if_old()
        if measuring is not None and not self._goes_beside(size):
            await asyncio.wait((measuring,))
        is_open = not self.is_ending or (for_part and self.is_finishing)
        fits = is_open and self._fits(size)
        if fits:
            self.fill(size)
        elif is_open and self.can_hold(size):
            self._denied, self._denied_until = size, self._monotonic() + DENIED_SECONDS
        return fits

    def _fits(self, size: int) -> bool:
        return self._filled + size <= self.size * _HIGH_WATER

    def _goes_beside(self, size: int) -> bool:
        return self._is_measured and self._accepted + size <= self.size * _BESIDE and self._fits(size)

    def can_hold(self, size: int) -> bool:
        """Returns whether the journal would take `size` bytes if it were empty."""
        return size <= self.size * _HIGH_WATER

    def fill(self, size: int) -> None:
        """`size` bytes more were accepted, here or by another worker."""
        self._filled += size
        self._accepted += size

    def release(self, size: int) -> None:
        """Files of `size` bytes were removed."""
        self._filled = max(0, self._filled - size)

    @property
    def used(self) -> int:
        """Bytes of the journal's files, by the latest measurement."""
        self._measure_if_old()
        return self._filled

    @property
    def is_full(self) -> bool:
        """Whether the journal is above its high water, or a write would lift it above: the last one that it had no room
        for, as long as it has none. Large bodies never fill a journal to the brim."""
        needed = self._denied if self._monotonic() < self._denied_until else 0
        return self.used + needed > self.size * _HIGH_WATER or self.used >= self.size * _HIGH_WATER

    async def measure(self) -> None:
        """Measures the files. Without success the size is left as it is known."""
        self._accepted = 0
        await self._measure_files()

    async def _measure_files(self) -> None:
        """`_accepted` counts from now on."""
        began = self._monotonic()
        try:
            self._filled = await self._measure() + self._accepted
            self._is_measured, self._failure = True, None
        except OSError as error:
            if error.strerror != self._failure:  # it is measured each second, however long the disk is away
                _log.error("the journal can't be measured: %s", error.strerror)
            self._failure = error.strerror
        finally:
            ended = self._monotonic()
            self._next_at = max(began + ROOM_SECONDS, ended + _SHARE * (ended - began))

    def _measure_if_old(self) -> asyncio.Task[None] | None:
        """Returns the measurement under way, one for all who ask; None: the size is known."""
        if self._monotonic() <= self._next_at:
            return None
        if self._measuring is None or self._measuring.done():
            self._accepted = 0  # not by the task: who asked goes on before it begins
            self._measuring = self._tasks.spawn(self._measure_files(), "measure the journal")
        return self._measuring

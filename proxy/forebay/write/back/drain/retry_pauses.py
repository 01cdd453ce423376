"""Retry pauses: how long a write waits until its next attempt at the origin.

    attempt failed ──> pause, doubled up to LONGEST_PAUSE ──> attempt
         └ without an answer, and the origin answers again ──> the pause ends, and the next one is a short one

An outage ends for all its writes at once, so their pauses end one after the other, RESUMED_PER_SECOND. A pause after
an answer (503 SlowDown) is what the origin has asked for: it stays. The order of writes is not decided here: one that
has a pause waits for no other.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

from forebay.core.task_registry import TaskRegistry

FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 60.0
"""Seconds between two attempts of one write: they double."""
RESUMED_PER_SECOND: Final = 50
"""Pauses that end in a second when the origin answers again."""


class RetryPauses:
    """The pauses of all writes of a worker."""

    def __init__(
        self,
        tasks: TaskRegistry,
        origin_of: Callable[[str], str],
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """`origin_of`: the name of the origin that has a bucket."""
        self.tasks = tasks
        self.origin_of = origin_of
        self.sleep = sleep
        self.outages: Counter[str] = Counter()
        """The number of ended outages, by origin."""
        self.under_way: dict[asyncio.Task[object], str] = {}
        """Pauses that end with an outage of their origin, in the order in which they began."""

    def of(self, bucket: str) -> "RetryPause":
        """Returns the pauses of one write to a bucket."""
        return RetryPause(self, bucket)

    def end(self, origin: str) -> None:
        """An outage of this origin has ended."""
        self.outages[origin] += 1
        loop = asyncio.get_running_loop()
        for number, pause in enumerate(each for each, of in self.under_way.items() if of == origin):
            loop.call_later(number / RESUMED_PER_SECOND, pause.cancel)


class RetryPause:
    """The pauses of one write. Made before its first attempt."""

    def __init__(self, pauses: RetryPauses, bucket: str) -> None:
        self._pauses = pauses
        self._bucket = bucket
        self._seconds = FIRST_PAUSE
        self._outages = pauses.outages.copy()
        """The ended outages when the latest attempt began."""

    def reset(self) -> None:
        """Begins with the shortest pause again."""
        self._seconds = FIRST_PAUSE

    async def wait(self, *, is_unanswered: bool = False) -> None:
        """Waits for the next attempt. `is_unanswered`: the origin gave the latest one no answer."""
        origin = self._pauses.origin_of(self._bucket) if is_unanswered else ""
        if self._has_ended(origin):  # while the attempt still waited for an answer
            self._seconds = FIRST_PAUSE
        if is_unanswered:
            await self._wait_at_most(self._seconds, origin)
        else:
            await self._pauses.sleep(self._seconds)
        self._seconds = FIRST_PAUSE if self._has_ended(origin) else min(2 * self._seconds, LONGEST_PAUSE)
        self._outages = self._pauses.outages.copy()

    def _has_ended(self, origin: str) -> bool:
        return self._pauses.outages[origin] != self._outages[origin]

    async def _wait_at_most(self, seconds: float, origin: str) -> None:
        pause = self._pauses.tasks.spawn(_sleep(self._pauses.sleep, seconds), "pause of a write")
        self._pauses.under_way[pause] = origin
        try:
            await asyncio.wait([pause])
        finally:
            pause.cancel()
            del self._pauses.under_way[pause]


async def _sleep(sleep: Callable[[float], Awaitable[object]], seconds: float) -> object:
    return await sleep(seconds)

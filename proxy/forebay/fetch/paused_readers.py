"""Paused readers: readers whose client accepts nothing for now. Their buffers are reclaimed when others need them.

    reading ──pause()──> paused, holds buffers ──┬──resume()─────────────────────────────────> reading
                                                 └──the buffers run short: gives them up─────> paused, holds nothing

A reader may be paused for hours, so its buffers must not be missing elsewhere. Nothing is reclaimed while there is
enough for all. When a reader waits for buffers, those paused longest give theirs up first:

1. buffers that cost nothing to give up: of blocks ahead of the one being sent, and of that one if a tier has it. The
   reader reads it again from there;
2. after PATIENCE seconds, a block that no tier has. The reader fetches it again. With a shorter time, slightly more
   slow readers than there are buffers would fetch each block many times over.

A reader that is paused while somebody waits gives up at once what costs nothing.
"""

from typing import Final, Protocol

from forebay.core.fair_semaphore import FairSemaphore
from forebay.core.timers import Timer, Timers

PATIENCE: Final = 1.0
"""Seconds of a pause after which a reader loses a block that it would have to fetch again."""


class PausedReader(Protocol):
    """A reader as this module knows it."""

    def give_up_spare(self) -> bool:
        """Gives up the buffers that it can do without. Returns whether there were any."""
        ...

    def give_up_all(self) -> bool:
        """Gives up every buffer. Returns whether there were any."""
        ...


class PausedReaders:
    """The paused readers of one worker that may hold buffers, those paused longest first."""

    def __init__(self, budget: FairSemaphore, timers: Timers) -> None:
        """`budget`: of their buffers, which reclaims from here from now on."""
        self._budget = budget
        self._timers = timers
        self._all: dict[PausedReader, float] = {}
        """The paused readers that have given up nothing yet, each with the time of its pause, in seconds."""
        self._frugal: dict[PausedReader, float] = {}
        """The paused readers with buffers that they could give up, each with the time of its pause."""
        self._timer: Timer | None = None
        self.open = 0
        """The number of readers, paused or not."""
        budget.reclaim = self.reclaim

    def __len__(self) -> int:
        return len(self._all) + len(self._frugal)

    def share(self) -> int | None:
        """Returns the bytes that one reader may have ahead of it; None: as many as it likes, half of the buffers are
        free."""
        capacity = self._budget.capacity
        if self._budget.in_use * 2 <= capacity:
            return None
        return capacity // max(1, self.open - len(self))

    def time(self) -> float:
        """Seconds on the clock of pauses."""
        return self._timers.time()

    def pause(self, reader: PausedReader) -> None:
        """Adds a reader whose client accepts nothing for now."""
        if self._budget.waiting:
            self._frugal[reader] = self._timers.time()
            reader.give_up_spare()
            self._arm()
        else:
            self._all[reader] = self._timers.time()

    def resume(self, reader: PausedReader) -> None:
        """Removes a reader, which may have given up its buffers meanwhile."""
        if self._all.pop(reader, None) is None:
            self._frugal.pop(reader, None)

    def reclaim(self, urgent: bool) -> bool:
        """Has one reader give up buffers that it need not keep. Returns whether there was one. Unless `urgent`, readers
        that have just been paused keep everything."""
        now = self._timers.time()
        while self._all:
            reader, since = next(iter(self._all.items()))
            if not urgent and since + PATIENCE > now:
                break
            del self._all[reader]
            self._frugal[reader] = since
            if reader.give_up_spare():
                return True
        while self._frugal:
            reader, since = next(iter(self._frugal.items()))
            if since + PATIENCE > now:  # the sum that `_arm` waits for: a difference may round to another time
                break
            del self._frugal[reader]
            if reader.give_up_all():
                return True
        if urgent:
            self._arm()
        return False

    def _arm(self) -> None:
        """Has buffers reclaimed again once the reader that is paused longest has been for PATIENCE seconds."""
        if self._timer is None and self._frugal:
            due = next(iter(self._frugal.values())) + PATIENCE
            self._timer = self._timers.call_later(max(0.0, due - self._timers.time()), self._expire)

    def _expire(self) -> None:
        self._timer = None
        while self._budget.waiting and self.reclaim(True):
            pass

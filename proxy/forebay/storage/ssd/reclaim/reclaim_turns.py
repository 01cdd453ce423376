"""Turns of reclaim: several processes share a directory, and one at a time reclaims a segment or changes a threshold.

    no room for a batch ──> take the reclaim lock ──> reread what all have written ──> steps of reclaim, until there is
                                 │                    room or the turn is over, and the segment is gone
                                 │                      ──> give the lock back; no room yet: take it again
                                 └ another has it, or writes to the next segment: wait until it frees space or ends

Rereading costs some microseconds for each segment in the directory. So a turn is longer than one segment, and bounded,
so that others do not wait for long.

Used by the writer's thread.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from forebay.storage.ssd.reclaim.reclaim import Reclaim
from forebay.storage.ssd.reclaim.ssd_pools import SsdPools
from forebay.storage.ssd.ssd_directory import SsdDirectory
from forebay.storage.ssd.write_queue import WriteQueue

WAIT_SECONDS: Final = 0.005
STEPS_IN_A_TURN: Final = 16
"""Steps of up to 8 MiB each: two large segments, or eight small ones. Others wait for half a second at most."""
MAX_WAITS: Final = 100
"""Waits for another process, after which a batch is given up: the process may have been stopped."""


class ReclaimTurns:
    """The turns of this process."""

    def __init__(
        self,
        directory: SsdDirectory,
        reclaim: Reclaim,
        pools: SsdPools,
        queue: WriteQueue,
        measure: Callable[[], None],
    ) -> None:
        """`measure` rereads the sizes of segments and pools, and the thresholds."""
        self._directory = directory
        self._reclaim = reclaim
        self._pools = pools
        self._queue = queue
        self._measure = measure

    def reclaim_until(self, is_enough: Callable[[], bool], *, is_full: bool) -> None:
        """Reclaims until there is enough room, nothing is left to reclaim, or removals wait. `is_full`: see
        Reclaim.step. Raises lmdb.Error if the index fails."""
        waits = 0
        while not is_enough() and not self._queue.is_urgent:
            with self._turn() as is_mine:
                if is_mine:
                    if self._reclaim_in_turn(is_enough, is_full=is_full):
                        continue
                    if not self._pools.awaits_others:
                        break
            if waits == MAX_WAITS:
                break
            waits += 1
            time.sleep(WAIT_SECONDS)  # noqa: TID251 # in the writer's thread, which has nothing else to do
            self._measure()

    def _reclaim_in_turn(self, is_enough: Callable[[], bool], *, is_full: bool) -> bool:
        """Does steps until there is enough room, or others are to have their turn. Returns False if nothing could be
        done."""
        for _ in range(STEPS_IN_A_TURN):
            if is_enough() or self._queue.is_urgent:
                break
            if not self._reclaim.step(is_full=is_full):
                return False
            self._pools.measure()
        return True

    def reclaim_some(self, is_wanted: Callable[[], bool], is_full: Callable[[], bool]) -> bool:
        """Does one step, if it is wanted and no other process reclaims. Returns whether it did. Raises lmdb.Error."""
        if not is_wanted():
            return False
        with self._turn() as is_mine:
            return is_mine and is_wanted() and self._reclaim.step(is_full=is_full())

    def raise_thresholds(self) -> bool:
        """Raises thresholds where that is due. Returns whether one was raised. Raises lmdb.Error."""
        if not self._pools.may_rise():
            return False
        with self._turn() as is_mine:
            return is_mine and self._pools.raise_thresholds()

    @contextmanager
    def _turn(self) -> Iterator[bool]:
        """Yields whether this process may reclaim. It may go on until the segment that it has begun with is deleted."""
        if self._reclaim.is_running:
            is_mine = True
        elif is_mine := self._directory.lock_reclaim():
            self._measure()
        try:
            yield is_mine
        finally:
            if not self._reclaim.is_running:
                self._directory.unlock_reclaim()

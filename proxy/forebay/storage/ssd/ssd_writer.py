"""The writer: the one thread that changes the directory. It drains the write queue, a batch at a time:

    get batch -> make space -> append the records -> one transaction: rows, heads, removals, in order -> settle
              -> a step of reclaim

A batch that fails, because the disk is full, for example, loses its blocks and heads, and admissions pause for a while
that doubles with each failure. Its removals must not be lost: they are retried on their own, and if even that fails,
everything in the directory is disowned, at once for all processes and for later openings. If the index turns out to be
damaged, the directory is off for all processes, and the next opening rebuilds the index.
"""

import time
from collections.abc import Callable
from typing import Final

import lmdb

from forebay.core.events import BlocksAdmitted, Observe, TierFailed
from forebay.storage.ssd.admission_selection import AdmissionSelection
from forebay.storage.ssd.index.index import DAMAGE, INDEX_ERRORS
from forebay.storage.ssd.index.index_check import check_shared_index
from forebay.storage.ssd.index.index_updates import OrderCommit
from forebay.storage.ssd.index.segment_rescan import SegmentRescan
from forebay.storage.ssd.reclaim.pin_gatherer import PinGatherer
from forebay.storage.ssd.reclaim.reclaim import Reclaim
from forebay.storage.ssd.reclaim.reclaim_turns import ReclaimTurns
from forebay.storage.ssd.reclaim.ssd_pins import SsdPins
from forebay.storage.ssd.reclaim.ssd_pools import SsdPools
from forebay.storage.ssd.recovery import OpenDirectory
from forebay.storage.ssd.segment_appender import SegmentAppenders, encode_record
from forebay.storage.ssd.segments.block_location import BlockLocation
from forebay.storage.ssd.segments.segment_label import SegmentLabel
from forebay.storage.ssd.space_refresh import SpaceRefresh
from forebay.storage.ssd.write_queue import (
    AdmitBlock,
    ForgetObject,
    PurgePrefix,
    Removal,
    WriteOrder,
    WriteQueue,
)

LINGER_SECONDS: Final = 0.2  # four times the orders of 50 ms take two thirds of the CPU for each
IDLE_SECONDS: Final = 1.0
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0


class SsdWriter:
    """Changes one open directory. `run` is the thread; `is_paused` may be read from any thread."""

    def __init__(
        self, opened: OpenDirectory, queue: WriteQueue, pools: SsdPools, pins: SsdPins, observe: Observe
    ) -> None:
        self._directory = opened.directory
        self._index = opened.index
        self._segments = opened.segments
        self._space = opened.space
        self._references = opened.references
        self._queue = queue
        self._observe = observe
        self._pools = pools
        self._orders = OrderCommit(opened.index, opened.addressing, opened.state.trusted_from, opened.space.add_dead)
        self._appenders = SegmentAppenders(opened.index, opened.segments, opened.space)
        self._reclaim = Reclaim(opened, self._appenders, pools, pins, queue, observe)
        self._refresh = SpaceRefresh(opened, self._appenders, pools, pins)
        self._turns = ReclaimTurns(opened.directory, self._reclaim, pools, queue, self._refresh.refresh)
        self._admissions = AdmissionSelection(opened, pools, pins, self._turns, self._refresh, observe)
        self._gatherer = PinGatherer(opened, self._appenders, pins, observe)
        self._rescan = SegmentRescan(opened.index, opened.segments)
        self._pause = FIRST_PAUSE
        self._resume_at = 0.0
        self._is_swept = False
        self._reclaim_one = False

    @property
    def is_paused(self) -> bool:
        """Whether admissions pause after a failure."""
        return self._resume_at > 0.0 and time.monotonic() < self._resume_at

    def run(self) -> None:
        """Drains the queue until it is closed and empty."""
        try:
            self._serve()
        except BaseException as error:
            self._disown(error)
            raise
        finally:
            # Nobody may wait for a thread that is gone. After a proper end there is nothing left to settle.
            self._queue.close()
            self._queue.settle(self._queue.get_batch(0, 0) or [], {})

    def _serve(self) -> None:
        is_busy = self._tidy()
        while True:
            orders = self._queue.get_batch(0 if is_busy else LINGER_SECONDS, 0 if is_busy else IDLE_SECONDS)
            if orders is None:
                break
            removed: dict[Removal, int] = {}
            try:
                if orders and not self._references.is_disowned:
                    self._carry_out(orders, removed)
            finally:
                self._appenders.release_filled()
                self._queue.settle(orders, removed)
            is_busy = self._tidy()
        self._attempt("close", self._finish)

    # Batches

    def _carry_out(self, orders: list[WriteOrder], removed: dict[Removal, int]) -> None:
        try:
            admissions = [] if self.is_paused else self._admissions.select(orders)
            locations = self._append(admissions)
            self._orders.commit(orders, locations, removed)
        except Exception as error:
            # Whatever it is: this thread must live, or removals would be lost.
            self._fail("write", error)
            self._retry_removals([order for order in orders if isinstance(order, ForgetObject | PurgePrefix)], removed)
            return
        if locations:
            self._pause = FIRST_PAUSE
            size = sum([location.length for location in locations.values()])
            self._observe(BlocksAdmitted("ssd", len(locations), size))

    def _append(self, admissions: list[AdmitBlock]) -> dict[bytes, BlockLocation]:
        """Writes the blocks and returns their locations: none if that failed. Heads and removals go on without them."""
        by_label: dict[SegmentLabel, list[AdmitBlock]] = {}
        for order in admissions:
            by_label.setdefault(order.label, []).append(order)
        locations: dict[bytes, BlockLocation] = {}
        try:
            self._pools.record_new()
            for label, orders in by_label.items():
                found = self._appenders.append(label, [encode_record(order.address, order.buffer) for order in orders])
                locations.update(zip([order.address for order in orders], found, strict=True))
        except (OSError, *INDEX_ERRORS) as error:
            self._fail("write", error)
            return {}
        return locations

    def _retry_removals(self, removals: list[Removal], removed: dict[Removal, int]) -> None:
        """Commits the removals of a failed batch on their own. If that fails, everything is disowned; unless the index
        is damaged, for then no process reads it any more, and its heads are not trusted when it has been rebuilt."""
        try:
            self._orders.commit(removals, {}, removed)
        except Exception as error:
            if not isinstance(error, DAMAGE):
                self._disown(error)

    # Failures

    def _fail(self, operation: str, error: Exception) -> None:
        self._observe(TierFailed("ssd", operation, str(error)))
        self._resume_at = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        if isinstance(error, DAMAGE):
            self._references.suspect()
        # Others may have filled the disk: one segment is reclaimed.
        self._reclaim_one = isinstance(error, OSError | lmdb.DiskError | lmdb.MapFullError)

    def _disown(self, error: BaseException) -> None:
        """Invalidates the whole directory: a removal is not in it."""
        self._references.disown()
        self._observe(TierFailed("ssd", "disown", str(error)))
        try:
            self._directory.disown()
        except OSError as failure:
            # The mark beside the reference bits says it as well.
            self._observe(TierFailed("ssd", "disown", str(failure)))

    def _attempt(self, operation: str, act: Callable[[], bool]) -> bool:
        """Does a step that no caller awaits; returns False if it failed."""
        try:
            return act()
        except Exception as error:
            self._fail(operation, error)
            return False

    # Between batches

    def _tidy(self) -> bool:
        """Does a bounded share of the housekeeping. Returns whether there is more of it."""
        is_busy = False
        if not self._references.is_disowned:
            self._attempt("measure", self._measure)
            if self._directory.elect():
                is_busy = self._attempt("sweep", self._sweep)
                is_busy = self._attempt("reclaim", self._reclaim_some) or is_busy
                is_busy = self._attempt("reclaim", self._gatherer.step) or is_busy
                is_busy = self._attempt("reclaim", self._turns.raise_thresholds) or is_busy
                is_busy = self._attempt("rescan", self._rescan.step) or is_busy
            elif self._reclaim.is_running:  # the others wait for the segment that this process has begun with
                is_busy = self._attempt("reclaim", self._reclaim_some)
        return is_busy

    def _measure(self) -> bool:
        self._refresh.refresh_if_due()
        return False

    def _sweep(self) -> bool:
        """Deletes files that a crash left behind, and discarded content."""
        if not self._is_swept:
            self._is_swept = True
            known = self._index.segments()
            for number in self._segments.numbers():
                if number not in known and not self._segments.has_writer(number):
                    self._segments.delete(number)
            if self._index.env.reader_check():
                check_shared_index(self._index)  # this process succeeds one that died, perhaps of damage
        return self._directory.delete_discarded()

    def _reclaim_some(self) -> bool:
        is_busy = self._reclaim.sweep_heads() and self._space.is_reclaim_due
        is_reclaimed = self._turns.reclaim_some(
            lambda: self._is_full() or self._reclaim.is_running or self._pools.has_excess(), self._is_full
        )
        self._reclaim_one = False
        return is_busy or is_reclaimed

    def _is_full(self) -> bool:
        return self._space.is_reclaim_due or self._reclaim_one

    def _finish(self) -> bool:
        self._appenders.finish_all()
        return False

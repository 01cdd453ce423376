"""The writer: the one thread that changes the directory. Takes the backlog, a batch at a time:

    take -> make room -> append the records -> one transaction: rows, heads, removals, in order -> settle
         -> a bit of reclaim

A batch that fails, because the disk is full, say, loses its blocks and heads, and admissions pause for a while that
doubles with each failure. Its removals must not be lost: they are tried again on their own, and if even that fails,
everything in the directory is disowned, at once for all processes and for whoever opens it later.
"""

import time
from collections.abc import Callable
from typing import Final

import lmdb

from forebay.core.events import AdmissionThrottled, BlockAdmitted, Observe, TierFailed
from forebay.core.names import Generation
from forebay.storage.ssd.addressing import listing_prefix
from forebay.storage.ssd.head_codec import decode_head
from forebay.storage.ssd.index import DAMAGE, BlockLocation
from forebay.storage.ssd.index_updates import IndexUpdates
from forebay.storage.ssd.reclaim import Reclaim
from forebay.storage.ssd.record import record_size
from forebay.storage.ssd.recovery import OpenDirectory
from forebay.storage.ssd.segment_appender import SegmentAppender, encode_record
from forebay.storage.ssd.write_queue import (
    AdmitBlock,
    DropBlock,
    DropHead,
    FlushQueue,
    ForgetObject,
    PurgePrefix,
    PutHead,
    Removal,
    WriteOrder,
    WriteQueue,
)

GATHER_SECONDS: Final = 0.05
IDLE_SECONDS: Final = 1.0
PAUSE_PER_SEGMENT: Final = 0.001  # reading the row of one costs some microseconds: about a hundredth of the time
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
FEW_ROWS: Final = 1_000  # of one object are removed together with the rest of a batch
ROWS_AT_ONCE: Final = 10_000  # otherwise in transactions of their own: some 10 ms each
BATCH_SHARE: Final = 4
NAMES_AT_ONCE: Final = 1_000


class SsdWriter:
    """See the module. `run` is the thread; everything else may be asked from any thread."""

    def __init__(self, opened: OpenDirectory, backlog: WriteQueue, observe: Observe, steady_seconds: float) -> None:
        self._opened = opened
        self._directory = opened.directory
        self._index = opened.index
        self._segments = opened.segments
        self._space = opened.space
        self._touched = opened.references
        self._addressing = opened.addressing
        self._backlog = backlog
        self._observe = observe
        self._appender = SegmentAppender(opened.index, opened.segments, opened.space)
        self._reclaim = Reclaim(opened, self._appender, backlog, observe)
        self._pause = FIRST_PAUSE
        self._resume_at = 0.0
        self._swept = False
        self._give_back = False
        self._measure_at = 0.0
        self._steady = not opened.is_first
        self._steady_at = time.monotonic() + steady_seconds

    @property
    def is_paused(self) -> bool:
        """Whether admissions rest after a failure."""
        return time.monotonic() < self._resume_at

    def run(self) -> None:
        """Until the backlog is closed and empty."""
        try:
            self._serve()
        except BaseException as error:
            self._disown(error)
            raise
        finally:
            # Nobody may wait for a thread that is gone. After a proper end there is nothing left to settle.
            self._backlog.close()
            self._backlog.settle(self._backlog.get_batch(0, 0) or [], {})

    def _serve(self) -> None:
        busy = self._tidy()
        while (
            orders := self._backlog.get_batch(0 if busy else GATHER_SECONDS, 0 if busy else IDLE_SECONDS)
        ) is not None:
            removed: dict[Removal, int] = {}
            try:
                if orders and not self._touched.is_disowned:
                    self._carry_out(orders, removed)
            finally:
                self._appender.release_filled()
                self._backlog.settle(orders, removed)
            busy = self._tidy()
        self._in_peace("close", self._finish)

    # Orders

    def _carry_out(self, orders: list[WriteOrder], removed: dict[Removal, int]) -> None:
        try:
            admissions = self._wanted(orders)
            places = self._append(admissions)
            self._commit(orders, places, removed)
        except Exception as error:
            # Whatever it is: this thread must live, or removals would be lost.
            self._failed("write", error)
            self._insist([order for order in orders if isinstance(order, ForgetObject | PurgePrefix)], removed)
            return
        if places:
            self._pause = FIRST_PAUSE
            for order in admissions:
                self._observe(BlockAdmitted("ssd", len(order.buffer)))

    def _append(self, admissions: list[AdmitBlock]) -> dict[bytes, BlockLocation]:
        """Write the blocks; where each lies. Nowhere if that failed: heads and removals go on without them."""
        try:
            places = self._appender.append([encode_record(order.address, order.buffer) for order in admissions])
        except (OSError, lmdb.Error) as error:
            self._failed("write", error)
            return {}
        return {order.address: place for order, place in zip(admissions, places, strict=True)}

    def _wanted(self, orders: list[WriteOrder]) -> list[AdmitBlock]:
        """The admissions that are to be written: of blocks that aren't there yet, and as far as there is room. What is
        dropped in the same batch isn't there: it was found damaged, and what is admitted is to replace it."""
        offered = {order.address: order for order in orders if isinstance(order, AdmitBlock)}
        dropped = {(order.address, order.location) for order in orders if isinstance(order, DropBlock)}
        if not offered or self.is_paused:
            return []
        present = self._index.locations(list(offered))
        wanted = [
            order
            for order, place in zip(offered.values(), present, strict=True)
            if place is None or (order.address, place) in dropped
        ]
        # A batch must not turn over a large share of a tiny tier: what is beyond would only push out the rest of it.
        size, share = 0, self._space.capacity // BATCH_SHARE
        for nth, order in enumerate(wanted):
            if size + record_size(len(order.buffer)) > share:
                self._throttled(wanted[nth:])
                wanted = wanted[:nth]
                break
            size += record_size(len(order.buffer))
        while not self._space.has_space_for(size) and not self._backlog.is_urgent and self._directory.elect():
            if not self._reclaim.step():
                break
        if self._space.has_space_for(size):
            return wanted
        self._throttled(wanted)
        return []

    def _throttled(self, orders: list[AdmitBlock]) -> None:
        for order in orders:
            self._observe(AdmissionThrottled("ssd", len(order.buffer)))

    def _commit(
        self, orders: list[WriteOrder], places: dict[bytes, BlockLocation], removed: dict[Removal, int]
    ) -> None:
        """Record the orders, in order. One transaction, unless something large is to be removed."""
        run: list[WriteOrder] = []
        for order in orders:
            if isinstance(order, PurgePrefix):
                self._record(run, places)
                run = []
                removed[order] = self._purge(order)
            elif not isinstance(order, FlushQueue):
                run.append(order)
        self._record(run, places)

    def _record(self, orders: list[WriteOrder], places: dict[bytes, BlockLocation]) -> None:
        if not any(order.address in places for order in orders if isinstance(order, AdmitBlock)):
            orders = [order for order in orders if not isinstance(order, AdmitBlock)]
        if not orders:
            return
        large: list[ForgetObject] = []
        with self._index.write_transaction() as txn:
            changes = IndexUpdates(txn, self._index.tables)
            for order in orders:
                match order:
                    case AdmitBlock(address):
                        if (place := places.get(address)) is not None:
                            changes.put_block(address, place)
                    case PutHead(name, address, head):
                        changes.put_head(name, address, head)
                    case DropBlock(address, place):
                        changes.move_block(address, place, None)
                    case DropHead(address, raw):
                        changes.remove_head_at(address, raw)
                    case ForgetObject(name, address, keep):
                        changes.remove_head(name, address)
                        if not changes.remove_blocks(address, keep, FEW_ROWS):
                            large.append(order)
                    case PurgePrefix() | FlushQueue():
                        pass  # not rows: see _commit
        for order in large:
            # Its head is gone, so nothing leads to these blocks any more; still, `forget` promises that they are gone.
            self._remove_blocks(order.address, order.keep)

    def _remove_blocks(self, address: bytes, keep: Generation | None) -> None:
        done = False
        while not done:
            with self._index.write_transaction() as txn:
                done = IndexUpdates(txn, self._index.tables).remove_blocks(address, keep, ROWS_AT_ONCE)

    def _purge(self, order: PurgePrefix) -> int:
        """Forget all objects under a prefix; how many there were."""
        start = listing_prefix(order.bucket, order.prefix)
        after = b""
        count = 0
        while rows := self._index.list_names(start, after, NAMES_AT_ONCE):
            after = rows[-1][0]
            named = [found.name for _, raw in rows if (found := decode_head(raw)) is not None]
            forgets: list[WriteOrder] = [
                ForgetObject(name, self._addressing.object_address(name), None, order.settle)
                for name in named
                if name.key.startswith(order.prefix)
            ]
            self._record(forgets, {})
            count += len(forgets)
        return count

    def _insist(self, removals: list[Removal], removed: dict[Removal, int]) -> None:
        """Removals of a batch that failed: on their own, or everything is disowned."""
        try:
            self._commit(list(removals), {}, removed)
        except Exception as error:
            self._disown(error)

    # Failures

    def _failed(self, operation: str, error: Exception) -> None:
        self._observe(TierFailed("ssd", operation, str(error)))
        self._resume_at = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        if isinstance(error, DAMAGE):
            self._disown(error)
        # Others may have filled the disk: give one segment back.
        self._give_back = isinstance(error, OSError | lmdb.DiskError | lmdb.MapFullError)

    def _disown(self, error: BaseException) -> None:
        """Nothing in the directory may be believed: a removal is not in it, or it is damaged."""
        self._touched.disown()
        self._observe(TierFailed("ssd", "disown", str(error)))
        try:
            self._directory.disown()
        except OSError as failure:
            # The mark in `touched` says it as well.
            self._observe(TierFailed("ssd", "disown", str(failure)))

    def _in_peace(self, operation: str, act: Callable[[], bool]) -> bool:
        """Do what nobody waits for; False if it failed."""
        try:
            return act()
        except Exception as error:
            self._failed(operation, error)
            return False

    # Between batches

    def _tidy(self) -> bool:
        """A bounded piece of what is always to be done; whether there is more of it."""
        busy = False
        if not self._touched.is_disowned:
            self._in_peace("measure", self._measure)
            if self._directory.elect():
                busy = self._in_peace("sweep", self._sweep)
                busy = self._in_peace("reclaim", self._reclaim_some) or busy
        return busy

    def _measure(self) -> bool:
        """Bring the book up to date with the index."""
        self._space.index_bytes = self._index.size()
        if not self._directory.is_exclusive and time.monotonic() >= self._measure_at:
            # Other writers add segments as well; their unfinished ones are as long as their files.
            rows = self._index.segments()
            self._measure_at = time.monotonic() + min(IDLE_SECONDS, len(rows) * PAUSE_PER_SEGMENT)
            self._space.replace({number: size or self._segments.size(number) for number, size in rows.items()})
        if not self._steady and time.monotonic() >= self._steady_at:
            self._steady = True
            self._opened.mark_steady()
        return False

    def _sweep(self) -> bool:
        """Delete what a crash or a discarding left behind."""
        if not self._swept:
            self._swept = True
            known = self._index.segments()
            for number in self._segments.numbers():
                if number not in known and not self._segments.has_writer(number):
                    self._segments.delete(number)
            self._index.env.reader_check()
        return self._directory.delete_discarded()

    def _reclaim_some(self) -> bool:
        busy = self._reclaim.sweep_heads() and self._space.is_reclaim_due
        if self._space.is_reclaim_due or self._reclaim.is_running or self._give_back:
            self._give_back = False
            busy = self._reclaim.step() or busy
        return busy

    def _finish(self) -> bool:
        self._appender.finish()
        return False

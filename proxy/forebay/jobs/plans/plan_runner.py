"""The plan runner: keeps the bytes that one plan's reader wants next ahead of it.

    reads ──> window ──> front ──> room within the horizon ──> fetch the next entries, in order ──> cached
                                                                 by jobs.prefetch.node_prefetcher ──┘

The horizon bounds the bytes that are fetched and unread: by the rule of the plan's objects, by the plan's share of
`memory.ahead`, and by HORIZON_SECONDS at the reader's pace. As many entries are in flight as that pace needs for the
duration of a fetch. So a reader that stops costs one horizon, once.

Each entry is authorised again when its turn comes, by the grants then in force. A reader that leaves the plan's order
and is found elsewhere in it is followed there.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from forebay.core.events import ObjectRead
from forebay.core.names import ObjectName
from forebay.core.plan_progress import PlanState
from forebay.core.timers import Timers
from forebay.jobs.plans.entry_access import EntryAccess
from forebay.jobs.plans.entry_fetches import FULL_PAUSE, EntryFetches
from forebay.jobs.plans.plan_allowance import Allowance
from forebay.jobs.plans.plan_counts import UNCOUNTED, PlanMetrics, RunnerCounts
from forebay.jobs.plans.plan_entries import OrderedEntries
from forebay.jobs.plans.plan_pace import PlanPace
from forebay.jobs.plans.plan_store import PlanRecord
from forebay.jobs.plans.plan_window import SPREAD, PlanStart, PlanWindow, WindowEntry, tickets_of
from forebay.jobs.plans.reader_search import ReaderSearch
from forebay.jobs.prefetch.prefetch_request import PrefetchLookup
from forebay.peers.frames import Spawn

TICK_SECONDS: Final = 0.5
MAX_FOUND: Final = 32
"""Entries that are found to be cached in one turn of the loop, some 10 us each."""
MAX_BEGUN: Final = 4
"""Entries whose fetches begin in one turn of the loop, some 60 us each."""
IDLE_SECONDS: Final = 600.0
END_SECONDS: Final = 60.0
"""Seconds without a read, after which a plan ends whose last entry was read. Skipped entries do not matter."""
EXPIRE_SECONDS: Final = 86400.0
MAX_CACHED_IN_ROW: Final = 512
"""Entries in a row, all cached already, after which the plan of a recording ends: its reader does not need it."""

_log = logging.getLogger(__name__)


class PlanRunner:
    """Runs one plan from `run` until it has ended, or `cancel`."""

    def __init__(
        self,
        record: PlanRecord,
        entries: OrderedEntries,
        start: PlanStart,
        ahead: PrefetchLookup,
        allowance: Callable[[], Allowance | None],
        timers: Timers,
        spawn: Spawn,
        clock: Callable[[], float],
        metrics: PlanMetrics = UNCOUNTED,
    ) -> None:
        """`ahead`: fetches entries, here or in their owners. `allowance`: returns None once the principal is gone.
        `clock`: seconds since the epoch."""
        self.record = record
        self.window = PlanWindow(record.entries, start)
        self.state: PlanState = "queued"
        self.is_closed = asyncio.Event()
        self.is_near_end = False
        """Whether the follower of a recording has seen the reader near its end: the last entries may never be read."""
        self._entries = EntryAccess(entries)
        self._ahead = ahead
        self._allowance = allowance
        self._timers = timers
        self._spawn = spawn
        self._clock = clock
        self.counts = RunnerCounts(metrics)
        self._wake = asyncio.Event()
        self.ended_at: float | None = None
        self.closed_at: int | None = None
        """The position of its reader when it was closed. All entries behind it are given up."""
        self._search = ReaderSearch(self._entries)
        self.pace = PlanPace(timers.time())
        self._known_allowance: Allowance | None = None
        """The allowance under which the entries of the window were fetched."""
        self._early_reads: list[ObjectRead] | None = []
        """The reads that came before the entries around the reader were loaded; None once they are loaded."""
        self.data_set = ""
        self._fetches = EntryFetches(
            record, self.window, self.pace, self.counts, ahead, timers, spawn, self._horizon, self._end_fetch
        )

    def __repr__(self) -> str:
        return f"<PlanRunner {self.record.name} {self.state} {self.window!r} {self._fetches.in_flight} in flight>"

    @property
    def has_fetched_all(self) -> bool:
        """Whether nothing is left to be fetched: the next plan of the series may begin."""
        return self.window.next >= self.window.count or self._fetches.retry.is_suspended

    # The reader

    def match(self, reads: Sequence[ObjectRead]) -> list[ObjectRead]:
        """Follows reads of the plan's principal in its bucket. Returns the reads of other entries than the next
        ones."""
        if self._early_reads is not None:
            self._early_reads += reads[: max(0, SPREAD - len(self._early_reads))]
            return []
        window, ready, late, strays = self.window, list[WindowEntry](), list[WindowEntry](), list[ObjectRead]()
        for read in reads:
            found = window.match(read.name.key, read.span)
            if not found:
                self._search.read_outside_window(read.name.key)
                strays.append(read)
                continue
            self._search.entry_read(found[0])
            (late if read.cached < 1.0 else ready).extend(found)
            for entry in found:
                stop = read.span.stop if entry.stop is None else min(entry.stop, read.span.stop)
                self.pace.entry_read(stop - (read.span.start if entry.stop is None else entry.start))
        if ready or late:
            self.pace.last_read = self._timers.time()
            self.counts.note_read(len(ready), len(late))
            for entries in (ready, late):  # those under way are finished by their fetch
                arrived = [entry for entry in entries if entry.state == "cached"]
                self._ahead.finish(tickets_of(arrived), late=entries is late)
            if self.state == "idle":
                self.state = "running"
            self._fetches.note_read()
        self._wake.set()
        return strays

    # The loop

    async def run(self) -> None:
        """Fetches ahead until the plan has ended."""
        if self.is_closed.is_set():
            return
        self.state = "running"
        self.pace.last_read = self._timers.time()
        try:
            while not (self.is_closed.is_set() or self._is_ended()):
                self._wake.clear()
                is_loaded = await self._load()
                if self._begin_fetches():
                    await asyncio.sleep(0)
                    continue
                if not is_loaded:
                    continue
                is_pausing = self._fetches.full_until or self._fetches.is_pausing(self._timers.time())
                pause = FULL_PAUSE if is_pausing else TICK_SECONDS
                timer = self._timers.call_later(pause, self._wake.set)
                try:
                    await self._wake.wait()
                finally:
                    timer.cancel()
        finally:
            self.close("cancelled")

    def close(self, state: PlanState) -> None:
        """Drops the prefetched bytes, and ends `run`. A plan that has ended keeps its state."""
        if self.ended_at is None:
            self._end(state)
            self._wake.set()
        if not self.is_closed.is_set():
            self.is_closed.set()
            self.closed_at = self.window.front
            self._drop(self.window.give_up_before(self.window.count))
            self._entries.close()

    def _end(self, state: PlanState) -> None:
        self.state, self.ended_at = state, self._clock()

    def _is_ended(self) -> bool:
        now, window = self._timers.time(), self.window
        self.pace.measure(now)
        since = now - self.pace.last_read
        allowance = self._allowance()
        if allowance is None:
            self._end("revoked")
        elif window.is_read or ((self.is_near_end or window.front >= window.count) and since > END_SECONDS):
            self._end("done")
        elif since > EXPIRE_SECONDS:
            self._end("expired")
        elif self.record.recording and self._fetches.cached_in_row > MAX_CACHED_IN_ROW:
            self._end("done")
        if self.ended_at is not None:
            return True
        self._give_up(window.give_up_stragglers(self._horizon() // 2))
        known, self._known_allowance = self._known_allowance, allowance
        if allowance is not None and known is not None and known is not allowance:
            self._spawn(self._give_up_forbidden(allowance), f"look at what {self.record.name} may have")
        if since > IDLE_SECONDS and (self.state == "running" or window.lead):  # some of it has arrived since
            self.state = "idle"
            self._drop(window.rewind())
        if self._search.is_due:
            self._search.begin()
            self._spawn(self._find_reader(), f"find the reader of {self.record.name}")
        return False

    async def _load(self) -> bool:
        """Loads the next entries that the window lacks. Returns whether it lacks none: those that it has are fetched
        meanwhile."""
        missing = self.window.missing()
        if missing:
            try:
                found = await asyncio.to_thread(self._entries.read, missing.start, missing.stop)
            except (OSError, ValueError) as error:
                if not self.is_closed.is_set():
                    _log.error("plan %s can't be read any more: %s", self.record.name, error)
                    self._end("cancelled")
                return True
            self.window.load(found)
        if self.window.missing():
            return False
        early, self._early_reads = self._early_reads, None
        if early:
            self.match(early)
        return True

    def _horizon(self) -> int:
        allowance = self._allowance()
        first = self.window.first_key
        if allowance is None or first is None:
            return 0
        return self.pace.horizon(allowance.horizon(ObjectName(self.record.bucket, first)))

    def _begin_fetches(self) -> bool:
        """Begins to fetch entries within the horizon. Returns whether to go on in the next turn of the loop."""
        allowance, window, fetches, found, begun = self._allowance(), self.window, self._fetches, 0, 0
        if allowance is None or self.state != "running" or fetches.is_pausing(self._timers.time()):
            return False
        fetches.full_until = 0.0
        if not (horizon := self._horizon()):
            return False
        expected = self.pace.expected_size(horizon)
        most = self.pace.most_in_flight(window.lead, window.next - window.base)
        while fetches.in_flight < most and (window.lead + expected <= horizon or not window.lead):
            if fetches.retry.is_suspended or (entry := window.next_pending()) is None:
                return False
            if found == MAX_FOUND or begun == MAX_BEGUN:
                return True
            request = fetches.request(entry, entry.start, allowance.identity)
            if not allowance.permits(request.name):
                fetches.fail(entry)
                continue
            self.data_set = self.data_set or allowance.data_set(request.name)
            if (here := self._ahead.find_nowait(request)) is not None:
                found += 1
                fetches.note_found(entry, here)
                expected = self.pace.expected_size(horizon)
            else:
                begun += 1
                fetches.begin(entry, request, expected)
        return False

    def _give_up(self, entries: Sequence[WindowEntry]) -> None:
        if entries:
            self.counts.note_given_up(len(entries))
            self._drop(entries)

    def _drop(self, entries: Sequence[WindowEntry]) -> None:
        self.counts.note_dropped(entries)
        self._ahead.drop(tickets_of(entries))

    async def _give_up_forbidden(self, allowance: Allowance) -> None:
        """Gives up the entries that the grants in force no longer let the principal read."""
        forbidden = await allowance.forbidden(self.record.bucket, self.window.fetched)
        self._give_up(self.window.give_up(forbidden))

    def _end_fetch(self, entry: WindowEntry) -> None:
        if entry.is_read:
            self._ahead.finish(tickets_of((entry,)), late=True)
        elif entry.is_given_up:
            self._drop((entry,))
        self._wake.set()

    # A reader elsewhere

    async def _find_reader(self) -> None:
        """Moves the window to the reader, if the search finds it ahead of the window."""
        found = await self._search.position(self.window.loaded, self.window.front)
        if found is not None and found > self.window.front:
            _log.info("plan %s: its reader is at entry %d", self.record.name, found)
            self._give_up(self.window.give_up_before(found))
        self._wake.set()

"""Entry fetches: each entry of a plan from the beginning of its fetch until its bytes are here, or it is left out.

    begin ──an object of one block──> without a task ──fetched──> arrived
       │                                  └── full, unavailable, failed ──┐
       └──> a task: piece by piece, with other attempts <─────────────────┘

What goes wrong ends in one of three ways: the entry is put back, and fetched later; it is left out; or its start is
here, and its reader fetches the rest.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from forebay.core.names import ObjectName
from forebay.core.timers import Timers
from forebay.jobs.plans.plan_counts import RunnerCounts
from forebay.jobs.plans.plan_pace import PlanPace
from forebay.jobs.plans.plan_retry import PlanRetry
from forebay.jobs.plans.plan_store import PlanRecord
from forebay.jobs.plans.plan_window import PlanWindow, WindowEntry
from forebay.jobs.prefetch.prefetch_request import PrefetchLookup, PrefetchOutcome, PrefetchRequest
from forebay.jobs.prefetch.prefetcher import PIECE
from forebay.origin.origin_identity import OriginIdentity
from forebay.peers.frames import Spawn

FULL_PAUSE: Final = 0.05
"""Seconds until an entry without room is tried again, if nothing was read meanwhile."""

_log = logging.getLogger(__name__)


class EntryFetches:
    """The fetches of one plan. See the module."""

    def __init__(
        self,
        record: PlanRecord,
        window: PlanWindow,
        pace: PlanPace,
        counts: RunnerCounts,
        ahead: PrefetchLookup,
        timers: Timers,
        spawn: Spawn,
        horizon: Callable[[], int],
        on_end: Callable[[WindowEntry], None],
    ) -> None:
        """`horizon` returns the bytes that may lie ahead of the reader now. `on_end`: called with each entry at the end
        of its fetch."""
        self._record, self._window, self._pace, self._counts = record, window, pace, counts
        self._ahead, self._timers, self._spawn = ahead, timers, spawn
        self._horizon, self._on_end = horizon, on_end
        self.retry = PlanRetry()
        self.in_flight = 0
        self.full_until = 0.0
        """The end of the pause for want of room; 0: there is none."""
        self.cached_in_row = 0
        """The number of entries in a row that were cached already."""

    def is_pausing(self, now: float) -> bool:
        """Whether nothing may be begun yet."""
        return self.full_until > now or self.retry.until > now

    def note_read(self) -> None:
        """Entries were read: there may be room, and the reader is where the plan says."""
        self.full_until, self.retry.left_out = 0.0, 0

    def request(self, entry: WindowEntry, position: int, identity: OriginIdentity | None) -> PrefetchRequest:
        """Returns the request for an entry from `position` on."""
        record, expected = self._record, min(self._pace.mean_size, PIECE)
        name = ObjectName(record.bucket, entry.key)
        return PrefetchRequest(name, position, entry.stop, record.id, identity, expected, record.checksums)

    def note_found(self, entry: WindowEntry, here: PrefetchOutcome) -> None:
        """The next entry was cached already."""
        entry.tickets += (here.ticket,) if here.ticket else ()
        self.cached_in_row, self.retry.left_out = (0 if here.ticket else self.cached_in_row + 1), 0
        self._window.note_cached(entry, here.stop - entry.start)
        self._pace.entry_found(entry.size)

    def fail(self, entry: WindowEntry) -> None:
        """Leaves an entry out."""
        self._window.settle(entry)
        self.retry.left_out += 1
        self._counts.note_failed()

    def begin(self, entry: WindowEntry, request: PrefetchRequest, expected: int) -> None:
        """Begins to fetch the next entry, which counts `expected` bytes until its size is known."""
        self._window.begin(entry, expected)
        self.in_flight += 1
        began = self._timers.time()
        if not self._ahead.begin(request, partial(self._end_direct, entry, request.identity, began)):
            self._go_on(entry, request.identity, began)

    def _go_on(
        self, entry: WindowEntry, identity: OriginIdentity | None, began: float, first: PrefetchOutcome | None = None
    ) -> None:
        self._spawn(self._fetch(entry, identity, began, first), f"fetch {entry.key} ahead")

    def _end_direct(
        self, entry: WindowEntry, identity: OriginIdentity | None, began: float, outcome: PrefetchOutcome
    ) -> None:
        self._note_piece(entry, outcome)
        if outcome.status != "fetched" or outcome.stop < outcome.size:
            self._go_on(entry, identity, began, outcome)
            return
        try:
            self.retry.succeeded()
            self._window.arrive(entry, outcome.stop)
            self._settle(entry, began, is_known=True)
        finally:
            self._end(entry)

    async def _fetch(
        self, entry: WindowEntry, identity: OriginIdentity | None, began: float, first: PrefetchOutcome | None
    ) -> None:
        """Fetches an entry piece by piece. `first`: the outcome of an attempt without a task."""
        position, is_known, outcome = entry.start, False, first
        try:
            while not (entry.is_read or entry.is_given_up):
                if outcome is None:
                    outcome = await self._ahead.fetch(self.request(entry, position, identity))
                    self._note_piece(entry, outcome)
                if outcome.status == "full":
                    self.full_until = self._timers.time() + FULL_PAUSE
                    if is_known:
                        break  # the start of it is here
                    self._window.put_back(entry)
                    return
                if outcome.status == "unavailable":
                    entry.attempts += 1
                    if self.retry.failed(self._timers.time(), entry.attempts) and not is_known:
                        self._window.put_back(entry)
                        return
                if outcome.status != "fetched":
                    _log.info("plan %s: %s is not fetched ahead: %s", self._record.name, entry.key, outcome.problem)
                    self.fail(entry)
                    return
                stop = outcome.size if entry.stop is None else min(entry.stop, outcome.size)
                is_known = True
                self.retry.succeeded()
                self._window.arrive(entry, outcome.stop - position)
                lead = self._window.lead - entry.counted + entry.size  # what it was expected to take is not here yet
                if outcome.stop >= stop or outcome.stop <= position or lead >= self._horizon():
                    break
                position, outcome = outcome.stop, None
            self._settle(entry, began, is_known=is_known)
        finally:
            self._end(entry)

    def _note_piece(self, entry: WindowEntry, outcome: PrefetchOutcome) -> None:
        self._counts.note_fetched(entry, outcome)
        if outcome.ticket:
            entry.tickets.append(outcome.ticket)
            self.cached_in_row = 0

    def _settle(self, entry: WindowEntry, began: float, *, is_known: bool) -> None:
        self._pace.entry_fetched(self._timers.time() - began, entry.size if is_known else None)
        self._window.settle(entry)
        if is_known and not entry.tickets:
            self.cached_in_row += 1

    def _end(self, entry: WindowEntry) -> None:
        self.in_flight -= 1
        self._on_end(entry)

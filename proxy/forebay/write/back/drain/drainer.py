"""The drainer: carries accepted writes out at the origin, in their order, until each is settled.

    add ──> prepared, at once ──┐
     └────> DrainOrder ──ready──┴> attempt ──done──> installed ──> settled ──> its place in the order is free
                                      ├──failed──> pause (retry_pauses) ──> attempt
                                      └──stuck, or in conflict ──> waits for a person: retry or discard
    done, and can't be settled ──> once more, later; only what comes after it of its object waits (drain_order)
    a later one of its object has arrived ───────> settled, without an attempt
    keep, of another origin ─────────────────────> stuck; nothing waits for it

A write is never dropped. A failed write is tried again for ever, by itself; a write that the origin refuses for good
stays visible, and so do the writes that depend on it. One worker of the node drains (Journal.try_become_drainer).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from forebay.core.requester import BACKGROUND, requester
from forebay.core.task_registry import TaskRegistry
from forebay.policy.drain_order import DrainOrder
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.pending_objects import PendingVersion
from forebay.write.back.drain.persist_outcome import PersistOutcome, unsettled_reason
from forebay.write.back.drain.persister import Persister
from forebay.write.back.drain.retry_pauses import RetryPauses
from forebay.write.back.drain.upload_preparation import PreparedUpload
from forebay.write.back.pending.accepted_write import AcceptedWrite

CONCURRENCY: Final = 16
"""Large bodies, and other steps, under way at a time."""
LARGE: Final = 8 << 20
"""Bytes of a PUT whose body is a large one."""

_log = logging.getLogger(__name__)

Settled = Callable[[AcceptedWrite, RecordId, PersistOutcome], Awaitable[None]]
"""Called for a write that is done, before the next one of its object is sent: installs the object, and has it settled
in the journal and forgotten in every worker."""


@dataclass(slots=True)
class DrainEntry:
    """One unsettled write."""

    write: AcceptedWrite
    version: PendingVersion
    may_be_done: bool
    attempts: int = 0
    reason: str = ""
    """Why the last attempt failed."""
    is_stuck: bool = False
    is_conflict: bool = False
    """Whether it is stuck because somebody else wrote the object meanwhile."""
    is_kept: bool = False
    """Whether it was accepted for another origin: it has no place in the order, and no attempt is made."""
    prepared: PreparedUpload | None = None
    preparing: asyncio.Task[None] | None = None
    """The steps that need no order, under way since the write was accepted."""


class Drainer:
    """The unsettled writes, and the attempts under way."""

    def __init__(
        self,
        persister: Persister,
        settled: Settled,
        tasks: TaskRegistry,
        pauses: RetryPauses,
        stopped: Callable[[RecordId, AcceptedWrite, PersistOutcome], None] = lambda _record, _write, _outcome: None,
        resumed: Callable[[RecordId], None] = lambda _record: None,
        is_superseded: Callable[[AcceptedWrite], bool] = lambda _write: False,
    ) -> None:
        """`stopped`: called for a write that is left to a person; `resumed`: for one that is tried again.
        `is_superseded`: whether the origin has a later write of the same object."""
        self._persister = persister
        self._settled = settled
        self._tasks = tasks
        self._pauses = pauses
        self._stopped = stopped
        self._resumed = resumed
        self._is_superseded = is_superseded
        self._order: DrainOrder[RecordId] = DrainOrder()
        self.entries: dict[RecordId, DrainEntry] = {}
        self._stopped_records: set[RecordId] = set()
        self._is_writable = asyncio.Event()
        """The journal, as far as is known. Else one write tries to be settled again, and others wait for that."""
        self._is_writable.set()
        self._steps = asyncio.Semaphore(CONCURRENCY)
        self._bodies = asyncio.Semaphore(CONCURRENCY)
        """The turns of large bodies and of uploads that are prepared: no small write waits for them."""

    def add(self, write: AcceptedWrite, version: PendingVersion, *, is_recovered: bool = False) -> None:
        """Adds a write, unless it is here. `is_recovered`: it may have been carried out already."""
        if version.record in self.entries:
            return
        entry = self.entries[version.record] = DrainEntry(write, version, may_be_done=is_recovered)
        if write.kind == "complete" and not is_recovered:
            entry.preparing = self._tasks.spawn(self._prepare(entry), f"prepare {write.name.path}")
        self._order.add(version.record, write.interval, [write.name])
        self._begin_ready()

    def keep(self, write: AcceptedWrite, version: PendingVersion, reason: str) -> None:
        """Adds a write that was accepted for another origin, unless it is here: it is stuck until a person decides."""
        if version.record not in self.entries:
            _log.error("a write of %s is stuck: %s", write.name.path, reason)
            self.entries[version.record] = DrainEntry(
                write, version, may_be_done=True, reason=reason, is_stuck=True, is_kept=True
            )
            self._stopped_records.add(version.record)

    def retry(self, record: RecordId) -> None:
        """Tries a stuck write once more. One of another origin stays as it is."""
        entry = self.entries[record]
        if entry.is_stuck and not entry.is_kept:
            entry.is_stuck = False
            self._stopped_records.discard(record)
            self._resumed(record)
            self._tasks.spawn(self._carry_out(record), f"persist {entry.write.name.path}")

    @property
    def stopped(self) -> list[DrainEntry]:
        """The writes that are left to a person."""
        return [self.entries[record] for record in self._stopped_records]

    @property
    def waiting(self) -> int:
        """The number of writes that wait for another one."""
        return self._order.waiting

    def blocked_by(self, record: RecordId) -> RecordId | None:
        """Returns the write that one waits for the longest; None: it waits for no other."""
        return None if self.entries[record].is_kept else self._order.blocked_by(record)

    def discard(self, record: RecordId) -> AcceptedWrite:
        """Gives a stuck write up, by a person's order. The caller has it settled in the journal."""
        entry = self.entries[record]
        if not entry.is_stuck:
            raise ValueError("only a write that is stuck can be discarded")
        self._remove(record)
        self._abandon(entry)
        return entry.write

    def _abandon(self, entry: DrainEntry) -> None:
        """Has aborted what was prepared at the origin."""
        if entry.prepared is not None or entry.preparing is not None:
            self._tasks.spawn(self._abort(entry), f"abort an upload of {entry.write.name.path}")

    async def _abort(self, entry: DrainEntry) -> None:
        if entry.preparing is not None:
            await asyncio.wait([entry.preparing])
        if entry.prepared is not None:
            await self._persister.abort(entry.write, entry.prepared)

    def _begin_ready(self) -> None:
        for record in self._order.ready():
            self._tasks.spawn(self._carry_out(record), f"persist {self.entries[record].write.name.path}")

    async def _carry_out(self, record: RecordId) -> None:
        entry = self.entries[record]
        bucket = entry.write.name.bucket
        pause = self._pauses.of(bucket)
        requester.set(BACKGROUND)  # of this task alone
        while True:
            if self._is_superseded(entry.write):  # it became known while the later one was under way
                _log.info("a write of %s is replaced by a later one that has arrived already", entry.write.name.path)
                outcome = PersistOutcome("done")
                self._abandon(entry)
                break
            outcome = await self._attempt(entry)
            entry.attempts += 1
            entry.reason, entry.may_be_done, entry.is_conflict = outcome.reason, True, outcome.is_conflict
            if outcome.result == "done":
                break
            if outcome.result == "stuck":
                entry.is_stuck = True
                self._stopped_records.add(record)
                self._stopped(record, entry.write, outcome)
                state = "in" if outcome.is_conflict else "stuck:"  # that reason begins with "conflict:"
                _log.error("a write of %s is %s %s", entry.write.name.path, state, outcome.reason)
                return
            _log.info("a write of %s has to be tried again: %s", entry.write.name.path, outcome.reason)
            await pause.wait(is_unanswered=outcome.is_unanswered)
        await self._settle(entry, record, outcome)
        self._remove(record)

    async def _settle(self, entry: DrainEntry, record: RecordId, outcome: PersistOutcome) -> None:
        pause, tries_for_all = self._pauses.of(entry.write.name.bucket), False
        try:
            while True:
                try:
                    await self._settled(entry.write, record, outcome)
                    return
                except OSError as error:
                    entry.reason = unsettled_reason(error)
                    path, tries_for_all = entry.write.name.path, tries_for_all or self._is_writable.is_set()
                    level = logging.ERROR if tries_for_all else logging.INFO
                    _log.log(level, "a write of %s can't be settled in the journal: %s", path, error.strerror)
                    self._order.note_done(record)
                    self._begin_ready()
                    if tries_for_all:
                        self._is_writable.clear()
                        await pause.wait()
                    else:
                        await self._is_writable.wait()
        finally:
            if tries_for_all:
                self._is_writable.set()

    async def _prepare(self, entry: DrainEntry) -> None:
        requester.set(BACKGROUND)  # of this task alone
        async with self._bodies:
            prepared = await self._persister.prepare(entry.write)
        if isinstance(prepared, PreparedUpload):
            entry.prepared = prepared

    async def _attempt(self, entry: DrainEntry) -> PersistOutcome:
        if entry.preparing is not None:
            await asyncio.wait([entry.preparing])
        if entry.write.kind == "complete" and entry.prepared is None:
            async with self._bodies:
                if entry.may_be_done and (found := await self._persister.look(entry.write)) is not None:
                    return found
                prepared = await self._persister.prepare(entry.write)
            if isinstance(prepared, PersistOutcome):
                return prepared
            entry.prepared = prepared
        is_large = entry.write.kind == "put" and entry.write.size > LARGE
        async with self._bodies if is_large else self._steps:
            outcome = await self._persister.commit(
                entry.write,
                entry.version,
                entry.prepared,
                may_be_done=entry.may_be_done,
                is_first=entry.attempts == 0,
            )
        if outcome.is_upload_gone:
            entry.prepared = None
        return outcome

    def _remove(self, record: RecordId) -> None:
        self._stopped_records.discard(record)
        if self.entries.pop(record).is_kept:
            return
        self._order.settle(record)
        self._begin_ready()

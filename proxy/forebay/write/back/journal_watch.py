"""The journal watch: one worker's periodic work on the journal's directory, from its start to its end.

start        shows the pending writes of earlier runs to readers again, and has them carried out
run          takes over from a drainer that has ended; aborts uploads that a stop has left; reclaims, or looks for
             records settled without a message
stop         waits for pending writes, for a bounded time, but not for those that wait for a person; logs how many
             are left in the journal
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar

from forebay.core.cooperative import CooperativeWork, run_cooperatively
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.recovery_scan import JournalScan
from forebay.write.back.drain.own_uploads import OwnUploads
from forebay.write.back.drain_duty import DrainDuty
from forebay.write.back.node_flush import waits_for_person
from forebay.write.back.record_parts import RecordParts
from forebay.write.back.write_back_context import JournalState
from forebay.write.back.write_barriers import wait_unless

T = TypeVar("T")

CHECK_SECONDS: Final = 1.0
"""Seconds between two attempts to take over from a drainer that has ended."""
RECLAIM_SECONDS: Final = 60.0
"""Seconds between two checks of the directory."""
_MOST_CHECKS: Final = int(RECLAIM_SECONDS / CHECK_SECONDS)
"""Checks until a failed take-over is tried again, at most: the pause doubles."""

_log = logging.getLogger(__name__)


class JournalWatch:
    """The watch of one worker. `on_full(seconds)` is called while the journal has no room."""

    def __init__(
        self,
        state: JournalState,
        records: RecordParts,
        duty: DrainDuty,
        own_uploads: OwnUploads,
        on_full: Callable[[int], None],
    ) -> None:
        self._journal = state.journal
        self._pending = state.pending
        self._shown = records.shown
        self._loader = records.loader
        self._exchange = records.exchange
        self._duty = duty
        self._room = records.room
        self._own_uploads = own_uploads
        self._on_full = on_full
        self.is_started = False
        """Whether the pending writes are shown here."""
        self._is_stale = False
        """Whether another worker has begun while this one read the journal."""

    async def start(self) -> None:
        """Shows the pending writes to readers, and has them carried out. To be called before anything is served. Raises
        OSError."""
        is_drainer = self._journal.try_become_drainer()
        await self._room.measure()
        with self._shown.remembering():
            scan = await self._begin_scan(is_drainer=is_drainer)
            if is_drainer:
                self._duty.begin_assuming()
            # In steps, as the take-over: other workers wait for this one to note what they acknowledge.
            await run_cooperatively(self._loader.load(scan, self._exchange.take_received, is_first=True))
        self._exchange.end_buffering()
        if is_drainer:
            await self._own_uploads.load_left()  # before it creates others, and before any can be listed
            # Not earlier: what this worker makes at the origin is newer than what the load has learnt.
            await run_cooperatively(self._duty.assume(self._shown, self._pending))
        self._duty.keep(self._shown.kept.values())
        if self._shown.writes and is_drainer:
            _log.info("writes in the journal and not yet at the origin: %d", len(self._shown.writes))
        self._exchange.announce_scanned()
        self.is_started = True
        if self._is_stale:
            with suppress(OSError):  # it is looked for each minute as well
                await self.receive_scan()

    async def _begin_scan(self, *, is_drainer: bool) -> JournalScan:
        if is_drainer:
            try:
                return await self._journal.reclaim()
            except OSError as error:
                # Its file system may be read-only: what is pending can be carried out all the same.
                _log.error("the journal can't be reclaimed: %s", error.strerror)
        return await self._journal.scan()

    async def run(self) -> None:
        """Takes over from a drainer that has ended, and looks at the directory each minute. For ever."""
        checks, pause = 0, 1
        while True:
            if self._duty.is_taken:
                await _attempt(self._own_uploads.abort_left(), "uploads that were left can't be aborted")
            for _ in range(_MOST_CHECKS):
                await asyncio.sleep(CHECK_SECONDS)
                checks += 1
                if self._duty.is_taken:
                    await _attempt(self._note_full(), "the full journal can't be counted")
                elif checks >= pause:  # one that fails has read the whole journal in vain
                    is_taken = await _attempt(self.take_over(), "the journal can't be read")
                    checks, pause = 0, 1 if is_taken else min(2 * pause, _MOST_CHECKS)
            await _attempt(self._duty.expire_uploads(), "unfinished uploads can't be looked at")
            await _attempt(self._duty.settle_left(), "records can't be settled")
            await _attempt(self._look(), "the journal can't be reclaimed")

    async def _note_full(self) -> None:
        if self._room.is_full:
            self._on_full(int(CHECK_SECONDS))

    async def _look(self) -> None:
        if self._duty.is_taken:
            with self._shown.remembering():
                await self._load(await self._journal.reclaim())
        else:
            await self.receive_scan()  # in case that the message of a worker that began was lost

    async def take_over(self) -> bool:
        """Carries the node's writes out from now on, if nobody does. Returns whether somebody does; a failure leaves
        that to another call, of this worker, which has the lock. Raises OSError."""
        if not self._journal.try_become_drainer():
            return True
        with self._shown.remembering():
            known, scan = self._shown.known(), await self._journal.scan()
            _log.info("this worker carries out the journal's writes from now on")
            for record in list(self._shown.stopped):  # each is tried again
                self._exchange.announce_stopped(record, "")
            await self._duty.take_over(self._load_of_last(known, scan), self._shown, self._pending)
        self._duty.keep(self._shown.kept.values())
        return self._duty.is_taken

    def _load_of_last(self, known: frozenset[RecordId], scan: JournalScan) -> CooperativeWork[None]:
        """Shows what is pending after the last drainer has ended, once what it had settled is forgotten."""
        settled = _settled(known, scan)
        self._exchange.forget_here(settled)
        self._shown.refuse_without(settled)
        yield from self._loader.load(scan, is_first=True)

    async def _load(self, scan: JournalScan) -> None:
        await run_cooperatively(self._loader.load(scan))
        self._duty.keep(self._shown.kept.values())

    async def receive_scan(self) -> None:
        """Another worker has begun, and read the journal. Its predecessor may have left records that nobody knows, and
        may have settled some, as the drainer, that others still show. Raises OSError."""
        if not self.is_started:  # what is shown in between would come before what it depends on
            self._is_stale = True
            return
        with self._shown.remembering():
            known, scan = self._shown.known(), await self._journal.scan()
            if self._duty.is_taken:
                await self._load(scan)
                self._exchange.repeat_announcements()
                return
        self._exchange.forget_here(_settled(known, scan))

    async def stop(self, seconds: float, hurry: asyncio.Event | None = None) -> int:
        """Gives pending writes so many seconds, or until `hurry` is set, or all that are left wait for a person.
        Returns how many are left in the journal."""
        self._room.is_ending = self._room.is_finishing = True
        if self._duty.is_taken:
            async with asyncio.TaskGroup() as group:
                settled = group.create_task(self._wait_settled())
                waits = [settled, group.create_task((hurry or asyncio.Event()).wait())]
                await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                for wait in waits:
                    wait.cancel()
            if left := len(self._shown.writes):
                _log.warning("left in the journal for the next start: %d of the acknowledged writes", left)
        return len(self._shown.writes)

    async def _wait_settled(self) -> None:
        """Waits until no write is left that may arrive."""
        with suppress(TimeoutError):
            await wait_unless(
                self._pending.wait_settled(lambda _: True), lambda: waits_for_person(self._shown, self._pending)
            )


def _settled(known: frozenset[RecordId], scan: JournalScan) -> frozenset[RecordId]:
    """Returns those of the known records that a later scan has no more."""
    pending = {each.id for each in scan.pending}
    return frozenset(each for each in known - pending if each.log not in scan.damages)


async def _attempt(work: Awaitable[T], failure: str) -> T | None:
    """Returns the result of `work`; None: it has failed, and is tried again later."""
    try:
        return await work
    except OSError as error:
        _log.error("%s: %s", failure, error.strerror)
    except Exception:  # a defect of ours must not end the watch: nobody would take the drain over
        _log.exception("%s", failure)
    return None

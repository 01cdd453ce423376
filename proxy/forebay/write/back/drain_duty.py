"""The drain duty: the work that one worker of the node, the holder of the journal's lock, does for all of them.

    writes       are carried out at the origin      (drainer)
    moved parts  are carried there                  (upload_moves)
    records      that nothing needs are settled     (settlement)
    uploads      that their clients have left end   (upload_expiry)

The others know what is pending, and leave it alone.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

from forebay.core.cooperative import CooperativeWork, run_cooperatively
from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.pending_objects import PendingObjects, PendingVersion
from forebay.write.back.accept.upload_expiry import UploadExpiry
from forebay.write.back.accept.upload_moves import UploadMoves
from forebay.write.back.drain.drainer import Drainer
from forebay.write.back.pending.accepted_write import AcceptedWrite
from forebay.write.back.pending.pending_uploads import PendingUpload
from forebay.write.back.pending.shown_records import KeptWrite, ShownRecords
from forebay.write.back.settlement import Settlement

ADDED: Final = 50
"""Writes that are added in one step: some half a millisecond."""
LOOKED_AT: Final = 1000
"""Shown writes that one step lists. All are listed and sorted before the first one is added."""


_log = logging.getLogger(__name__)


class _Arrived(NamedTuple):
    """A write that came while the duty was taken over."""

    write: AcceptedWrite
    is_recovered: bool


class DrainDuty:
    """The duty of one worker, which has it (`is_taken`) or not. Implements RecordListener."""

    def __init__(
        self, drainer: Drainer, settlement: Settlement, moves: UploadMoves, expiry: UploadExpiry, tasks: TaskRegistry
    ) -> None:
        self.is_taken = False
        self._arrived: dict[RecordId, _Arrived] | None = None
        """The writes that have come since `begin_assuming`; None: no takeover is under way."""
        self._left: list[Sequence[RecordId]] = []
        """Records that could not be settled, as the disk was full: the next start would show them again."""
        self._settling: dict[RecordId, asyncio.Task[None]] = {}
        """The settlements under way, each by the last of its records."""
        self._drainer = drainer
        self._settlement = settlement
        self._moves = moves
        self._expiry = expiry
        self._tasks = tasks

    def begin_assuming(self) -> None:
        """This worker has the duty from here on. A write that comes before `assume` has ended waits: it would overtake
        those that are known."""
        self.is_taken = True
        self._arrived = {}

    @property
    def is_ready(self) -> bool:
        """Whether this worker has the duty and has loaded all pending records: its decisions about a record count."""
        return self.is_taken and self._arrived is None

    async def take_over(self, load: CooperativeWork[None], shown: ShownRecords, pending: PendingObjects) -> None:
        """Has `load` show what is pending, and assumes the duty. Goes on if the caller is cancelled, as a worker that
        ends waits for pending writes. A failure is logged, and then nobody has the duty: try again."""
        await asyncio.wait([self._tasks.spawn(self._take_over(load, shown, pending), "take the drain duty over")])

    async def _take_over(self, load: CooperativeWork[None], shown: ShownRecords, pending: PendingObjects) -> None:
        self.begin_assuming()
        try:
            await run_cooperatively(load)
            # Not earlier: what this worker makes at the origin is newer than what the load has learnt.
            await run_cooperatively(self.assume(shown, pending))
            shown.settle_left()
        except BaseException:
            self.is_taken, self._arrived = False, None  # what has arrived is shown: the next attempt finds it
            raise

    def assume(self, shown: ShownRecords, pending: PendingObjects) -> CooperativeWork[None]:
        """Has all shown writes carried out, in their order, and then those that came since `begin_assuming`."""
        known: list[tuple[int, RecordId, ObjectName]] = []
        for record, write in list(shown.writes.items()):
            known.append((write.interval.written, record, write.name))
            if len(known) % LOOKED_AT == 0:
                yield
        known.sort()
        for number, (_, record, name) in enumerate(known, 1):
            self._add(record, name, shown, pending)
            if number % ADDED == 0:
                yield
        while self._arrived:
            for record, arrived in list(self._arrived.items())[:ADDED]:
                self._add(record, arrived.write.name, shown, pending)
            yield
        self._arrived = None
        self._moves.carry_all()

    def _add(self, record: RecordId, name: ObjectName, shown: ShownRecords, pending: PendingObjects) -> None:
        """Adds a write that is not settled yet."""
        arrived = self._arrived.pop(record, None) if self._arrived else None
        write, version = shown.writes.get(record), pending.find(name, record)
        if write is not None and version is not None:
            self._drainer.add(write, version, is_recovered=arrived is None or arrived.is_recovered)
        elif write is not None:  # a later one has arrived, which the last drainer told nobody
            self.settle_soon(shown.with_upload(record))

    def carry_out(self, write: AcceptedWrite, version: PendingVersion, *, is_recovered: bool) -> None:
        """Has a write carried out, once its client has its answer."""
        if self._arrived is not None:
            self._arrived[version.record] = _Arrived(write, is_recovered)
        elif self.is_taken:
            add = partial(self._drainer.add, write, version, is_recovered=is_recovered)
            asyncio.get_running_loop().call_soon(add)

    def carry_parts(self, upload: PendingUpload) -> None:
        """Has the parts of a moved upload carried to the origin; not before all that is pending is shown: a completion
        may yet come that has them."""
        if self._arrived is None:
            self._moves.carry(upload)

    def settle_soon(self, records: Sequence[RecordId]) -> bool:
        """Has records settled. Returns whether this worker does it."""
        if self.is_taken and records:
            last = records[-1]
            task = self._settling[last] = self._tasks.spawn(self._settle(records), "settle records")
            task.add_done_callback(lambda _: self._settling.pop(last, None))
        return self.is_taken

    async def wait_settled(self, record: RecordId) -> bool:
        """Waits until records are settled, of which this is the last one. Returns whether they are, durably."""
        if (task := self._settling.get(record)) is not None:
            await asyncio.wait([task])
        return not any(record in records for records in self._left)

    async def _settle(self, records: Sequence[RecordId]) -> None:
        try:
            await self._settlement.settle(records)
        except OSError as error:
            _log.error("records that nothing needs can't be settled now: %s", error.strerror)
            self._left.append(records)

    async def settle_left(self) -> None:
        """Settles records that could not be settled before. Never raises."""
        left, self._left = self._left, []
        for records in left:
            await self._settle(records)

    def keep(self, writes: Iterable[KeptWrite]) -> None:
        """Keeps writes of other origins until a person decides."""
        if self.is_taken:
            for kept in writes:
                self._drainer.keep(*kept)

    async def expire_uploads(self) -> None:
        """Aborts the uploads that their clients have left."""
        if self.is_taken:
            await self._expiry.expire()

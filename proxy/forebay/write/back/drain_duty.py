"""The drain duty: what one worker of the node does for all of them, whoever has the journal's lock.

    writes       are carried out at the origin      (drainer)
    moved parts  are carried there                  (upload_moves)
    records      that nothing needs are settled     (settlement)
    uploads      that their clients have left end   (upload_expiry)

The others know what is pending, and leave it alone.
"""

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial

from forebay.core.task_registry import TaskRegistry
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.pending_objects import PendingObjects, PendingVersion
from forebay.write.back.accepted_write import AcceptedWrite
from forebay.write.back.drainer import Drainer
from forebay.write.back.pending_uploads import PendingUpload
from forebay.write.back.settlement import Settlement
from forebay.write.back.shown_records import KeptWrite, ShownRecords
from forebay.write.back.upload_expiry import UploadExpiry
from forebay.write.back.upload_moves import UploadMoves


class DrainDuty:
    """The duty of one worker, which has it (`is_taken`) or not. Implements RecordListener."""

    def __init__(
        self, drainer: Drainer, settlement: Settlement, moves: UploadMoves, expiry: UploadExpiry, tasks: TaskRegistry
    ) -> None:
        self.is_taken = False
        self._drainer = drainer
        self._settlement = settlement
        self._moves = moves
        self._expiry = expiry
        self._tasks = tasks

    def assume(self, shown: ShownRecords, pending: PendingObjects) -> None:
        """This worker has the duty from here on: it begins with what is shown."""
        self.is_taken = True
        for record, write in sorted(shown.writes.items(), key=lambda pair: pair[1].interval.written):
            version = pending.find(write.name, record)
            if version is not None:
                self._drainer.add(write, version, is_recovered=True)
        self._moves.carry_all()

    def carry_out(self, write: AcceptedWrite, version: PendingVersion, *, is_recovered: bool) -> None:
        """Has a write carried out, once its client has its answer."""
        if self.is_taken:
            add = partial(self._drainer.add, write, version, is_recovered=is_recovered)
            asyncio.get_running_loop().call_soon(add)

    def carry_parts(self, upload: PendingUpload) -> None:
        """Has the parts of a moved upload carried to the origin."""
        self._moves.carry(upload)

    def settle_soon(self, records: Sequence[RecordId]) -> bool:
        """Has records settled. Returns whether this worker does it."""
        if self.is_taken:
            self._tasks.spawn(self._settlement.settle(records), "settle records")
        return self.is_taken

    def keep(self, writes: Iterable[KeptWrite]) -> None:
        """Keeps writes of other origins until a person decides."""
        if self.is_taken:
            for kept in writes:
                self._drainer.keep(*kept)

    async def expire_uploads(self) -> None:
        """Aborts the uploads that their clients have left."""
        if self.is_taken:
            await self._expiry.expire()

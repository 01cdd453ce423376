"""Group commit: records that wait while a batch is synced make up the next batch.

    append ──┐
    append ──┼──> waiting ──> one batch at a time, on a thread of its own ──> each is answered
    append ──┘

So a sync is shared by as many writes as arrive during one, and a single write waits for nobody.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from forebay.storage.journal.log_writer import JournalFailed, LogWriter, NewRecord, RecordId

MOST_BYTES = 32 << 20
"""Bytes of a batch, and one record more."""


class GroupCommit:
    """Appends records of many tasks. Belongs to one event loop; the LogWriter is its own."""

    def __init__(self, writer: LogWriter) -> None:
        self._writer = writer
        self._thread = ThreadPoolExecutor(1, "journal")
        self._waiting: list[tuple[NewRecord, asyncio.Future[RecordId]]] = []
        self._committing: asyncio.Future[list[RecordId]] | None = None

    @property
    def waiting(self) -> int:
        """Records that wait for the batch under way."""
        return len(self._waiting)

    async def append(self, record: NewRecord) -> RecordId:
        """Returns once the record is durable. Raises JournalFailed.

        A record that was handed over is written, even if the awaiting task is cancelled.
        """
        answered: asyncio.Future[RecordId] = asyncio.get_running_loop().create_future()
        self._waiting.append((record, answered))
        if self._committing is None:
            self._commit()
        return await answered

    async def close(self) -> None:
        """Waits for the batch under way and all that wait, and ends the log."""
        while self._committing is not None:
            await asyncio.wait([self._committing])
            await asyncio.sleep(0)
        await asyncio.get_running_loop().run_in_executor(self._thread, self._writer.close)
        self._thread.shutdown()

    def _commit(self) -> None:
        count = size = 0
        while count < len(self._waiting) and size <= MOST_BYTES:
            record = self._waiting[count][0]
            size += len(record.document) + len(record.payload)
            count += 1
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        loop = asyncio.get_running_loop()
        self._committing = loop.run_in_executor(self._thread, self._writer.append, [record for record, _ in batch])
        self._committing.add_done_callback(lambda done: self._answer([answered for _, answered in batch], done))

    def _answer(self, batch: "list[asyncio.Future[RecordId]]", done: "asyncio.Future[list[RecordId]]") -> None:
        self._committing = None
        failure = done.exception()
        for nth, answered in enumerate(batch):
            if answered.done():
                continue  # its task was cancelled
            if failure is None:
                answered.set_result(done.result()[nth])
            elif isinstance(failure, JournalFailed):
                answered.set_exception(JournalFailed(str(failure), voided=failure.voided))
            else:
                answered.set_exception(failure)
        del failure
        if self._waiting:
            self._commit()

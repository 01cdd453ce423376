"""Group commit: records that wait while a batch is synced make up the next batch.

    submit ──┐
    submit ──┼──> waiting ──> one batch at a time, on a thread of its own ──> each is answered
    submit ──┘

So all writes that arrive during one sync share the next one, and a single write waits for no other. The thread is woken
by a queue, and wakes the loop by one callback for each batch: futures of an executor would add two turns of the loop to
each write. When nobody waits, the thread makes room in the log (LogWriter.make_room).
"""

import asyncio
from queue import SimpleQueue
from threading import Thread
from typing import Final, NamedTuple

from forebay.storage.journal.log_writer import JournalFailed, LogWriter, NewRecord, RecordId

MOST_BYTES: Final = 32 << 20
"""Bytes of a batch, and one record more."""


class _Submitted(NamedTuple):
    record: NewRecord
    answered: asyncio.Future[RecordId]


class GroupCommit:
    """Appends records of many tasks. Belongs to one event loop; the LogWriter is its own."""

    def __init__(self, writer: LogWriter) -> None:
        self._writer = writer
        self._batches: SimpleQueue[list[_Submitted] | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._waiting: list[_Submitted] = []
        self._committing: asyncio.Future[None] | None = None

    @property
    def waiting(self) -> int:
        """Records that wait for the batch under way."""
        return len(self._waiting)

    def submit(self, record: NewRecord) -> asyncio.Future[RecordId]:
        """Hands a record over, which is written whoever waits for it. The result comes once it is durable, or
        JournalFailed."""
        answered: asyncio.Future[RecordId] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Submitted(record, answered))
        if self._committing is None:
            self._commit()
        return answered

    async def close(self) -> None:
        """Waits for the batch under way and all that wait, and ends the log."""
        while self._committing is not None:
            await asyncio.wait([self._committing])
        self._batches.put(None)
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)
        self._writer.close()

    def _commit(self) -> None:
        count, size, most = 1, 0, len(self._waiting)
        while count < most:
            record = self._waiting[count - 1].record
            size += len(record.document) + len(record.payload)
            if size > MOST_BYTES:
                break
            count += 1
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        loop = asyncio.get_running_loop()
        self._committing = loop.create_future()
        if self._thread is None:
            self._thread = Thread(target=self._run, args=(loop,), name="journal", daemon=True)
            self._thread.start()
        self._batches.put(batch)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        """The thread."""
        while (batch := self._batches.get()) is not None:
            result = self._append(batch)
            try:
                loop.call_soon_threadsafe(self._answer, batch, result)
            except RuntimeError:  # the loop is closed, and nobody waits any more
                return
            del batch, result
            if self._batches.empty():
                self._writer.make_room()

    def _append(self, batch: list[_Submitted]) -> list[RecordId] | Exception:
        try:
            return self._writer.append([each.record for each in batch])
        except Exception as failure:
            return failure.with_traceback(None)

    def _answer(self, batch: list[_Submitted], result: list[RecordId] | Exception) -> None:
        if isinstance(result, Exception):
            self._fail(batch, result)
        else:
            for (_, answered), record in zip(batch, result, strict=True):
                if not answered.done():  # else its task was cancelled
                    answered.set_result(record)
        committing, self._committing = self._committing, None
        if self._waiting:
            self._commit()
        if committing is not None:
            committing.set_result(None)

    def _fail(self, batch: list[_Submitted], failure: Exception) -> None:
        for _, answered in batch:
            if answered.done():
                continue  # its task was cancelled
            if isinstance(failure, JournalFailed):
                failure = JournalFailed(str(failure), voided=failure.voided)  # of its own: each gets a traceback
            answered.set_exception(failure)

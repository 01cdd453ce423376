"""Group settlement: records that are settled while rows of others are synced share the next sync.

    settle ──┐
    settle ──┼──> waiting ──> one batch at a time, on a thread of the journal ──> each is answered
    settle ──┘

One batch at a time is also what the files need: a row is written behind the last one (settled_numbers.append_settled).

Each call names the record that has to be settled first. The first ones of a batch are durable before the rest of it is
written: a completion never outlives the parts that it lists.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial
from threading import Lock
from typing import NamedTuple

from forebay.storage.journal.journal_files import JournalFiles
from forebay.storage.journal.journal_layout import JournalLayout
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.settled_numbers import DROPPED, append_settled


class _Submitted(NamedTuple):
    records: Sequence[RecordId]
    is_carried_out: bool
    settled: asyncio.Future[None]


class GroupSettlement:
    """Settles records of many tasks. Belongs to one event loop. `writing`: held while rows are written, by whoever
    writes them."""

    def __init__(self, files: JournalFiles, layout: JournalLayout, threads: Executor) -> None:
        self.writing = Lock()
        self._files = files
        self._layout = layout
        self._threads = threads
        self._waiting: list[_Submitted] = []
        self._under_way: asyncio.Future[None] | None = None

    def submit(self, records: Sequence[RecordId], *, is_carried_out: bool = True) -> asyncio.Future[None]:
        """Has records settled, whoever waits for it. The result comes once that is durable, or OSError."""
        settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Submitted(records, is_carried_out, settled))
        if self._under_way is None:
            self._begin()
        return settled

    async def close(self) -> None:
        """Waits for the batch under way and all that wait."""
        while self._under_way is not None:
            await asyncio.wait([self._under_way])

    def _begin(self) -> None:
        batch, self._waiting = self._waiting, []
        loop = asyncio.get_running_loop()
        self._under_way = loop.run_in_executor(self._threads, self._append, batch)
        self._under_way.add_done_callback(partial(self._answer, batch))

    def _append(self, batch: Sequence[_Submitted]) -> None:
        """Writes the rows of a batch. Runs on a thread."""
        with self.writing:
            self._append_rows(batch, slice(1))
            self._append_rows(batch, slice(1, None))

    def _append_rows(self, batch: Sequence[_Submitted], some: slice) -> None:
        numbers: dict[str, list[int]] = {}
        for records, is_carried_out, _ in batch:
            for record in records[some]:
                number = record.number if is_carried_out else record.number | DROPPED
                numbers.setdefault(record.log, []).append(number)
        for log, settled in numbers.items():
            append_settled(self._files, self._layout, log, settled)

    def _answer(self, batch: Sequence[_Submitted], done: asyncio.Future[None]) -> None:
        failure = done.exception()
        for _, _, settled in batch:
            if settled.done():
                continue  # its task was cancelled
            if isinstance(failure, OSError):
                settled.set_exception(OSError(failure.errno, failure.strerror))
            elif failure is not None:
                settled.set_exception(failure)
            else:
                settled.set_result(None)
        self._under_way = None
        if self._waiting:
            self._begin()

"""A batch run: reads the entries of one batch, some ahead of others, and writes them to the answer in their order.

    entry ──admit──┬─> denied       a mark                                            in its turn
                   ├─> in a tier    its bytes, found without waiting                  in its turn
               │                large ones in files, where the output takes them
                   └─> else         read as a GET, in a task: up to its window ahead  held until its turn

In the order listed, the turn goes from entry to entry, and those behind one that is waited for begin meanwhile. In the
order of arrival it goes to whoever has something to write. An entry that is in a tier holds nothing while it waits; one
that is read keeps EntryReply's few bytes, within the share of the buffers that batches have. Without room in the share
nothing is read ahead: each entry begins in its turn.

An entry that breaks off before its turn (the object was replaced meanwhile, say) is read once more, then marked. One
that breaks off in its turn ends the response, as its header has left.
"""

import asyncio
import sys
import time
from collections import deque
from dataclasses import dataclass
from typing import Final

from multidict import CIMultiDict, CIMultiDictProxy

from forebay.core.byte_ranges import Span
from forebay.core.errors import S3Error
from forebay.core.events import Observe
from forebay.core.fair_semaphore import SemaphoreShare
from forebay.core.request_record import RequestRecord
from forebay.core.s3_codes import S3_CODES
from forebay.core.task_registry import TaskRegistry
from forebay.policy.batch_window import BatchWindow
from forebay.policy.freshness import requests_revalidation
from forebay.protocol.batch.batch_output import BatchOutput
from forebay.protocol.batch.batch_request import BatchEntry, BatchRequest
from forebay.protocol.batch.tar_entries import EntryMark
from forebay.protocol.exchange import EMPTY_BODY, Request
from forebay.protocol.header_map import Headers
from forebay.request.admission import Admission, AdmittedEntry
from forebay.request.batch.batch_counts import BatchCounts
from forebay.request.batch.cached_entries import (
    BatchLookup,
    CachedEntries,
    CachedEntry,
    EntryInFiles,
    EntrySource,
    PreparedEntry,
)
from forebay.request.batch.entry_reply import HELD_SIZE, EntryReply
from forebay.request.batch.file_output import FileOutput
from forebay.request.batch.member_reads import MemberReads, ReadObject

_DENIED: Final = EntryMark(403, "AccessDenied", S3_CODES["AccessDenied"][1])
_BROKEN: Final = EntryMark(503, "ServiceUnavailable", "The object broke off while it was read. Please try again.")
_TRIES: Final = 2
WORK_AT_ONCE: Final = 64
"""Entries that are found before others have their turn. One that begins to be read counts as four."""
_BEGINNING: Final = 4


@dataclass(frozen=True, slots=True)
class BatchServices:
    """The services that all batches use. `share`: the share of the buffers that batches may use."""

    cached: CachedEntries
    members: MemberReads
    share: SemaphoreShare
    tasks: TaskRegistry
    observe: Observe


@dataclass(slots=True)
class _PendingEntry:
    """An entry that is being read."""

    index: int
    admitted: AdmittedEntry
    reply: EntryReply
    record: RequestRecord
    task: "asyncio.Task[None]"
    charged: int


class BatchRun:
    """Answers one batch. `stream` it once."""

    def __init__(
        self,
        services: BatchServices,
        admission: Admission,
        request: Request,
        batch: BatchRequest,
        output: BatchOutput,
        record: RequestRecord,
        read: ReadObject,
    ) -> None:
        """`admission` and `request`: of the batch; `record`: for its totals."""
        self._services, self._admission, self._request = services, admission, request
        self._batch, self._output, self._record, self._read = batch, output, record, read
        self._no_cache = requests_revalidation(admission.headers)
        by_grants = admission.principal.id not in admission.policy.keyring.origin_identities
        least = output.least_in_file if isinstance(output, FileOutput) and by_grants else None
        self._files = output if isinstance(output, FileOutput) and least is not None else None
        """The output for large entries in memory files. None: it takes no files, or the grants alone do not say which
        keys the principal may read."""
        self._least_in_file = sys.maxsize if least is None else least
        self._lookup = BatchLookup(
            services.cached, admission, no_cache=self._no_cache, in_files=self._files is not None
        )
        self._plain_headers = self._entry_headers(None)
        self._window = BatchWindow()
        self._next = 0
        """The first entry that has not begun."""
        self._pending: dict[int, _PendingEntry] = {}
        self._work = 0
        """The work that was done since other tasks had their turn."""
        self._ready: deque[int] = deque()
        """The pending entries that have something to write, in the order of arrival."""
        self._wake = asyncio.Event()
        self._counts = BatchCounts()

    async def stream(self) -> None:
        """Sends the answer. Raises ConnectionError when the client has left or an entry broke off, S3Error where a
        failure ends the batch."""
        try:
            await (self._stream_arrivals() if self._batch.as_they_come else self._stream_listed())
            await self._output.finish()
        finally:
            await self._abandon()
            self._counts.report(self._record, self._services.observe)

    async def _stream_listed(self) -> None:
        for index in range(len(self._batch.entries)):
            if index not in self._pending:
                self._next = max(self._next, index + 1)
                admitted = self._append_or_admit(index)
                if admitted is None:
                    if self._output.is_full or self._work >= WORK_AT_ONCE:
                        await self._pass_on()
                    continue
                self._pending[index] = self._begin(index, admitted)
            await self._look_ahead()
            await self._write(self._pending.pop(index))

    async def _stream_arrivals(self) -> None:
        count = len(self._batch.entries)
        while self._next < count or self._pending:
            if self._ready:
                await self._write(self._pending.pop(self._ready.popleft()))
            elif self._next < count and (not self._pending or self._may_begin(len(self._pending))):
                index, self._next = self._next, self._next + 1
                admitted = self._append_or_admit(index)
                if admitted is not None:
                    self._pending[index] = self._begin(index, admitted, ahead=True)
                if self._work >= WORK_AT_ONCE or (admitted is None and self._output.is_full):
                    await self._pass_on()
            else:
                await self._output.flush()
                self._wake.clear()
                if not self._ready:
                    await self._wake.wait()

    async def _pass_on(self, *, writes: bool = True) -> None:
        """Writes the output so far, and gives other tasks a turn: a batch of hits alone would occupy the loop."""
        if writes and self._output.is_full:
            await self._output.flush()
        self._work = 0
        await asyncio.sleep(0)

    async def _look_ahead(self) -> None:
        """Begins to read the entries behind the current one, as many as the window allows."""
        entries = self._batch.entries
        while self._next < len(entries) and self._may_begin(len(self._pending) - 1):
            index, self._next = self._next, self._next + 1
            found = self._find(entries[index])
            self._work += 1
            if isinstance(found, AdmittedEntry):
                self._pending[index] = self._begin(index, found, ahead=True)
            if self._work >= WORK_AT_ONCE:
                await self._pass_on(writes=False)

    def _may_begin(self, pending: int) -> bool:
        return pending < self._window.entries and self._services.share.has(HELD_SIZE)

    def _entry_headers(self, entry: BatchEntry | None) -> Headers:
        """The headers of the GET that an entry stands for."""
        headers = CIMultiDict[str]()
        if self._no_cache:
            headers["Cache-Control"] = "no-cache"
        if entry is not None:
            headers["Range"] = f"bytes={entry.start}-{'' if entry.end is None else entry.end - 1}"
        return CIMultiDictProxy(headers)

    def _find(self, entry: BatchEntry) -> CachedEntry | EntryInFiles | AdmittedEntry | None:
        """See BatchLookup.find."""
        if entry.member is None:
            return self._lookup.find(entry)
        admitted = self._lookup.admission.admit(entry.key)
        part = self._services.members.known_part(admitted.name, entry) if admitted is not None else None
        if part is None:
            return admitted
        found = self._lookup.find(part[0])
        if found is None or isinstance(found, AdmittedEntry):
            return found
        return found if found[0].head.version.etag == part[1] else admitted

    def _append_or_admit(self, index: int) -> AdmittedEntry | None:
        """Appends an entry that needs no waiting: a denied one, or one in a tier. Returns any other, admitted."""
        entry = self._batch.entries[index]
        found = self._find(entry)
        self._work += 1
        if found is None:
            self._append_mark(index, _DENIED)
            self._counts.count("", None, _DENIED.status, {})
            return None
        if isinstance(found, AdmittedEntry):
            return found
        if isinstance(found, EntryInFiles):
            return None if self._put_in_files(index, found) else found.prepared.admitted
        prepared, span, buffer, source = found
        size = len(buffer)
        if size >= self._least_in_file:
            large = self._lookup.find_in_files(found)
            if large is not None and self._put_in_files(index, large):
                return None
        self._output.put(index, entry, prepared.head.facts.last_modified, buffer)
        self._count_found(prepared, span, size, source)
        return None

    def _put_in_files(self, index: int, found: EntryInFiles) -> bool:
        entry, reader = self._batch.entries[index], self._admission.principal
        if self._files is None or not self._files.put_in_files(index, entry, found, reader):
            return False
        self._count_found(found.prepared, found.span, found.span.length, "memory")
        return True

    def _count_found(self, prepared: PreparedEntry, span: Span | None, size: int, source: EntrySource) -> None:
        self._lookup.report(prepared, span, source)
        status = 200 if size == prepared.head.size else 206
        self._counts.count_found(prepared.admitted.decision.rule, source, status, size)

    def _append_mark(self, index: int, mark: EntryMark) -> None:
        """Raises S3Error where a failure ends the batch."""
        entry = self._batch.entries[index]
        if not self._batch.continue_on_error:
            fallback = {403: "AccessDenied", 404: "NoSuchKey"}.get(mark.status, "ServiceUnavailable")
            code = mark.code if mark.code in S3_CODES else fallback
            details = {"ActualObjectSize": "0"} if code == "InvalidRange" else {}
            raise S3Error(code, f"keys[{index}] {entry.entry_name!r}: {mark.message}", **details)
        self._output.mark(index, entry, mark)

    def _begin(self, index: int, admitted: AdmittedEntry, *, ahead: bool = False) -> _PendingEntry:
        """Begins to read an entry. `ahead`: before its turn."""
        entry, batch = self._batch.entries[index], self._request
        self._work += _BEGINNING
        is_plain = entry.is_whole or entry.member is not None
        headers = self._plain_headers if is_plain else self._entry_headers(entry)
        admission = self._lookup.admission.admission(admitted, headers)

        def ready() -> None:
            if self._batch.as_they_come and index in self._pending and index not in self._ready:
                self._ready.append(index)
                self._wake.set()

        charged = HELD_SIZE if ahead and self._services.share.try_acquire(HELD_SIZE) else 0
        reply = EntryReply(entry, index, self._output, self._window.learn, ready)
        if not charged:
            reply.give_turn()
        head = batch._replace(method="GET", headers=admission.headers, body=EMPTY_BODY, has_body=False)
        request = head._replace(oss_request=None, send_interim=lambda: None)  # the answer may have begun
        own = RequestRecord("GET", time.monotonic(), self._record.request_id, self._record.peer)
        task = self._services.tasks.spawn(self._answer(entry, admission, request, reply, own), entry.key)
        return _PendingEntry(index, admitted, reply, own, task, charged)

    async def _answer(
        self, entry: BatchEntry, admission: Admission, request: Request, reply: EntryReply, record: RequestRecord
    ) -> None:
        if entry.member is None:
            await self._read(admission, request, reply, record)
        else:
            await self._services.members.answer(entry, admission, request, reply, record, self._read)

    async def _write(self, pending: _PendingEntry) -> None:
        """Gives an entry its turn, and waits until it is in the output."""
        for _ in range(_TRIES):
            reply = pending.reply
            reply.give_turn()
            try:
                if not pending.task.done():
                    await self._output.flush()  # the client has that while the entry is waited for
                await pending.task
            except BaseException:
                self._pending[pending.index] = pending  # for `_abandon`
                raise
            self._end(pending)
            if reply.is_committed and reply.state != "complete":
                raise ConnectionAbortedError("an entry of a batch broke off")
            if reply.state in {"complete", "marked"}:
                break
            pending = self._begin(pending.index, pending.admitted)
        reply, record = pending.reply, pending.record
        if reply.state == "complete":
            reply.end()
        else:
            self._append_mark(pending.index, reply.mark if reply.state == "marked" else _BROKEN)
        if self._output.is_full:
            await self._output.flush()
        status = reply.status if reply.state != "broken" else _BROKEN.status
        self._counts.count(record.rule, record.cache, status, record.sent_from)

    def _end(self, pending: _PendingEntry) -> None:
        """Releases a pending entry's charges, and adds its counts to the batch's record."""
        if not pending.task.done():
            pending.task.cancel()
        self._services.share.release(pending.charged)
        pending.charged = 0
        for source, size in pending.record.sent_from.items():
            self._record.count_sent(source, size)

    async def _abandon(self) -> None:
        """Ends the reads that were begun and are not needed any more."""
        left = list(self._pending.values())
        self._pending.clear()
        for pending in left:
            self._end(pending)
        if left:
            await asyncio.wait([pending.task for pending in left])

"""The log that this process appends to: records are written one batch after the other, and synced with it.

    batch ──> written into the room ──> synced ──> acknowledged ──> more room
                            └───────────────┴ failed ──> voided in a new log ──> refused, and carried out at the origin

A batch is as many records as wait (forebay.storage.journal.group_commit), so many small writes share one sync. It
counts as durable only if the log can still be found by its name: a file whose directory was removed or replaced takes
bytes and syncs as ever, and no start will read them.

Behind the records there is room, zeros that are written and synced while nobody waits: a batch that is written over
them changes neither the size of the file nor its blocks, so its sync waits for the data alone, and not for a commit of
the file system's journal, which takes as long again, and longer beside large files that are being written. The zeros
are never read as a record.

After a failed sync the content of the disk is unknown: a later sync that succeeds proves nothing about it. So the log
is truncated to its last durable length and ended, and a record in a new log says that the batch is void. If not even
that record becomes durable, the batch may come back after a power cut, and its writers must rely on neither
(`JournalFailed.voided`).

Not thread-safe, and blocking: for one thread.
"""

import errno
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from forebay.core.buffers import Buffer
from forebay.core.errors import StorageError
from forebay.storage.journal.journal_files import JournalFiles
from forebay.storage.journal.journal_layout import JournalLayout, new_id
from forebay.storage.journal.journal_record import encode_document, encode_record

LOG_SIZE: Final = 64 << 20
"""Bytes of a log after which the next one is begun."""
ROOM: Final = 1 << 20
"""Bytes of zeros that are made ready behind the records at a time."""
_SMALL_BATCH: Final = 128 << 10
"""Bytes of a batch whose sync is so short that the file system's own journal takes half of it."""


class JournalFailed(StorageError):
    """A batch is not durable. `voided`: it is certain never to be carried out."""

    def __init__(self, reason: str, *, voided: bool) -> None:
        super().__init__(reason)
        self.voided = voided


class RecordId(NamedTuple):
    """The address of a record: its log, and its number there."""

    log: str
    number: int


class NewRecord(NamedTuple):
    """A record to be written."""

    document: bytes
    """The document, as forebay.storage.journal.journal_record.encode_document returns it."""
    payload: bytes | memoryview = b""


class LogWriter:
    """Appends batches."""

    def __init__(self, files: JournalFiles, layout: JournalLayout, log_size: int = LOG_SIZE) -> None:
        self._files = files
        self._layout = layout
        self._log_size = log_size
        self._fd: int | None = None
        self._log = ""
        self._path = ""
        self._identity = 0, 0
        self._number = 0
        self._written = 0
        self._durable = 0
        self._room = 0
        """The offset at which the zeros end."""
        self._last_batch = 0
        """Bytes of the last batch."""

    @property
    def log(self) -> str | None:
        """The id of the log that is appended to; None between two logs."""
        return None if self._fd is None else self._log

    def append(self, batch: Sequence[NewRecord]) -> list[RecordId]:
        """Writes and syncs a batch, whole. Raises JournalFailed, and then none of it is acknowledged."""
        try:
            return self._append(batch)
        except OSError as error:
            reason = f"the journal can't be written: {error.strerror}"
        failed, first = self._log, self._number - len(batch)
        self._cut_off()
        self._end()
        raise JournalFailed(reason, voided=not failed or self._void(failed, first))

    def make_room(self) -> None:
        """Writes zeros for the next batches, if they are likely to be small. Nothing depends on it: if a write fails,
        this log gets no room; after a failed sync no other sync of this log can be trusted, so the log ends."""
        if self._fd is None or self._last_batch > _SMALL_BATCH or self._room - self._written > 2 * _SMALL_BATCH:
            return
        start = max(self._room, self._written)
        size = min(ROOM, self._log_size - start)
        if size <= 0:
            return
        try:
            self._files.write(self._fd, [bytes(size)], start)
        except OSError:
            self._room = self._log_size
            return
        try:
            self._files.sync(self._fd)
        except OSError:
            self._end()
        self._room = start + size

    def close(self) -> None:
        """Ends the current log."""
        self._end()

    def _append(self, batch: Sequence[NewRecord]) -> list[RecordId]:
        fd = self._fd if self._written < self._log_size else None
        if fd is None:
            self._end()
            fd = self._begin()
        log_id, durable = bytes.fromhex(self._log), self._durable
        pieces, ids = list[Buffer | bytes](), []
        for record in batch:
            ids.append(RecordId(self._log, self._number))
            pieces += encode_record(log_id, self._number, durable, record.document, record.payload)
            self._number += 1
        size = sum(map(len, pieces))
        self._files.write(fd, pieces, self._written)
        self._written += size
        self._files.sync(fd)
        if not self._files.has_name(self._identity, self._path):
            raise FileNotFoundError(errno.ENOENT, "its directory was removed or replaced")
        self._durable, self._last_batch = self._written, size
        return ids

    def _begin(self) -> int:
        self._log, self._number, self._written, self._durable, self._room = "", 0, 0, 0, 0
        log = new_id()
        self._path = self._layout.log(log)
        fd = self._files.create(self._path)
        try:
            self._identity = self._files.identity(fd)
            self._files.lock(fd)
            self._files.sync_directory(self._layout.logs)
        except BaseException:
            self._files.close(fd)
            raise
        self._fd, self._log = fd, log
        return fd

    def _end(self) -> None:
        if self._fd is not None:
            self._files.close(self._fd)
        self._fd = None

    def _cut_off(self) -> None:
        """Removes the void records from the log. This needs no space, so a scan in this run does not find them even if
        nothing can be written any more."""
        if self._fd is not None:
            with suppress(OSError):
                self._files.truncate(self._fd, self._durable)

    def _void(self, log: str, first: int) -> bool:
        """Records that the records from `first` on of a log never count. Returns whether that is durable."""
        record = NewRecord(encode_document({"void": log, "from": first}))
        try:
            self._append([record])
        except OSError:
            self._end()
            return False
        return True

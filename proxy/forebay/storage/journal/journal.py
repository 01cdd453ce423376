"""The journal of one worker: opens the directory, appends writes, settles them, and reads their bodies.

    open ──> what earlier runs and other workers left pending ──> append, settle ... ──> close

All workers of a node append to one directory, each to logs and bodies of its own; one of them, whoever has drain.lock,
settles and reclaims. A directory belongs to one Forebay: its workers hold `lock` shared, in the name of their family.
"""

import asyncio
import contextlib
import errno
import fcntl
import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event
from typing import Final, NamedTuple, Self, TypeVar

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span
from forebay.core.errors import JournalUnusable
from forebay.core.piece_queue import PieceQueue
from forebay.protocol.body.crc64 import crc64
from forebay.storage.durable_files import replace_file
from forebay.storage.journal.body_file import BodyReader, BodyRef, BodyWriter, remove_body
from forebay.storage.journal.group_commit import GroupCommit
from forebay.storage.journal.group_settlement import GroupSettlement
from forebay.storage.journal.journal_files import JournalFiles
from forebay.storage.journal.journal_layout import BODY, README, VERSION, JournalLayout, read_version
from forebay.storage.journal.journal_reclaim import reclaim
from forebay.storage.journal.journal_record import Document, encode_document
from forebay.storage.journal.log_writer import LogWriter, NewRecord, RecordId
from forebay.storage.journal.node_clock import run_of, time_of
from forebay.storage.journal.recovery_scan import JournalScan, scan_journal
from forebay.storage.journal.upload_locks import UploadLocks
from forebay.storage.journal.upload_notes import UploadNotes

T = TypeVar("T")

JOIN_ATTEMPTS: Final = 100
JOIN_PAUSE: Final = 0.05
_FORMAT: Final = json.dumps({"version": VERSION}).encode()
_LOCK_SIZE: Final = 256
_THREADS: Final = 16
"""The threads that write, sync and read bodies: some of them wait for the disk while others write to memory."""


class Journal:
    """An open journal. Made by `open`, ended by `close`."""

    def __init__(self, files: JournalFiles, layout: JournalLayout, lock: int, run: int) -> None:
        self._files = files
        self._layout = layout
        self._lock = lock
        self._run = run
        self._drain_lock: int | None = None
        self._commits = GroupCommit(LogWriter(files, layout))
        self.upload_locks = UploadLocks(files, layout)
        self.upload_notes = UploadNotes(layout.own_uploads, run)
        self.threads = ThreadPoolExecutor(_THREADS, "journal-bodies")
        self._settlement = GroupSettlement(files, layout, self.threads)
        self.announced: dict[str, int] = {}
        """Bytes that bodies will have which are on their way, by id."""

    @classmethod
    def open(cls, path: Path, family: str, files: JournalFiles | None = None) -> Self:
        """Opens the directory, created if need be. Raises JournalUnusable. `family`: of the workers of one Forebay."""
        files, layout = files or JournalFiles(), JournalLayout(str(path))
        try:
            lock, run = _claim(path, family, files, layout)
        except OSError as error:
            raise JournalUnusable(f"journal.path: {path} can't be used ({error.strerror or error})") from None
        return cls(files, layout, lock, run)

    def stamp(self) -> int:
        """Returns the time on the node's clock."""
        return time_of(self._run, self._files.monotonic_ns())

    @property
    def waiting(self) -> int:
        """Records that wait for the batch under way."""
        return self._commits.waiting

    async def append(self, document: Document, payload: Buffer | bytes = b"") -> RecordId:
        """Appends a record; durable when it returns. Raises JournalFailed."""
        return await self.submit(document, payload)

    def submit(self, document: Document, payload: Buffer | bytes = b"") -> asyncio.Future[RecordId]:
        """Hands a record over, which is appended whoever waits for it. The result comes once it is durable, or
        JournalFailed."""
        return self._commits.submit(NewRecord(encode_document(document), payload))

    async def scan(self) -> JournalScan:
        """Reads the pending records of all workers. Raises OSError."""
        return await self.run(scan_journal, self._files, self._layout)

    async def create_body(self, size: int = 0) -> "JournalBody":
        """Begins a body that is too large for a record. `size`: its expected bytes, if known. Raises OSError."""
        writer = await self.run(BodyWriter, self._files, self._layout)
        self.announced[writer.id] = size
        return JournalBody(self, writer)

    async def read(self, ref: BodyRef, within: Span) -> memoryview:
        """Returns verified bytes of a body. Raises OSError, BodyDamaged."""
        return await self.run(self._read, ref, within)

    def try_become_drainer(self) -> bool:
        """Returns whether this worker is the one that settles. Once it is, it remains so."""
        if self._drain_lock is None:
            lock = self._files.open_lock(self._layout.drain_lock)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                return False
            self._drain_lock = lock
        return True

    async def settle(self, records: Sequence[RecordId], *, is_carried_out: bool = True) -> None:
        """Records that these writes are carried out, or dropped, the first of them first; durable when it returns. For
        the drainer. Raises OSError."""
        await self._settlement.submit(records, is_carried_out=is_carried_out)

    async def remove_bodies(self, bodies: Sequence[BodyRef]) -> dict[BodyRef, OSError]:
        """Removes the bodies of settled records. Returns those that can't be removed, and why: nobody needs them, and
        `reclaim` tries again. For the drainer."""
        return await self.run(self._remove_bodies, bodies) if bodies else {}

    async def reclaim(self) -> JournalScan:
        """Removes files that are no longer needed; returns the pending records. For the drainer. Raises OSError."""
        return await self.run(reclaim, self._files, self._layout, self._settlement.writing)

    async def size(self) -> int:
        """Returns the bytes of all files, and those that bodies on their way still get. Raises OSError."""
        return await self.run(self._size)

    def _size(self) -> int:
        total, announced = 0, self.announced.copy()
        for folder in (self._layout.logs, self._layout.bodies):
            with os.scandir(folder) as entries:
                for entry in entries:
                    with contextlib.suppress(FileNotFoundError):
                        size = announced.get(entry.name.removesuffix(BODY), 0)
                        total += max(size, entry.stat(follow_symlinks=False).st_size)
        return total

    async def close(self) -> None:
        """Ends the log and releases the directory."""
        await self._commits.close()
        await self._settlement.close()
        self.threads.shutdown()
        for lock in (self._drain_lock, self._lock):
            if lock is not None:
                os.close(lock)

    async def run(self, work: Callable[..., T], *arguments: object) -> T:
        """Runs blocking work on a thread of the journal."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, partial(work, *arguments))

    def _remove_bodies(self, bodies: Sequence[BodyRef]) -> dict[BodyRef, OSError]:
        failures = {}
        for body in bodies:
            try:
                remove_body(self._files, self._layout.body(body.id))
            except FileNotFoundError:
                continue
            except OSError as error:
                failures[body] = error
        return failures

    def _read(self, ref: BodyRef, within: Span) -> memoryview:
        reader = BodyReader(self._files, self._layout, ref)
        try:
            return reader.read(within)
        finally:
            reader.close()


class JournalBody:
    """A body on its way into the journal. `release` it once its record is durable, or `discard` it."""

    def __init__(self, journal: Journal, writer: BodyWriter) -> None:
        self._journal = journal
        self._writer = writer
        self._finishing: asyncio.Future[BodyRef] | None = None

    async def append(self, pieces: Sequence[Buffer | bytes]) -> None:
        """Adds the next bytes. Raises OSError."""
        await self._journal.run(self._writer.append, pieces)

    def queue(self, batch: int, limit: int) -> PieceQueue:
        """Returns a queue that adds the bytes put into it, instead of `append`."""
        return PieceQueue(self._writer.append, batch=batch, limit=limit, executor=self._journal.threads)

    async def finish(self) -> BodyRef:
        """Ends the body; durable when it returns. Raises OSError."""
        self._finishing = asyncio.get_running_loop().run_in_executor(self._journal.threads, self._writer.finish)
        await asyncio.wait((self._finishing,))  # which is not cancelled with this task: its thread goes on
        self._journal.announced.pop(self._writer.id, None)
        return self._finishing.result()

    @property
    def crc(self) -> int:
        """CRC-64/XZ of the body, once it has ended."""
        return self._writer.crc

    def release(self) -> None:
        """The record is durable. Idempotent."""
        self._writer.release()

    async def discard(self) -> None:
        """There will be no record. Raises OSError."""
        self._journal.announced.pop(self._writer.id, None)
        if self._finishing is not None:  # the number of a file that is closed under it may be another one's
            await asyncio.wait((self._finishing,))
            self._finishing.exception()  # nobody else may have looked at it
        await self._journal.run(self._writer.discard)


def _claim(path: Path, family: str, files: JournalFiles, layout: JournalLayout) -> tuple[int, int]:
    """Returns a descriptor of the lock, held shared, and the number of the run. The first of a family begins a run, and
    the directory."""
    created = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    holds_journal(layout)  # refuses other content before anything is written
    lock = files.open_lock(str(path / "lock"))
    try:
        for _ in range(JOIN_ATTEMPTS):
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                last = _read_lock(lock)
                if not holds_journal(layout):
                    if not Path(layout.logs).exists():  # else FORMAT alone is missing
                        last = last or _Owner(family, 0)
                    _begin_directory(files, layout, created)
                with contextlib.suppress(OSError):  # nothing depends on it
                    Path(layout.readme).write_text(README)
                run = 1 + (last.run if last is not None else _last_run(files, layout))
                if fcntl.fcntl(lock, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:  # to join a run, that is enough
                    raise OSError(errno.EROFS, os.strerror(errno.EROFS))
                files.write_lock(lock, _lock_line(family, run).ljust(_LOCK_SIZE).encode())
                files.sync(lock)  # or a power cut has the next run begin with this number, too
                # Not in one step: another worker may begin a run in between, which is then the run of both.
                fcntl.flock(lock, fcntl.LOCK_SH)
                owner = _read_lock(lock)
                return lock, owner.run if owner is not None else run
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                owner = _read_lock(lock)
                if owner is not None and owner.family == family:
                    return lock, owner.run
                break
            Event().wait(JOIN_PAUSE)  # the first of the family begins
    except BaseException:
        os.close(lock)
        raise
    os.close(lock)
    raise JournalUnusable(f"journal.path: {path} is in use by another Forebay: each needs a journal of its own")


class _Owner(NamedTuple):
    """The content of the lock file."""

    family: str
    run: int


def _lock_line(family: str, run: int) -> str:
    line = f"{family} {run}"
    return f"{line} {crc64(line.encode()):016x}"


def _read_lock(lock: int) -> _Owner | None:
    """Returns the owner that the lock names; None: the lock is new, or damaged."""
    line = os.pread(lock, _LOCK_SIZE, 0).decode("ascii", "replace").strip()
    family, _, rest = line.partition(" ")
    run = rest.partition(" ")[0]
    return _Owner(family, int(run)) if run.isdecimal() and _lock_line(family, int(run)) == line else None


def _last_run(files: JournalFiles, layout: JournalLayout) -> int:
    """Returns the last run that wrote a record, where the lock can't tell it: a run of a lower number would take its
    own writes for older than what they replace."""
    return run_of(scan_journal(files, layout).last_written)


def holds_journal(layout: JournalLayout) -> bool:
    """Returns whether the directory is a journal of this version; False: one can be begun there. Changes nothing.
    Raises JournalUnusable for any other content, which may not be touched, and OSError."""
    found = set(os.listdir(layout.path))  # noqa: PTH208 -- names are wanted, not paths
    if found - {"lost+found"} and "lock" not in found:
        raise JournalUnusable(
            f"journal.path: {layout.path} is neither empty nor a journal: name a directory of its own"
        )
    try:
        version = read_version(layout)
    except FileNotFoundError:
        return False
    if version is None:
        raise JournalUnusable(
            f"journal.path: FORMAT in {layout.path} is damaged: `forebay check-journal {layout.path}` reads the rest"
        )
    if version != VERSION:
        raise JournalUnusable(
            f"journal.path: the layout of {layout.path} has version {version}, and this Forebay reads {VERSION}: have"
            " the Forebay that wrote it carry out what is pending, then name another directory"
        )
    return True


def _begin_directory(files: JournalFiles, layout: JournalLayout, created: Sequence[Path]) -> None:
    """`created`: the directory and those above it, as far as they are new."""
    for folder in (layout.logs, layout.bodies):
        Path(folder).mkdir(mode=0o700, exist_ok=True)
    files.sync_directory(layout.path)
    for each in created or (Path(layout.path),):  # also of a start that was killed here
        files.sync_directory(str(each.parent))
    replace_file(Path(layout.format), _FORMAT)

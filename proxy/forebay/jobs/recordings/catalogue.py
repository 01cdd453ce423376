"""The catalogue of a node's recordings, in the worker that collects the reads of all workers.

    recorder ──begin, append, end──> catalogue ──write_out, one thread──> files (jobs.recordings.recording_files)
    resource, admin port ──find, read, add, save, remove──> ┘

The state of the recordings is kept in memory and changes at once. Files follow in their thread, so that no request
waits for a disk: every few seconds, after MAX_COLLECTED changes, or before they are read. All recordings together are
bounded: automatic ones give way, the least recently used first; then nothing more is recorded, and none is accepted.
Without a state directory all end with the process; where it can't be used, automatic ones do, and others are refused.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Final, TypeVar

from forebay.core.errors import Throttled
from forebay.core.task_registry import TaskRegistry
from forebay.jobs.recordings.recording import MAX_FILE_SIZE, MIN_READS, Recording, automatic_name, recordings_to_drop
from forebay.jobs.recordings.recording_files import RecordingFiles
from forebay.jobs.recordings.recording_filter import FilteredRecording
from forebay.jobs.recordings.unwritten_changes import Change, UnwrittenChanges, write_changes
from forebay.policy.anchor_index import AnchorIndex
from forebay.protocol.recordings.recording_page import MAX_PAGE_BYTES, RecordingPage
from forebay.storage.private_directory import PrivateDirectory, temporary_directory

MAX_SAVED: Final = 256
"""Saved recordings of a node: each has its anchors in memory."""
MAX_COLLECTED: Final = 64
"""Changes that are written together at the latest. A page has 16 KiB."""
MAX_UNWRITTEN: Final = 2 * MAX_COLLECTED
"""Changes that wait for the disk; further pages are dropped, and the recording has a gap."""

T = TypeVar("T")
_log = logging.getLogger(__name__)


class RecordingCatalogue:
    """The recordings of a node."""

    def __init__(
        self,
        directory: Path | None,
        limit: int,
        tasks: TaskRegistry,
        clock: Callable[[], float],
        on_dropped: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`limit`: bytes of all files. `clock`: seconds since 1970. `on_dropped` is called with reads that no recording
        has, because the disk is too slow or the limit is reached."""
        self._directory = directory
        self._limit = limit
        self._tasks = tasks
        self._clock = clock
        self._on_dropped = on_dropped
        self._recordings: dict[str, Recording] = {}
        self._thread = ThreadPoolExecutor(1, "recordings")
        self._files: RecordingFiles | None = None
        self._temporary: PrivateDirectory | None = None
        self._opening: asyncio.Task[None] | None = None
        self._waiting = UnwrittenChanges()
        self._saving = asyncio.Lock()
        """Held while a recording gets a name: two that get the same one at once do so one after the other."""
        self._in_thread = 0
        """Changes that are being written."""
        self._ids = Random()  # noqa: S311 # unlike any other, not secret; the system's random bytes cost milliseconds
        self.is_open = False
        self.version = 0
        """Changes whenever a recording ends, or goes."""

    @property
    def file_size(self) -> int:
        """Bytes of all files."""
        names = self._files.names.size if self._files is not None else 0
        return names + sum(recording.file_size for recording in self._recordings.values())

    @property
    def recordings(self) -> list[Recording]:
        """All recordings, the oldest first."""
        return sorted(self._recordings.values(), key=lambda each: (each.began, each.id))

    async def open(self) -> None:
        """Loads the recordings of earlier processes. To be called once; before that the catalogue is empty."""
        if self._opening is None:
            self._opening = self._tasks.spawn(self._open(), "open the recordings")
        await asyncio.shield(self._opening)

    async def _open(self) -> None:
        found = await self._run(self._open_files)
        for recording in sorted(found, key=lambda each: each.ended):
            previous = self.find(recording.bucket, recording.name, recording.principal)
            if previous is not None:  # a kill came before it was removed
                self.remove(previous)
            self._recordings[recording.id] = recording
        self.is_open = True
        self.version += 1

    async def close(self) -> None:
        """Waits until everything is written. The caller has ended all recordings in progress."""
        self.write_out()
        await asyncio.to_thread(self._thread.shutdown)
        if self._files is not None:
            self._files.close()
        if self._temporary is not None:
            await asyncio.to_thread(self._temporary.remove)

    def find(self, bucket: str, name: str, principal: str) -> Recording | None:
        """Returns the recording of this name that belongs to `principal`; None: there is none."""
        found = (each for each in self._recordings.values() if (each.bucket, each.name) == (bucket, name))
        return next((each for each in found if each.principal == principal), None)

    def in_bucket(self, bucket: str) -> list[Recording]:
        """Returns the recordings of a bucket, the oldest first."""
        return [recording for recording in self.recordings if recording.bucket == bucket]

    # Recording

    def begin(self, bucket: str, principal: str, track: str, run: str, epoch: int) -> Recording:
        """Begins a recording."""
        now = self._clock()
        recording_id = self._new_id()
        name = automatic_name(datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ"), recording_id)
        recording = Recording(recording_id, bucket, name, principal, track, "recording", now, run, epoch)
        self._recordings[recording_id] = recording
        self._waiting.begin(recording)
        return recording

    def _new_id(self) -> str:
        return f"{self._ids.getrandbits(64):016x}"

    def append(self, recording: Recording, page: RecordingPage) -> None:
        """Appends a page, or drops it."""
        if recording.id not in self._recordings:
            return
        portable_size = self._files.portable_size(recording.id) if self._files is not None else 0
        is_full = max(recording.file_size, portable_size) > MAX_FILE_SIZE - MAX_PAGE_BYTES
        if is_full or len(self._waiting) + self._in_thread >= MAX_UNWRITTEN or not self._make_space():
            self._on_dropped(len(page))
            return
        recording.reads += len(page)
        recording.tail_reads = 0
        self._write(recording, lambda files: files.append(recording, page))
        if not page.source.is_numbered:  # reads that are events of their own: a MiB, perhaps
            self.write_out()

    def save_tail(self, recording: Recording, pages: Sequence[RecordingPage]) -> None:
        """Saves the tail of a recording, for the case of a kill: its reads may still turn out to be of the next
        epoch."""
        if recording.id not in self._recordings:
            return
        behind, recording.tail_reads = recording.reads, sum(map(len, pages))
        self._write(recording, lambda files: files.write_tail(recording, behind, pages))

    def append_prefix(self, recording: Recording, source: Recording, reads: int) -> None:
        """Appends the first reads of another recording, unless that has gone meanwhile."""
        if source.id in self._recordings and reads:
            recording.reads += reads
            self._write(recording, lambda files: files.append_prefix(recording, source.id, reads))
            self.write_out()  # as long as the source is there

    def end(self, recording: Recording, index: AnchorIndex, *, is_whole: bool = False) -> None:
        """Ends a recording; from now on readers are compared with it. A short one is removed. `is_whole`: whether its
        objects were read again behind it."""
        if recording.id not in self._recordings:
            return
        if recording.reads < MIN_READS:
            self.remove(recording)
            return
        recording.state, recording.index, recording.ended = "automatic", index, self._clock()
        recording.is_whole = is_whole
        recording.tail_reads = 0
        self._write(recording, lambda files: files.end(recording))
        of_track = [each for each in self.in_bucket(recording.bucket) if each.track == recording.track]
        for each in recordings_to_drop(of_track):
            self.remove(each)
        self.version += 1

    def mark_whole(self, recording: Recording) -> None:
        """Notes that a recording has a whole epoch: another reader went along it and began anew at its end."""
        if not recording.is_whole and recording.id in self._recordings:
            recording.is_whole = True
            self._write(recording, lambda files: files.write_document(recording))

    def mark_used(self, recording: Recording) -> None:
        """Notes that a recording was recognised."""
        recording.used = self._clock()
        if recording.id in self._recordings:
            self._write(recording, lambda files: files.write_document(recording))

    # Uploads, downloads, names

    async def read(self, recording: Recording) -> bytes:
        """Returns the whole file of a recording that has ended. Raises OSError."""
        return await self._change(lambda files: files.read(recording.id))

    async def add(self, bucket: str, name: str, principal: str, found: FilteredRecording) -> Recording:
        """Adds a recording, in place of one of this name. Raises Throttled, and leaves that, if it can't be kept."""
        async with self._saving:
            return await self._add(bucket, name, principal, found)

    async def _add(self, bucket: str, name: str, principal: str, found: FilteredRecording) -> Recording:
        previous = self.find(bucket, name, principal)
        self._check_saved(len(found.content), previous)
        recording_id = self._new_id()
        recording = Recording(
            recording_id,
            bucket,
            name,
            principal,
            "",
            "saved",
            found.began,
            recording_id,
            1,
            ended=self._clock(),
            reads=found.reads,
            size=found.size,
            file_size=len(found.content),
            index=found.index,
        )
        try:
            await self._change(lambda files: files.create(recording, found.content))
        except OSError as error:
            await self._change(lambda files: files.remove(recording_id))
            raise self._refused("kept", error) from None
        if previous is not None:
            self.remove(previous)
        self._recordings[recording_id] = recording
        self._make_space()
        self.version += 1
        return recording

    async def save(self, recording: Recording, name: str, principal: str) -> Recording:
        """Gives a recording that has ended a name, under which it stays, and an owner. Raises Throttled, and changes
        nothing, if there is no room for it, or the disk fails."""
        async with self._saving:
            before = recording.state, recording.name, recording.principal
            previous = self.find(recording.bucket, name, principal)
            self._check_saved(recording.file_size, previous)
            recording.state, recording.name, recording.principal = "saved", name, principal
            try:
                await self._change(lambda files: files.save(recording))
            except OSError as error:
                recording.state, recording.name, recording.principal = before
                raise self._refused("kept", error) from None
            if previous is not None and previous is not recording:
                self.remove(previous)
            return recording

    def remove(self, recording: Recording) -> None:
        """Removes a recording, which may be in progress."""
        if self._recordings.pop(recording.id, None) is not None:
            self.version += 1
            if self._waiting.forget(recording):
                self._write(recording, lambda files: files.remove(recording.id))

    async def delete(self, recording: Recording) -> None:
        """Removes a recording so that it never comes back. Raises Throttled, and leaves it, if the disk fails."""
        try:
            await self._change(lambda files: files.delete(recording.id))
        except OSError as error:
            raise self._refused("removed", error) from None
        self._waiting.forget(recording)
        self._recordings.pop(recording.id, None)
        self.version += 1

    async def settle(self) -> None:
        """Waits until files and sizes are those of all that was recorded and removed so far."""
        await self._change(lambda _: None)

    async def flush(self) -> None:
        """Waits until all recorded reads are in the files."""
        await self._change(lambda files: files.flush())

    def _check_saved(self, size: int, previous: Recording | None) -> None:
        if self._directory is not None and self._temporary is not None:
            raise Throttled(f"recordings can't be kept: {self._directory} could not be used at the start")
        saved = [each for each in self._recordings.values() if each.state == "saved" and each is not previous]
        if len(saved) >= MAX_SAVED:
            raise Throttled(f"{MAX_SAVED} recordings are saved, and there may be no more")
        if sum(each.file_size for each in saved) + size > self._limit:
            raise Throttled(f"the saved recordings use up the {self._limit} bytes of limits.recordings")

    def _make_space(self) -> bool:
        """Drops automatic recordings until all files are within the limit. Returns whether they are."""
        excess = self.file_size - self._limit
        ring = (each for each in self._recordings.values() if each.state == "automatic")
        for each in sorted(ring, key=lambda each: each.latest_use) if excess > 0 else ():
            self.remove(each)
            excess -= each.file_size
            if excess <= 0:
                break
        return excess <= 0

    def _refused(self, change: str, error: OSError) -> Throttled:
        _log.warning("a recording can't be %s in %s: %s", change, self._directory, error.strerror)
        return Throttled(f"the recording can't be {change}: {error.strerror}")

    # The thread

    def _open_files(self) -> list[Recording]:
        directory = self._directory
        if directory is not None:
            try:
                self._files = RecordingFiles(directory)
            except OSError as error:
                _log.warning("recordings end with this process: %s can't be used: %s", directory, error.strerror)
        if self._files is None:
            self._temporary = PrivateDirectory.create(temporary_directory(), "forebay-recordings-")
            self._files = RecordingFiles(self._temporary.path / "recordings")
        return self._files.load()

    def _write(self, recording: Recording, change: Change) -> None:
        """Has the files changed some time after all changes before."""
        self._waiting.add(recording, change)
        if len(self._waiting) >= MAX_COLLECTED:
            self.write_out()

    def write_out(self) -> None:
        """Starts to write the changes in memory, without waiting."""
        changes = self._waiting.drain()
        if not changes:
            return
        self._in_thread += len(changes)

        def written(done: asyncio.Future[list[int]]) -> None:
            self._in_thread -= len(changes)
            if not done.cancelled():
                for (recording, _), grown in zip(changes, done.result(), strict=True):
                    recording.file_size += grown

        self._run_with_files(lambda files: write_changes(files, changes)).add_done_callback(written)

    def _change(self, change: Callable[[RecordingFiles], T]) -> asyncio.Future[T]:
        """Has the files changed at once, after all changes before."""
        self.write_out()
        return self._run_with_files(change)

    def _run_with_files(self, change: Callable[[RecordingFiles], T]) -> asyncio.Future[T]:
        files = self._files
        if files is None:
            raise RuntimeError("the recordings are not open")
        return self._run(lambda: change(files))

    def _run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._thread, work)

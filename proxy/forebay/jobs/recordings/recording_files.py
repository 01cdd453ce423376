"""The files of recordings, in one directory. Every method blocks; `catalogue` calls them in its own thread.

    <directory>/lock             flock'ed by the process that uses the directory
                ID.recording     the reads (protocol.recordings.recording_file)
                ID.names         the names that numbers in these stand for (jobs.recordings.recording_names)
                ID.tail          while it is made: u64 reads that the file above has; then a file with those behind them
                ID.json          what else is known of it (jobs.recordings.recording), written when that changes
                ID.anchors       u64 threshold, u64 reads, u32 count; then the hashes of the anchors, and their
                                 positions, u32 each (policy.anchor_index); CRC-32 of all that, u32

What a node records itself has numbers in place of names, and is put together where it is read or saved. A few pages
wait in memory until the tail is written. What a client has sent or named is fsync'ed; what a node records is not: a
recording that a power cut damages is found out by its checksums, and cut or dropped.
"""

import errno
import fcntl
import json
import logging
import os
import re
import struct
import sys
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from zlib import crc32

from forebay.core.cooperative import run_to_completion
from forebay.core.errors import MalformedRecording
from forebay.jobs.recordings.recording import MIN_READS, Recording, recording_from
from forebay.jobs.recordings.recording_filter import filter_recording
from forebay.jobs.recordings.recording_names import RecordingNames, remove_unneeded
from forebay.policy.anchor_index import AnchorIndex
from forebay.protocol.recordings.numbered_page import NumberedSection
from forebay.protocol.recordings.recording_file import RecordingDecoder, RecordingEncoder, RecordingHeader
from forebay.protocol.recordings.recording_page import RecordingPage
from forebay.storage.durable_files import make_directory, sync_directory

_ANCHORS: Final = struct.Struct("<QQI")
_CRC: Final = struct.Struct("<I")
_BEHIND: Final = struct.Struct("<Q")
_SUFFIXES: Final = (".json", ".anchors", ".recording", ".tail")
"""The files of a recording; first the one without which there is none."""
_ID: Final = re.compile("[0-9a-f]{16}")
MAX_WAITING: Final = 4
"""Pages of a recording that wait in memory."""
_log = logging.getLogger(__name__)


class _Growing:
    """A recording that is being made."""

    __slots__ = ("documented", "encoder", "portable_size", "recording", "waiting")

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.encoder = RecordingEncoder()
        self.waiting = [self.encoder.start(RecordingHeader(int(recording.began)))]
        """The reads that are not in its file yet."""
        self.documented = -1
        """The number of files of names in its document; -1: it has no document."""
        self.portable_size = 0
        """The estimated bytes of the recording with its names in itself."""


class RecordingFiles:
    """A locked directory. Raises OSError if it can't be made, or another process uses it."""

    def __init__(self, directory: Path) -> None:
        make_directory(directory)
        self._directory = directory
        self._lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise
        self.names = RecordingNames(directory)
        self._growing: dict[str, _Growing] = {}
        self._used: dict[str, list[str]] = {}
        """The names of each recording that needs any."""
        self._unverified: set[str] = set()
        """Ended recordings of earlier processes that were not read yet."""

    def close(self) -> None:
        """Unlocks the directory."""
        os.close(self._lock)

    def load(self) -> list[Recording]:
        """Returns all recordings. A recording in progress at the end of its process ends with its last read."""
        found = []
        for path in sorted(self._directory.glob("*.json")):
            try:
                recording = recording_from(json.loads(path.read_bytes()))
                if path.stem != recording.id or _ID.fullmatch(recording.id) is None:
                    raise ValueError("its name is that of another recording")
                for names_id in recording.names:
                    if _ID.fullmatch(names_id) is None:
                        raise ValueError("its names have no name of a file")
                    self.names.use(names_id)
                    self._used.setdefault(recording.id, []).append(names_id)
                if recording.state == "recording":
                    self._salvage(recording)
                else:
                    recording.index = self._read_anchors(recording.id)
                    recording.file_size = self._path(recording.id).stat().st_size
                    self._unverified.add(recording.id)
            except (OSError, ValueError, TypeError, MalformedRecording) as reason:
                _log.warning("the recording %s is dropped: %s", path, reason)
                self.remove(path.stem)
            else:
                found.append(recording)
        known = {recording.id for recording in found}
        for path in self._directory.iterdir():
            is_left = path.suffix in {".recording", ".anchors"} and path.stem not in known
            if is_left or path.suffix in {".new", ".tail"}:
                remove_unneeded(path)
        self.names.remove_unused()
        self.names.forget_loaded()
        return found

    def append(self, recording: Recording, page: RecordingPage) -> int:
        """Appends a page, and notes the bytes of all reads so far. Returns its size in the file."""
        growing = self._grow(recording)
        chunk, names_size = self._encoded(recording, growing.encoder, page)
        growing.waiting.append(chunk)
        growing.portable_size += len(chunk) + names_size
        recording.size, recording.tail_size = growing.encoder.size, 0
        if len(growing.waiting) > MAX_WAITING:
            self._write_waiting(recording)
        return len(chunk)

    def _grow(self, recording: Recording) -> _Growing:
        growing = self._growing.get(recording.id)
        if growing is None:
            growing = self._growing[recording.id] = _Growing(recording)
        return growing

    def portable_size(self, recording_id: str) -> int:
        """Estimates the bytes that a recording that is being made takes elsewhere. May be called in any thread."""
        growing = self._growing.get(recording_id)
        return growing.portable_size if growing is not None else 0

    def _encoded(self, recording: Recording, encoder: RecordingEncoder, page: RecordingPage) -> tuple[bytes, int]:
        """Returns a page as a chunk, and about how many bytes the names take that it has not in itself."""
        numbered = page.source.numbered
        if numbered is None:
            return encoder.page(page), 0
        sections, size, names_size = list[NumberedSection](), 0, 0
        for known, numbers in numbered:
            names_id = self.names.write(known, numbers)
            if names_id not in recording.names:
                recording.names.append(names_id)
                self.names.use(names_id)
                self._used.setdefault(recording.id, []).append(names_id)
            size += known.size_of(numbers)
            names_size += self.names.size_of(names_id, len(numbers))
            sections.append(NumberedSection(bytes.fromhex(names_id), numbers))
        return encoder.numbered_page(page.seconds, sections, size), names_size

    def flush(self) -> None:
        """Writes the changes in memory."""
        for growing in self._growing.values():
            self._write_waiting(growing.recording)

    def _write_waiting(self, recording: Recording) -> None:
        growing = self._grow(recording)
        content, growing.waiting = b"".join(growing.waiting), []
        with self._path(recording.id).open("ab") as file:
            file.write(content)
        if recording.state == "recording" and growing.documented < len(recording.names):
            growing.documented = len(recording.names)
            self.write_document(recording)

    def append_prefix(self, recording: Recording, source_id: str, reads: int) -> int:
        """Appends the first reads of another recording. Returns their size in the file."""
        size = 0
        for page in self._decoder(self._path(source_id).read_bytes()).pages():
            size += self.append(recording, RecordingPage(page.columns.part(0, reads), page.seconds))
            reads -= len(page)
            if reads <= 0:
                break
        self.names.forget_loaded()
        return size

    def write_tail(self, recording: Recording, behind: int, pages: Sequence[RecordingPage]) -> None:
        """Writes the reads behind the first `behind`, in place of those written before, for the case of a kill."""
        encoder = RecordingEncoder()
        pieces = [encoder.start(RecordingHeader(int(recording.began)))]
        pieces += [self._encoded(recording, encoder, page)[0] for page in pages]
        recording.tail_size = encoder.size
        content = b"".join([_BEHIND.pack(behind), *pieces, encoder.end()])
        self._write_waiting(recording)
        self._replace(self._directory / f"{recording.id}.tail", content)

    def end(self, recording: Recording) -> int:
        """Ends a recording, whose state and index are final. Returns the size of its end."""
        growing = self._grow(recording)
        chunk, recording.tail_size = growing.encoder.end(), 0
        growing.waiting.append(chunk)
        self._write_waiting(recording)
        del self._growing[recording.id]
        self._write_anchors(recording)
        self.write_document(recording)
        (self._directory / f"{recording.id}.tail").unlink(missing_ok=True)
        return len(chunk)

    def create(self, recording: Recording, content: bytes) -> None:
        """Makes the files of a whole recording, durable when it returns."""
        self._replace(self._path(recording.id), content)
        self._release_names(recording.id)
        recording.names.clear()
        self._write_anchors(recording)
        self.write_document(recording)
        self._sync(recording.id)

    def write_document(self, recording: Recording) -> None:
        """Writes its facts."""
        path = self._directory / f"{recording.id}.json"
        self._replace(path, json.dumps(recording.to_document()).encode())

    def read(self, recording_id: str) -> bytes:
        """Returns the whole file, with its names in itself. Raises OSError, and FileNotFoundError if it is damaged."""
        content = self._path(recording_id).read_bytes()
        if recording_id not in self._used and recording_id not in self._unverified:
            return content
        try:
            verified = _joined(self._decoder(content))
            self._unverified.discard(recording_id)
            return verified if recording_id in self._used else content
        except MalformedRecording as malformed:
            _log.warning("the recording %s can't be read: %s", recording_id, malformed)
            raise FileNotFoundError(errno.ENOENT, "the recording is damaged") from None
        finally:
            self.names.forget_loaded()

    def save(self, recording: Recording) -> None:
        """Releases the file of names of an ended recording, and writes its facts, durable when it returns."""
        if recording.names:
            content = self.read(recording.id)
            self._replace(self._path(recording.id), content)
            self._release_names(recording.id)
            recording.names.clear()
            recording.file_size = len(content)
        self.write_document(recording)
        self._sync(recording.id)

    def _sync(self, recording_id: str) -> None:
        for suffix in _SUFFIXES[:3]:
            with (self._directory / f"{recording_id}{suffix}").open("rb") as file:
                os.fsync(file.fileno())
        sync_directory(self._directory)

    def _decoder(self, content: bytes) -> RecordingDecoder:
        return RecordingDecoder(content, self.names.find)

    def _release_names(self, recording_id: str) -> None:
        for names_id in self._used.pop(recording_id, ()):
            self.names.release(names_id)

    def remove(self, recording_id: str) -> None:
        """Removes the existing files of a recording. One that can't be removed is logged; `load` tries it again."""
        self._growing.pop(recording_id, None)
        self._release_names(recording_id)
        for suffix in _SUFFIXES:
            remove_unneeded(self._directory / f"{recording_id}{suffix}")

    def delete(self, recording_id: str) -> None:
        """Removes a recording so that it does not come back, also after a power cut. Raises OSError."""
        (self._directory / f"{recording_id}{_SUFFIXES[0]}").unlink(missing_ok=True)
        sync_directory(self._directory)
        self.remove(recording_id)

    def _salvage(self, recording: Recording) -> None:
        content = self._path(recording.id).read_bytes()
        found = run_to_completion(filter_recording(content, salvage=True, find_names=self.names.find))
        if (rest := self._read_tail(recording.id, found.reads)) is not None:
            found = run_to_completion(filter_recording(_joined(RecordingDecoder(found.content), rest)))
        if found.reads < MIN_READS:
            raise ValueError("it broke off at its beginning")
        recording.state, recording.index = "automatic", found.index
        recording.reads, recording.size, recording.file_size = found.reads, found.size, len(found.content)
        recording.ended = self._path(recording.id).stat().st_mtime
        self.create(recording, found.content)

    def _read_tail(self, recording_id: str, reads: int) -> list[RecordingPage] | None:
        """Returns the reads behind the first `reads`; None: nothing is known of them."""
        try:
            content = (self._directory / f"{recording_id}.tail").read_bytes()
            (behind,) = _BEHIND.unpack_from(content)
            pages = list(self._decoder(content[_BEHIND.size :]).pages())
        except (OSError, struct.error, MalformedRecording):
            return None
        found = []
        for page in pages:
            if behind > reads:  # a page is missing between
                break
            known = reads - behind
            if known < len(page):
                found.append(RecordingPage(page.columns.part(known, len(page)), page.seconds))
                reads = behind + len(page)
            behind += len(page)
        return found or None

    def _path(self, recording_id: str) -> Path:
        return self._directory / f"{recording_id}.recording"

    def _replace(self, path: Path, content: bytes) -> None:
        new = path.with_suffix(".new")
        try:
            new.write_bytes(content)
            new.replace(path)
        except OSError:
            new.unlink(missing_ok=True)
            raise

    def _write_anchors(self, recording: Recording) -> None:
        index = recording.index
        columns = [column[:] for column in index.columns]
        if sys.byteorder == "big":
            for column in columns:
                column.byteswap()
        head = _ANCHORS.pack(index.threshold, index.count, len(columns[0]))
        content = b"".join([head, *(column.tobytes() for column in columns)])
        self._replace(self._directory / f"{recording.id}.anchors", content + _CRC.pack(crc32(content)))

    def _read_anchors(self, recording_id: str) -> AnchorIndex:
        content = (self._directory / f"{recording_id}.anchors").read_bytes()
        content, crc = content[: -_CRC.size], content[-_CRC.size :]
        if len(content) < _ANCHORS.size:
            raise ValueError("its anchors are cut short")
        threshold, reads, count = _ANCHORS.unpack_from(content)
        if crc != _CRC.pack(crc32(content)) or len(content) != _ANCHORS.size + 8 * count or not threshold:
            raise ValueError("its anchors are damaged")
        columns = array("I")
        columns.frombytes(content[_ANCHORS.size :])
        if sys.byteorder == "big":
            columns.byteswap()
        return AnchorIndex.of(threshold, reads, columns[:count], columns[count:])


def _joined(decoder: RecordingDecoder, rest: Sequence[RecordingPage] = ()) -> bytes:
    encoder = RecordingEncoder()
    pieces = [encoder.start(decoder.header)]
    pieces += [encoder.page(page) for pages in (decoder.pages(), rest) for page in pages]
    return b"".join([*pieces, encoder.end()])

"""The files of recordings, in one directory. Every method blocks; `catalogue` calls them in its own thread.

    <directory>/lock             flock'ed by the process that uses the directory
                ID.recording     the reads (protocol.recordings.recording_file)
                ID.tail          while it is made: u64 reads that the file above has; then a file with those behind them
                ID.json          what else is known of it (jobs.recordings.recording), written when that changes
                ID.anchors       u64 threshold, u64 reads, u32 count; then the hashes of the anchors, and their
                                 positions, u32 each (policy.recognition)

Nothing is fsync'ed: a recording that a power cut damages is found out by its checksums, and cut or dropped.
"""

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

from forebay.core.cooperative import run_to_completion
from forebay.core.errors import MalformedRecording
from forebay.jobs.recordings.recording import MIN_READS, Recording, recording_from
from forebay.jobs.recordings.recording_filter import filter_recording
from forebay.policy.recognition import AnchorIndex
from forebay.protocol.recordings.recording_file import RecordingDecoder, RecordingEncoder, RecordingHeader
from forebay.protocol.recordings.recording_page import RecordingPage

_ANCHORS: Final = struct.Struct("<QQI")
_BEHIND: Final = struct.Struct("<Q")
_ID: Final = re.compile("[0-9a-f]{16}")
_log = logging.getLogger(__name__)


class RecordingFiles:
    """A locked directory. Raises OSError if it can't be made, or another process uses it."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._directory = directory
        self._lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise
        self._encoders: dict[str, RecordingEncoder] = {}

    def close(self) -> None:
        """Unlocks the directory."""
        os.close(self._lock)

    def load(self) -> list[Recording]:
        """Returns the recordings that are here; those that were being made end where they broke off."""
        found = []
        for path in sorted(self._directory.glob("*.json")):
            try:
                recording = recording_from(json.loads(path.read_bytes()))
                if path.stem != recording.id or _ID.fullmatch(recording.id) is None:
                    raise ValueError("its name is that of another recording")
                if recording.state == "recording":
                    self._salvage(recording)
                else:
                    recording.index = self._read_anchors(recording.id)
                    recording.file_size = self._path(recording.id).stat().st_size
            except (OSError, ValueError, TypeError, MalformedRecording) as reason:
                _log.warning("the recording %s is dropped: %s", path, reason)
                self.remove(path.stem)
            else:
                found.append(recording)
        known = {recording.id for recording in found}
        for path in self._directory.iterdir():
            is_left = path.suffix in {".recording", ".anchors"} and path.stem not in known
            if is_left or path.suffix in {".new", ".tail"}:
                path.unlink(missing_ok=True)
        return found

    def begin(self, recording: Recording) -> None:
        """Makes the files of a recording without reads."""
        encoder = self._encoders[recording.id] = RecordingEncoder()
        self._append(recording.id, encoder.start(RecordingHeader(int(recording.began))))
        self.write_document(recording)

    def append(self, recording: Recording, page: RecordingPage) -> int:
        """Appends a page, and notes the bytes of all reads so far. Returns its size in the file."""
        encoder = self._encoders[recording.id]
        chunk = encoder.page(page)
        self._append(recording.id, chunk)
        recording.size = encoder.size
        return len(chunk)

    def append_prefix(self, recording: Recording, source_id: str, reads: int) -> int:
        """Appends the first reads of another recording. Returns their size in the file."""
        size = 0
        for page in RecordingDecoder(self.read(source_id)).pages():
            size += self.append(recording, RecordingPage(page.columns.part(0, reads), page.seconds))
            reads -= len(page)
            if reads <= 0:
                break
        return size

    def write_tail(self, recording: Recording, behind: int, pages: Sequence[RecordingPage]) -> None:
        """Writes the reads behind the first `behind`, in place of those written before, for the case of a kill."""
        encoder = RecordingEncoder()
        pieces = [encoder.start(RecordingHeader(int(recording.began))), *map(encoder.page, pages), encoder.end()]
        self._replace(self._directory / f"{recording.id}.tail", b"".join([_BEHIND.pack(behind), *pieces]))

    def end(self, recording: Recording) -> int:
        """Ends a recording, whose state and index are final. Returns the size of its end."""
        chunk = self._encoders.pop(recording.id).end()
        self._append(recording.id, chunk)
        self._write_anchors(recording)
        self.write_document(recording)
        (self._directory / f"{recording.id}.tail").unlink(missing_ok=True)
        return len(chunk)

    def create(self, recording: Recording, content: bytes) -> None:
        """Makes the files of a whole recording."""
        self._replace(self._path(recording.id), content)
        self._write_anchors(recording)
        self.write_document(recording)

    def write_document(self, recording: Recording) -> None:
        """Writes what is known of it."""
        path = self._directory / f"{recording.id}.json"
        self._replace(path, json.dumps(recording.to_document()).encode())

    def read(self, recording_id: str) -> bytes:
        """Returns the whole file."""
        return self._path(recording_id).read_bytes()

    def remove(self, recording_id: str) -> None:
        """Removes the files of a recording, those that there are."""
        self._encoders.pop(recording_id, None)
        for suffix in (".json", ".anchors", ".recording", ".tail"):
            (self._directory / f"{recording_id}{suffix}").unlink(missing_ok=True)

    def _salvage(self, recording: Recording) -> None:
        found = run_to_completion(filter_recording(self.read(recording.id), salvage=True))
        if (rest := self._read_tail(recording.id, found.reads)) is not None:
            found = run_to_completion(filter_recording(_joined(found.content, rest)))
        if found.reads < MIN_READS:
            raise ValueError("it broke off at its beginning")
        recording.state, recording.index = "automatic", found.index
        recording.reads, recording.size, recording.file_size = found.reads, found.size, len(found.content)
        recording.ended = self._path(recording.id).stat().st_mtime
        self.create(recording, found.content)

    def _read_tail(self, recording_id: str, reads: int) -> list[RecordingPage] | None:
        """The reads behind the first `reads`; None: nothing is known of them."""
        try:
            content = (self._directory / f"{recording_id}.tail").read_bytes()
            (behind,) = _BEHIND.unpack_from(content)
            pages = list(RecordingDecoder(content[_BEHIND.size :]).pages())
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

    def _append(self, recording_id: str, chunk: bytes) -> None:
        with self._path(recording_id).open("ab") as file:
            file.write(chunk)

    def _replace(self, path: Path, content: bytes) -> None:
        new = path.with_suffix(".new")
        new.write_bytes(content)
        new.replace(path)

    def _write_anchors(self, recording: Recording) -> None:
        index = recording.index
        columns = [array("I", index.positions.keys()), array("I", index.positions.values())]
        if sys.byteorder == "big":
            for column in columns:
                column.byteswap()
        head = _ANCHORS.pack(index.threshold, index.count, len(index.positions))
        content = b"".join([head, *(column.tobytes() for column in columns)])
        self._replace(self._directory / f"{recording.id}.anchors", content)

    def _read_anchors(self, recording_id: str) -> AnchorIndex:
        content = (self._directory / f"{recording_id}.anchors").read_bytes()
        if len(content) < _ANCHORS.size:
            raise ValueError("its anchors are cut short")
        index = AnchorIndex()
        index.threshold, index.count, count = _ANCHORS.unpack_from(content)
        if len(content) != _ANCHORS.size + 8 * count or not index.threshold:
            raise ValueError("its anchors are damaged")
        columns = array("I")
        columns.frombytes(content[_ANCHORS.size :])
        if sys.byteorder == "big":
            columns.byteswap()
        index.positions = dict(zip(columns[:count], columns[count:], strict=True))
        return index


def _joined(content: bytes, rest: Sequence[RecordingPage]) -> bytes:
    decoder, encoder = RecordingDecoder(content), RecordingEncoder()
    pieces = [encoder.start(decoder.header)]
    pieces += [encoder.page(page) for pages in (decoder.pages(), rest) for page in pages]
    return b"".join([*pieces, encoder.end()])

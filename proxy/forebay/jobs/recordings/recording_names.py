"""The names of recorded objects, each once: files beside the recordings that a node makes. Every method blocks.

    <directory>/ID.names         a recording without its end (protocol.recordings.recording_file): object n is read n

The numbers of reads in a worker's log (core.read_log) are used as they are, so a log has one file, which grows with it.
A file goes when no recording needs it; names that are read again are then written anew, to another.
"""

import logging
from pathlib import Path
from random import Random
from typing import Final
from weakref import WeakKeyDictionary

from forebay.core.errors import MalformedRecording
from forebay.core.read_log import KnownReads
from forebay.protocol.recordings.read_columns import Numbers, ReadColumns, no_reads
from forebay.protocol.recordings.recording_file import RecordingDecoder, RecordingEncoder, RecordingHeader
from forebay.protocol.recordings.recording_page import PAGE_READS, RecordingPage

MAX_LOADED: Final = 2
"""Files of names, each of up to some 20 MiB, that are in memory while a recording is read."""

_log = logging.getLogger(__name__)


class _Names:
    """A file of names."""

    __slots__ = ("encoder", "is_broken", "size", "uses", "written")

    def __init__(self, size: int = 0, written: int = 0) -> None:
        self.encoder = RecordingEncoder()
        self.size = size
        """Bytes."""
        self.written = written
        """The number of names in the file."""
        self.uses = 0
        """Recordings that need it."""
        self.is_broken = False


class RecordingNames:
    """The files of names in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files: dict[str, _Names] = {}
        self._ids = Random()  # noqa: S311 # unlike any other, not secret
        self._of_log: WeakKeyDictionary[KnownReads, str] = WeakKeyDictionary()
        """The files that are written still."""
        self._loaded: dict[str, ReadColumns] = {}

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(each.size for each in tuple(self._files.values()))

    def write(self, known: KnownReads, numbers: Numbers) -> str:
        """Has the names of these numbers written. Returns the id of their file."""
        names_id = self._of_log.get(known)
        if names_id is None or names_id not in self._files or self._files[names_id].is_broken:
            names_id = self._of_log[known] = f"{self._ids.getrandbits(64):016x}"
            names = self._files[names_id] = _Names()
            self._append(names_id, names, names.encoder.start(RecordingHeader(0)))
        names = self._files[names_id]
        count = len(known.extents)
        if names.written < count and max(numbers) >= names.written:  # the first is cheap: nearly always all are there
            for start in range(names.written, count, PAGE_READS):
                stop = min(count, start + PAGE_READS)
                columns = ReadColumns.of_whole(known.keys[start:stop], known.extents[start:stop])
                self._append(names_id, names, names.encoder.page(RecordingPage(columns)))
                names.written = stop
        return names_id

    def size_of(self, names_id: str, reads: int) -> int:
        """Estimates the bytes that the names of `reads` reads take in the recording itself."""
        names = self._files[names_id]
        return reads * names.size // max(1, names.written)

    def use(self, names_id: str) -> None:
        """Keeps a file for one recording more. Raises ValueError if there is none."""
        if names_id not in self._files:
            path = self._path(names_id)
            if not path.is_file():
                raise ValueError("its names are missing")
            self._files[names_id] = _Names(path.stat().st_size)
        self._files[names_id].uses += 1

    def release(self, names_id: str) -> None:
        """Releases a recording's file of names. Removes a file that no recording uses."""
        names = self._files[names_id]
        names.uses -= 1
        if not names.uses:
            del self._files[names_id]
            self._loaded.pop(names_id, None)
            remove_unneeded(self._path(names_id))

    def remove_unused(self) -> None:
        """Removes files that an earlier process has left and no recording needs."""
        for path in self._directory.glob("*.names"):
            if path.stem not in self._files:
                remove_unneeded(path)

    def find(self, names_id: bytes) -> ReadColumns:
        """Returns the names of a file. Raises MalformedRecording."""
        name = names_id.hex()
        for known, log_id in self._of_log.items():
            if log_id == name and name in self._files:
                count = len(known.extents)
                return ReadColumns.of_whole(known.keys[:count], known.extents[:count])
        found = self._loaded.pop(name, None)
        if found is None:
            try:
                found = _names_in(self._path(name).read_bytes())
            except OSError as error:
                raise MalformedRecording(f"its names can't be read: {error.strerror}") from None
            while len(self._loaded) >= MAX_LOADED:
                del self._loaded[next(iter(self._loaded))]
        self._loaded[name] = found
        return found

    def forget_loaded(self) -> None:
        """Has no names in memory any more."""
        self._loaded.clear()

    def _append(self, names_id: str, names: _Names, content: bytes) -> None:
        try:
            with self._path(names_id).open("ab") as file:
                file.write(content)
        except OSError:  # a part may be there, and nothing behind it can be read
            names.is_broken = True
            raise
        names.size += len(content)

    def _path(self, names_id: str) -> Path:
        return self._directory / f"{names_id}.names"


def remove_unneeded(path: Path) -> None:
    """Removes a file that no recording needs, if it is there. One that can't be removed is logged, and stays."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        _log.warning("%s can't be removed: %s", path, error.strerror)


def _names_in(content: bytes) -> ReadColumns:
    """Returns the names, as far as the file is whole: it may be written still, or its process was killed."""
    found, decoder = no_reads(), RecordingDecoder(content)
    while decoder.offset < len(content):
        try:
            page = decoder.next_page()
        except MalformedRecording:
            break
        if page is None:
            break
        found.extend(page.columns)
    return found

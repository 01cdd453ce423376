"""Segment files: created once, appended to by one process, read by all, deleted whole.

    segments/0000000042.seg     records, one after the other (record.py); nothing else

Invariants:
- no byte of a segment is ever overwritten, and no number is used twice: an open file stays what it was;
- the process that appends holds an exclusive flock on the file, so a segment that can be locked has no writer (any
  more), however that one ended;
- a file descriptor is closed when its last user drops it, never under a read in another thread.

`scan_segment` finds the records of a segment. Its result only serves to look up which index rows point there, so
neither a damaged header nor a payload that looks like one does harm.
"""

import errno
import fcntl
import os
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple, TypeAlias

from forebay.storage.ssd.segments.block_location import BlockLocation
from forebay.storage.ssd.segments.record import ALIGNMENT, MAGIC, MIN_HEADER, parse_header, record_size
from forebay.storage.ssd.segments.space_accounting import DiskSpace

MAX_OPEN_FILES: Final = 256
# Small records are scanned together, of large ones only the header is read.
WINDOW: Final = 256 * 1024
HEADER_WINDOW: Final = 4096

FileState: TypeAlias = tuple[int, int, int]
"""ctime in nanoseconds, size and inode. Two that are equal say that nothing was changed in between, apart from the
coarseness of the kernel's clock. A plain tuple, as one is made for each hit."""


class SegmentFile:
    """An open segment. Closed when it is garbage: the file cache, readers and reclaim each hold a reference."""

    __slots__ = ("fd",)

    def __init__(self, path: Path, flags: int) -> None:
        self.fd = -1  # so that __del__ finds it if open() fails
        self.fd = os.open(path, flags | os.O_CLOEXEC, 0o600)

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)

    def size(self) -> int:
        """Returns the bytes of the file. Raises OSError."""
        return os.fstat(self.fd).st_size

    def state(self) -> FileState:
        """Returns the state of the file now. Raises OSError."""
        stat = os.fstat(self.fd)
        return stat.st_ctime_ns, stat.st_size, stat.st_ino


class Segments:
    """The segment files of one directory. Safe to use from several threads."""

    def __init__(self, path: Path, max_open_files: int = MAX_OPEN_FILES) -> None:
        self._path = path
        self._lock = Lock()
        self._max_open_files = max_open_files
        self._open: OrderedDict[int, SegmentFile] = OrderedDict()
        """The open segments, in LRU order. Its single steps need no lock, as they are done in C."""

    def path(self, number: int) -> Path:
        """Returns the path of a segment."""
        return self._path / f"{number:010}.seg"

    def open_reader(self, number: int) -> SegmentFile | None:
        """Returns the segment, open for reading; None if there is no such file. Raises OSError for other failures."""
        found = self._open.get(number)
        if found is not None:
            try:  # noqa: SIM105 # suppress() takes as long as all of the rest, on the way of each hit
                self._open.move_to_end(number)
            except KeyError:
                pass  # it was dropped meanwhile; this reader has it
            return found
        try:
            opened = SegmentFile(self.path(number), os.O_RDONLY)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in {errno.EMFILE, errno.ENFILE}:
                self.close()  # others need descriptors more than this cache does
            raise
        with self._lock:
            self._open[number] = opened
            while len(self._open) > self._max_open_files:
                self._open.popitem(last=False)
        return opened

    def create(self, number: int) -> SegmentFile:
        """Creates a segment for this process to append to. Raises OSError."""
        created = SegmentFile(self.path(number), os.O_RDWR | os.O_CREAT | os.O_EXCL)
        fcntl.flock(created.fd, fcntl.LOCK_EX)  # waits only for `has_writer` elsewhere, which holds it for microseconds
        return created

    def has_writer(self, number: int) -> bool:
        """Returns whether a live process appends to the segment."""
        try:
            file = SegmentFile(self.path(number), os.O_RDONLY)
            fcntl.flock(file.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:
            return True  # also when it can't be opened: it is left alone
        return False

    def size(self, number: int) -> int:
        """Returns the bytes of the file, 0 if there is none."""
        with suppress(OSError):
            return self.path(number).stat().st_size
        return 0

    def delete(self, number: int) -> None:
        """Deletes the file. Those who have it open read on; its space comes free with the last of them."""
        with self._lock:
            self._open.pop(number, None)
        self.path(number).unlink(missing_ok=True)

    def disk(self) -> DiskSpace:
        """Returns the space of the file system. Raises OSError."""
        found = os.statvfs(self._path)
        return DiskSpace(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)

    def numbers(self) -> list[int]:
        """Returns the numbers of all segment files, in order."""
        return sorted(int(path.stem) for path in self._path.glob("[0-9]*.seg") if path.stem.isdecimal())

    def close(self) -> None:
        """Drops the files that are open for reading."""
        with self._lock:
            self._open.clear()


class ScannedRecord(NamedTuple):
    """A record that a segment seems to hold, unverified."""

    address: bytes
    location: BlockLocation


def scan_segment(file: SegmentFile, number: int, size: int) -> Iterator[ScannedRecord]:
    """Yields the records in the first `size` bytes of a segment. Raises OSError if it can't be read.

    After a damaged header the scan goes on at the next position where a record could begin.
    """
    window = memoryview(b"")
    base = offset = 0
    window_size = WINDOW
    while offset + MIN_HEADER <= size:
        if not base <= offset <= base + len(window) - MIN_HEADER:
            base, window = offset, memoryview(os.pread(file.fd, window_size, offset))
            if len(window) < MIN_HEADER:
                return
        header = parse_header(window[offset - base : offset - base + MIN_HEADER])
        if header is None or offset + record_size(header.length) > size:
            offset = _next_start(window, base, offset)
            window_size = WINDOW
            continue
        yield ScannedRecord(header.address, BlockLocation(number, offset, header.length))
        offset += record_size(header.length)
        window_size = WINDOW if header.length < WINDOW else HEADER_WINDOW


def _next_start(window: memoryview, base: int, offset: int) -> int:
    """Returns the next aligned position beyond `offset` that has the magic, or the end of the window."""
    content = window.tobytes()
    position = offset - base
    while True:
        position = content.find(MAGIC, position + 1)
        if position < 0:
            # The magic may begin in this window's last bytes.
            return max(offset + ALIGNMENT, (base + len(content) - len(MAGIC)) // ALIGNMENT * ALIGNMENT)
        if (base + position) % ALIGNMENT == 0:
            return base + position

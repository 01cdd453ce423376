"""Segment files: made once, appended to by one process, read by all, deleted whole.

    segments/0000000042.seg     records, one after the other (record.py); nothing else

Invariants:
- no byte of a segment is ever overwritten, and no number is used twice: what a reader has open stays what it was;
- the process that appends holds an exclusive flock on the file, so a segment that can be locked has no writer (any
  more), however that one ended;
- a file descriptor is closed when its last user lets go of it, never under a read in another thread.
"""

import errno
import fcntl
import os
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final, TypeAlias

OPEN_FILES: Final = 256

FileState: TypeAlias = tuple[int, int, int]
"""ctime in nanoseconds, size and inode: two that are equal say that nothing was changed in between, but for the
coarseness of the kernel's clock. A plain tuple, as it is made for each hit."""


class SegmentFile:
    """An open segment. Closed when it is garbage: the cache, readers and the walk of reclaim each hold a reference."""

    __slots__ = ("fd",)

    def __init__(self, path: Path, flags: int) -> None:
        self.fd = -1  # so that __del__ finds it if open() fails
        self.fd = os.open(path, flags | os.O_CLOEXEC, 0o600)

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)

    def size(self) -> int:
        return os.fstat(self.fd).st_size

    def state(self) -> FileState:
        told = os.fstat(self.fd)
        return told.st_ctime_ns, told.st_size, told.st_ino


class Segments:
    """The segment files of one directory. Safe to use from several threads."""

    def __init__(self, path: Path, open_files: int = OPEN_FILES) -> None:
        self._path = path
        self._lock = Lock()
        self._most = open_files
        self._open: OrderedDict[int, SegmentFile] = OrderedDict()
        """In the order of their use. Its single steps need no lock, as they are done in C."""

    def path(self, number: int) -> Path:
        return self._path / f"{number:010}.seg"

    def open_reader(self, number: int) -> SegmentFile | None:
        """The segment, open for reading; None if there is no such file. Other failures are an OSError."""
        found = self._open.get(number)
        if found is not None:
            try:  # noqa: SIM105 # suppress() takes as long as all of the rest, on the way of each hit
                self._open.move_to_end(number)
            except KeyError:
                pass  # it left meanwhile; this reader has it
            return found
        try:
            opened = SegmentFile(self.path(number), os.O_RDONLY)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in {errno.EMFILE, errno.ENFILE}:
                self.close()  # somebody needs descriptors more than this cache does
            raise
        with self._lock:
            self._open[number] = opened
            while len(self._open) > self._most:
                self._open.popitem(last=False)
        return opened

    def create(self, number: int) -> SegmentFile:
        """A new segment for this process to append to. OSError if it can't be made."""
        made = SegmentFile(self.path(number), os.O_RDWR | os.O_CREAT | os.O_EXCL)
        fcntl.flock(made.fd, fcntl.LOCK_EX)  # waits only for `has_writer` elsewhere, which holds it for microseconds
        return made

    def has_writer(self, number: int) -> bool:
        """Whether a live process appends to the segment."""
        try:
            file = SegmentFile(self.path(number), os.O_RDONLY)
            fcntl.flock(file.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:
            return True  # also when it can't be opened: leave it alone
        return False

    def size(self, number: int) -> int:
        """Bytes of the file, 0 if there is none."""
        with suppress(OSError):
            return self.path(number).stat().st_size
        return 0

    def delete(self, number: int) -> None:
        """Delete the file. Those who have it open read on; its space comes free with the last of them."""
        with self._lock:
            self._open.pop(number, None)
        self.path(number).unlink(missing_ok=True)

    def numbers(self) -> list[int]:
        """The segments that are there, in order."""
        return sorted(int(path.stem) for path in self._path.glob("[0-9]*.seg") if path.stem.isdecimal())

    def close(self) -> None:
        """Let go of the files that are open for reading."""
        with self._lock:
            self._open.clear()

"""The system calls of a journal, each a point with a name: `before sync log`, `within write body`, `after unlink log`.

PointedFiles ──name──> a function, which may kill the process, or fail the call
"""

import errno
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import PurePath
from threading import Lock
from typing import Final

import lmdb

from forebay.core.buffers import Buffer
from forebay.storage.journal.journal_files import JournalFiles

_KINDS: Final = {".log": "log", ".settled": "settled", ".body": "body"}


class PointedFiles(JournalFiles):
    """Calls `at(name)` at each point: before, after, and within a write, when half of it is in the file."""

    def __init__(self, at: Callable[[str], None]) -> None:
        super().__init__()
        self._at = at
        self._files: dict[int, str] = {}

    def create(self, path: str) -> int:
        return self._opened(path, "create", lambda: super(PointedFiles, self).create(path))

    def open(self, path: str, *, writable: bool = False) -> int:
        return self._opened(path, "open", lambda: super(PointedFiles, self).open(path, writable=writable))

    def _opened(self, path: str, verb: str, call: Callable[[], int]) -> int:
        kind = _kind(path)
        self._at(f"before {verb} {kind}")
        fd = call()
        self._files[fd] = kind
        self._at(f"after {verb} {kind}")
        return fd

    def open_lock(self, path: str) -> int:
        self._at("before open lock")
        fd = super().open_lock(path)
        self._files[fd] = "lock"
        self._at("after open lock")
        return fd

    def write_lock(self, fd: int, line: bytes) -> None:
        self._at("before write lock")
        super().write_lock(fd, line[: len(line) // 2])
        self._at("within write lock")
        super().write_lock(fd, line)
        self._at("after write lock")

    def truncate(self, fd: int, size: int) -> None:
        self._at(f"before truncate {self._files[fd]}")
        super().truncate(fd, size)
        self._at(f"after truncate {self._files[fd]}")

    def write(self, fd: int, pieces: Sequence[Buffer | bytes], offset: int) -> None:
        kind, content = self._files[fd], b"".join(map(bytes, pieces))
        half = len(content) // 2
        self._at(f"before write {kind}")
        super().write(fd, [content[:half]], offset)
        self._at(f"within write {kind}")
        super().write(fd, [content[half:]], offset + half)
        self._at(f"after write {kind}")

    def sync(self, fd: int) -> None:
        kind = self._files[fd]
        self._at(f"before sync {kind}")
        super().sync(fd)
        self._at(f"after sync {kind}")

    def sync_directory(self, path: str) -> None:
        self._at(f"before sync {PurePath(path).name}")
        super().sync_directory(path)
        self._at(f"after sync {PurePath(path).name}")

    def lock(self, fd: int) -> bool:
        self._at(f"before lock {self._files[fd]}")
        is_locked = super().lock(fd)
        self._at(f"after lock {self._files[fd]}")
        return is_locked

    def read(self, fd: int, size: int, offset: int) -> bytes:
        self._at(f"before read {self._files[fd]}")
        content = super().read(fd, size, offset)
        self._at(f"after read {self._files[fd]}")
        return content

    def read_into(self, fd: int, buffer: memoryview, offset: int) -> int:
        self._at(f"before read {self._files[fd]}")
        size = super().read_into(fd, buffer, offset)
        self._at(f"after read {self._files[fd]}")
        return size

    def names(self, path: str) -> list[str]:
        self._at(f"before list {PurePath(path).name}")
        names = super().names(path)
        self._at(f"after list {PurePath(path).name}")
        return names

    def unlink(self, path: str) -> None:
        self._at(f"before unlink {_kind(path)}")
        super().unlink(path)
        self._at(f"after unlink {_kind(path)}")

    def close(self, fd: int) -> None:
        kind = self._files.pop(fd)
        self._at(f"before close {kind}")
        super().close(fd)
        self._at(f"after close {kind}")


class KillAt:
    """Kills the process at the n-th time, from 0, that a point is reached. A name of None counts all of them, an `nth`
    of None kills nothing. It counts while `is_armed`."""

    def __init__(self, name: str | None, nth: int | None, *, is_armed: bool = True) -> None:
        self.is_armed = is_armed
        self._name = name
        self._nth = nth
        self._count = 0
        self._lock = Lock()

    def __call__(self, name: str) -> None:
        if not self.is_armed or self._nth is None or self._name not in {None, name}:
            return
        with self._lock:
            count, self._count = self._count, self._count + 1
            if count == self._nth:
                os.kill(os.getpid(), signal.SIGKILL)
                signal.pause()  # this thread goes no further


class FailOnce:
    """Fails the n-th time, from 0, that a point is reached, with this errno. A name of None counts all of them that
    come before a call, but those that close a file; an `nth` of None fails nothing. LMDB has errors of its own."""

    def __init__(self, name: str | None, nth: int | None, error: int) -> None:
        self._name, self._nth, self._error = name, nth, error
        self._count = 0
        self._lock = Lock()

    def __call__(self, name: str) -> None:
        if self._name != name and (self._name is not None or not _can_fail(name)):
            return
        with self._lock:
            count, self._count = self._count, self._count + 1
        if count == self._nth:
            if " commit " in name:
                raise (lmdb.DiskError if self._error == errno.ENOSPC else lmdb.Error)(os.strerror(self._error))
            raise OSError(self._error, os.strerror(self._error))


def _can_fail(name: str) -> bool:
    return name.startswith("before") and not name.startswith("before close")


def _kind(path: str) -> str:
    return _KINDS[PurePath(path).suffix]


class FailAt:
    """Fails the n-th call of a test, from 0, once it is armed. Calls that close a file don't fail."""

    def __init__(self) -> None:
        self.calls = 0
        """Since it was armed."""
        self.failed: str | None = None
        """The point that has failed."""
        self._nth: int | None = None
        self._errno = 0
        self._lock = Lock()

    def arm(self, nth: int | None, error: int = 0) -> None:
        """From here on the n-th call fails with this errno; None: none does."""
        self.calls, self._nth, self._errno, self.failed = 0, nth, error, None

    def __call__(self, name: str) -> None:
        verb, _, call = name.partition(" ")
        if verb == "after" or call.startswith("close"):
            return
        with self._lock:
            nth, self.calls = self.calls, self.calls + 1
            if nth != self._nth:
                return
            self.failed = name
        raise OSError(self._errno, os.strerror(self._errno))

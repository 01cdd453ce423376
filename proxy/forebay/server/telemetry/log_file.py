"""The destination of the access log: a stream of the process, or a file that may be rotated at any time.

The number of the file descriptor never changes. Reopening puts another file behind the same number, in one step (dup2),
so that a concurrent write goes whole to one file or to the other.
"""

import fcntl
import os
import select
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Final

from forebay.core.errors import SettingsError

_STREAMS: Final = {"stdout": 1, "stderr": 2}
_MODE: Final = 0o640
"""Not readable by everybody: the log contains object keys and who read them."""
_PIPE_BUF: Final = 4096
"""A pipe that polls as writable accepts so many bytes without blocking (pipe(7))."""
_BATCH_LINES: Final = 256
"""Lines of one write to a file: some 90 KiB, which malloc reuses. A larger buffer is mapped anew each time, and
touching its pages takes longer than writing it."""
PATIENCE: Final = 2.0
"""Seconds that a pipe may accept nothing before lines are dropped: a stuck reader must not keep us from ending."""


class LogFile:
    """A file that is open for appending."""

    def __init__(self, path: str) -> None:
        """Opens the file. Raises SettingsError."""
        self._path = path
        try:
            self.fd = self._open()
        except OSError as error:
            allowed = f'a file that can be added to ({error.strerror or error}), "stdout", "stderr" or "off"'
            raise SettingsError("server.access_log", path, allowed) from None

    def reopen(self) -> None:
        """Continues in the file that has the path now, made if there is none. Raises OSError, and keeps the old one."""
        fresh = self._open()
        try:
            os.dup2(fresh, self.fd, inheritable=False)
        finally:
            os.close(fresh)

    def close(self) -> None:
        """Closes the descriptor."""
        os.close(self.fd)

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _MODE)


def write_log_lines(
    fd: int, lines: Sequence[str], pipe_lock: "PipeLock | None" = None, patience: float = PATIENCE
) -> int:
    """Writes these lines, each with its end; blocks. Returns how many could not be written.

    That is no error: it must neither fail a request nor keep the process from ending. `pipe_lock`: shared with other
    processes that write to the same pipe. `patience`: seconds that a pipe may accept nothing.
    """
    before = 0
    try:
        file = stat.S_ISREG(os.fstat(fd).st_mode)
        with pipe_lock.exclusive() if pipe_lock is not None and not file else nullcontext():
            for before, piece in _batches(lines) if file else _atomic_batches(lines):
                left = memoryview(piece)
                while left:
                    if not file and not _is_writable(fd, patience):
                        return len(lines) - before
                    left = left[os.write(fd, left if file else left[:_PIPE_BUF]) :]
    except OSError:
        return len(lines) - before
    return 0


class PipeLock:
    """A lock for processes that write to one pipe: it accepts 4 KiB in one piece (pipe(7)), and a line may be longer.

    A file that is open for appending needs none: each write to it is whole.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Holds the lock within the block. Blocks until it is free."""
        lock = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def _batches(lines: Sequence[str]) -> Iterator[tuple[int, bytes]]:
    """Batches of lines, each with the number of lines before it."""
    for start in range(0, len(lines), _BATCH_LINES):
        yield start, _joined(lines[start : start + _BATCH_LINES])


def _atomic_batches(lines: Sequence[str]) -> Iterator[tuple[int, bytes]]:
    """Batches that a pipe accepts in one piece, of one line at least; each with the number of lines before it."""
    start = 0
    while start < len(lines):
        end, length = start + 1, len(lines[start]) + 1
        while end < len(lines) and length + len(lines[end]) < _PIPE_BUF:
            length += len(lines[end]) + 1
            end += 1
        yield start, _joined(lines[start:end])
        start = end


def _joined(lines: Sequence[str]) -> bytes:
    return "\n".join([*lines, ""]).encode()


def _is_writable(fd: int, patience: float) -> bool:
    """Whether a pipe, or the like, accepts bytes within `patience` seconds."""
    poll = select.poll()  # not select(), which is limited to descriptors below 1024
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(patience * 1000))


def stream_descriptor(setting: str) -> int | None:
    """The descriptor of the stream that `server.access_log` names; None if it names a file."""
    return _STREAMS.get(setting)

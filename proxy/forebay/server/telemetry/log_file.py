"""Where the access log is written to: a stream of the process, or a file that may be rotated under us.

The number of the file descriptor never changes. Opening the file anew puts another file behind the same number, in one
step (dup2), so that whoever is writing at that moment writes a whole line to one file or to the other.
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
"""Not for everybody: keys of objects and who read them stand in it."""
_PIPE_BUF: Final = 4096
"""PIPE_BUF: a pipe that says it is ready takes so much without blocking (pipe(7))."""
_BATCH_LINES: Final = 256
"""Lines of one write to a file: some 90 KiB, which malloc has at hand. A larger piece is mapped anew each time, and
touching its pages takes longer than writing it."""
PATIENCE: Final = 2.0
"""Seconds that a pipe may take nothing before lines are dropped: a stuck reader must not keep us from ending."""


class LogFile:
    """An open file, added to at its end."""

    def __init__(self, path: str) -> None:
        """Raises SettingsError."""
        self._path = path
        try:
            self.fd = self._open()
        except OSError as error:
            allowed = f'a file that can be added to ({error.strerror or error}), "stdout", "stderr" or "off"'
            raise SettingsError("server.access_log", path, allowed) from None

    def reopen(self) -> None:
        """Go on in the file that has the path now: it is made if it was moved away. Raises OSError, and goes on in the
        old one."""
        fresh = self._open()
        try:
            os.dup2(fresh, self.fd, inheritable=False)
        finally:
            os.close(fresh)

    def close(self) -> None:
        os.close(self.fd)

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _MODE)


def write_log_lines(
    fd: int, lines: Sequence[str], pipe_lock: "PipeLock | None" = None, patience: float = PATIENCE
) -> int:
    """Write all, each with its end; blocks. How many nobody took: that is no reason to fail a request, or never to
    end. `turns`: where other processes write to the same pipe."""
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
    """Processes that write to one pipe take turns: it takes 4 KiB in one piece (pipe(7)), and a line may be longer. A
    file that is added to takes each write whole."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        lock = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def _batches(lines: Sequence[str]) -> Iterator[tuple[int, bytes]]:
    """So many lines at a time; and how many went before."""
    for start in range(0, len(lines), _BATCH_LINES):
        yield start, _joined(lines[start : start + _BATCH_LINES])


def _atomic_batches(lines: Sequence[str]) -> Iterator[tuple[int, bytes]]:
    """As many lines at a time as a pipe is sure to take in one piece, one at least; and how many went before."""
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
    """Whether a pipe, or the like, takes something before `patience` is at an end."""
    poll = select.poll()  # not select(): it knows descriptors below 1024 only
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(patience * 1000))


def stream_descriptor(setting: str) -> int | None:
    """The descriptor of the stream that a setting names; None if it names a file."""
    return _STREAMS.get(setting)

"""Memory files that other processes may read and never change, and whether any of them still does.

    created ──> mapped here ──> sealed: no shrinking, no growth, no writing but through the mapping that exists
            ──> passed: a descriptor of its own, open for reading
            ──> is_held: whether a process other than this has one open, or mapped

A size that is fixed before anybody maps the file is what makes a mapping safe: no access to it can raise SIGBUS. The
seal against writing holds for every process, root's too.

Whether another process has the file is known from the kernel: it grants a write lease on a descriptor only if the inode
is open for reading nowhere else, and a mapping keeps the file open. So no client has to report a release, and nothing
is left when a process is killed. The lease is given back at once.

https://man7.org/linux/man-pages/man2/memfd_create.2.html, https://man7.org/linux/man-pages/man2/F_GET_SEALS.2const.html,
https://man7.org/linux/man-pages/man2/F_GETLEASE.2const.html
"""

import errno
import fcntl
import mmap
import os
import signal
from contextlib import suppress
from typing import Final

F_SEAL_FUTURE_WRITE: Final = 0x10
"""<linux/fcntl.h>, Linux 5.1; Python's fcntl does not name it."""
FIXED_SIZE: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
SEALS: Final = FIXED_SIZE | F_SEAL_FUTURE_WRITE | fcntl.F_SEAL_SEAL


class WatchedFile:
    """A sealed memory file that may be passed to other processes. Closed by `close`, or when it is garbage."""

    __slots__ = ("_watch",)

    def __init__(self, fd: int) -> None:
        """Seals the memory file `fd`, unless it was, and keeps a descriptor of its own. Raises OSError."""
        self._watch = -1
        if fcntl.fcntl(fd, fcntl.F_GET_SEALS) != SEALS:
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)  # once: F_SEAL_SEAL forbids it from then on
        self._watch = _reopen(fd)
        if self.is_held():
            self.close()
            raise OSError(errno.ENOTSUP, "the kernel does not say who has a memory file open")

    def open_reader(self) -> int:
        """Returns a descriptor to pass on, open for reading; the caller closes it. Raises OSError."""
        return _reopen(self._watch)

    def is_held(self) -> bool:
        """Returns whether another process has the file open or mapped, or a descriptor of it is under way."""
        try:
            # What a process that opens the file in the moment of a lease has the kernel send: ignored by default, where
            # SIGIO kills. The end of a lease sets it back.
            fcntl.fcntl(self._watch, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(self._watch, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError:
            return True
        fcntl.fcntl(self._watch, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        return False

    def close(self) -> None:
        """Closes the descriptor. May be called twice."""
        watch, self._watch = self._watch, -1
        if watch >= 0:
            os.close(watch)

    def __del__(self) -> None:
        self.close()


class SealedMemory:
    """Bytes of this process that others can map for reading. Not backed by memory until they are written."""

    __slots__ = ("_mapping", "file", "size", "view")

    def __init__(self, size: int) -> None:
        """`size`: bytes, a multiple of the page. Raises OSError."""
        fd = os.memfd_create("forebay-ring", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.fchmod(fd, 0o400)
            os.ftruncate(fd, size)
            self._mapping = mmap.mmap(fd, size)
            self.file = WatchedFile(fd)
        finally:
            os.close(fd)
        self.size = size
        self.view = memoryview(self._mapping)

    def close(self) -> None:
        """Unmaps the bytes here, or has it done with the last use of a part of `view`. Other processes keep theirs."""
        self.view.release()
        with suppress(BufferError):  # of a body whose client left while it was copied
            self._mapping.close()
        self.file.close()


def _reopen(fd: int) -> int:
    return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)

"""The system calls of the journal, in one place, with the durability that each of them gives.

Tests put a disk in its place that fails the N-th call, or that forgets, tears and reorders what was not synced
(tests/harness/crash_disk.py). Every method raises OSError.

https://man7.org/linux/man-pages/man2/fsync.2.html
https://man7.org/linux/man-pages/man2/preadv.2.html
https://man7.org/linux/man-pages/man2/sync_file_range.2.html
https://man7.org/linux/man-pages/man2/fcntl_locking.2.html
https://man7.org/linux/man-pages/man2/statx.2.html
"""

import ctypes
import errno
import fcntl
import os
import struct
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from forebay.core.buffers import Buffer
from forebay.core.c_library import c_function
from forebay.core.core_yield import CoreYield
from forebay.storage.durable_files import sync_directory

_MOST_BUFFERS: Final = 1000
"""The most buffers of one pwritev; IOV_MAX is 1024."""
_SYNC_FILE_RANGE: Final = c_function("sync_file_range", ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
_SYNC_FILE_RANGE_WRITE: Final = 2
_STATX: Final = c_function("statx", ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_char_p)
_AT_FDCWD: Final = -100
_STATX_INO: Final = 0x100
_STATX_SIZE: Final = 256
_FOUND: Final = struct.Struct("=I28xQ96xII")
"""Fields of a struct statx: the mask of those that are set, the inode's number, and the two numbers of its device."""


FileIdentity: TypeAlias = tuple[int, int]
"""Device and inode."""


class JournalFiles:
    """Files by path, and descriptors of them. `on_sync(seconds)` is called after each sync of a file, in its thread."""

    def __init__(self, on_sync: Callable[[float], None] = lambda _seconds: None) -> None:
        self._on_sync = on_sync
        self.yield_core = CoreYield()
        """Called between two steps of long work."""

    def create(self, path: str) -> int:
        """Returns a descriptor of a new file. Its name is durable after `sync_directory`, not before."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def open_lock(self, path: str) -> int:
        """Returns a descriptor of a file that is locked, which is created if need be; on a read-only file system, one
        for reading."""
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if error.errno != errno.EROFS:
                raise
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def open(self, path: str, *, writable: bool = False) -> int:
        """Returns a descriptor of a file that exists."""
        return os.open(path, (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC | os.O_NOFOLLOW)

    def write(self, fd: int, pieces: Sequence[Buffer | bytes], offset: int) -> None:
        """Writes all pieces one after the other. A file system that accepts only some of them has no space left."""
        for first in range(0, len(pieces), _MOST_BUFFERS):
            some = pieces[first : first + _MOST_BUFFERS]
            size = sum(map(len, some))
            written = os.pwritev(fd, some, offset)
            while written < size:  # a signal, or a full disk, which fails at the next attempt
                rest = memoryview(b"".join(some))[written:]
                more = os.pwrite(fd, rest, offset + written)
                if not more:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                written += more
            offset += size

    def write_lock(self, fd: int, line: bytes) -> None:
        """Writes the only line of a lock file. It is shorter than a sector."""
        os.pwrite(fd, line, 0)

    def start_writeback(self, fd: int, offset: int, size: int) -> None:
        """Has the kernel begin to write these bytes to the disk, so that less is left for `sync`. Nothing is durable
        by that, and no failure is lost: `sync` raises it."""
        if _SYNC_FILE_RANGE is not None:
            _SYNC_FILE_RANGE(fd, offset, size, _SYNC_FILE_RANGE_WRITE)

    def truncate(self, fd: int, size: int) -> None:
        """Cuts a file off."""
        os.ftruncate(fd, size)

    def sync(self, fd: int) -> None:
        """Makes the content and the size of a file durable.

        After a failure nothing written since the last success counts as durable, whatever a later call returns: the
        kernel may have dropped the pages and marked them clean (https://lwn.net/Articles/752063/).
        """
        began = time.perf_counter()
        os.fdatasync(fd)
        self._on_sync(time.perf_counter() - began)

    def sync_directory(self, path: str) -> None:
        """Makes the creations and removals in a directory durable."""
        sync_directory(Path(path))

    def lock(self, fd: int) -> bool:
        """Locks a file for this descriptor, until it is closed. False: another process has it."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def lock_byte(self, fd: int, offset: int) -> bool:
        """Locks one byte of a file, which need not be there, for this descriptor until it is closed. False: another
        descriptor has it."""
        lock = struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, offset, 1, 0)
        try:
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, lock)
        except BlockingIOError:
            return False
        return True

    def read(self, fd: int, size: int, offset: int) -> bytes:
        """Returns `size` bytes, or fewer where the file ends."""
        content = os.pread(fd, size, offset)
        while 0 < len(content) < size:
            more = os.pread(fd, size - len(content), offset + len(content))
            if not more:
                break
            content += more
        return content

    def read_into(self, fd: int, buffer: memoryview, offset: int) -> int:
        """Fills a buffer. Returns the number of bytes read: fewer than it has where the file ends."""
        filled = 0
        while filled < len(buffer):
            got = os.preadv(fd, [buffer[filled:]], offset + filled)
            if not got:
                break
            filled += got
        return filled

    def identity(self, fd: int) -> FileIdentity:
        """Returns what tells the file from all others, for as long as the descriptor is open."""
        found = os.fstat(fd)
        return found.st_dev, found.st_ino

    def has_name(self, identity: FileIdentity, path: str) -> bool:
        """Whether a file is to be found by its path: its directory may have been removed, moved, or covered by a mount.
        What can't be looked at (its permissions were taken away) counts as found.

        The look does not ask for the file's times. Behind a `stat`, the next write gets a time of its own, though it be
        in the same tick of the kernel's clock (Linux 6.13 and later), so it changes the inode, and where a file system
        has no journal the next sync writes that as well.
        """
        known = _identity_at(path)
        if known is not None:
            return known == identity
        try:
            found = os.stat(path)  # noqa: PTH116 -- no Path is needed
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True
        return (found.st_dev, found.st_ino) == identity

    def size(self, fd: int) -> int:
        """Returns the size of a file in bytes."""
        return os.fstat(fd).st_size

    def names(self, path: str) -> list[str]:
        """Returns the names in a directory, sorted."""
        return sorted(os.listdir(path))  # noqa: PTH208 -- names are wanted, not paths

    def unlink(self, path: str) -> None:
        """Removes a file's name; its content is gone with the last descriptor."""
        Path(path).unlink()

    def monotonic_ns(self) -> int:
        """Returns nanoseconds that every process of this boot counts alike, and nobody can set."""
        return time.monotonic_ns()

    def close(self, fd: int) -> None:
        """Closes a descriptor."""
        os.close(fd)


def _identity_at(path: str) -> FileIdentity | None:
    """Returns what tells the file at a path from all others; None: `stat` has to say, or why there is none."""
    if _STATX is None:
        return None
    found = ctypes.create_string_buffer(_STATX_SIZE)
    if _STATX(_AT_FDCWD, os.fsencode(path), 0, _STATX_INO, found):
        return None
    fields, inode, major, minor = _FOUND.unpack_from(found)
    return (os.makedev(major, minor), inode) if fields & _STATX_INO else None

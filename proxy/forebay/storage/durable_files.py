"""Durable files: small files that are replaced as a whole, and directories whose entries are on the disk.

https://man7.org/linux/man-pages/man2/fsync.2.html
"""

import errno
import os
from pathlib import Path


def replace_file(path: Path, content: bytes) -> None:
    """Writes a small file so that a reader, also one after a power cut, sees the old content or the new.

    Raises OSError.
    """
    fresh = path.with_name(path.name + ".new")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        if os.write(fd, content) < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(fd)
    finally:
        os.close(fd)
    fresh.replace(path)
    sync_directory(path.parent)


def make_directory(path: Path) -> None:
    """Makes a directory, if it is not there, and those above it. They are there after a power cut. Raises OSError."""
    created = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in created:
        sync_directory(each.parent)


def sync_directory(path: Path) -> None:
    """Makes a directory's entries durable: created, renamed and removed ones. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)

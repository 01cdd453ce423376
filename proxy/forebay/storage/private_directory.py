"""A private directory of this process while it runs: mode 0700, under an unguessable name, locked.

    PREFIX0123456789abcdef-xxxxxxxx/
        lock        flock'ed by the process that created the directory
        ...         its files

A directory that a killed process has left has a lock that nobody holds; the next process that creates such a directory,
or calls `remove_abandoned`, removes it. The parent may be writable by others (/tmp): anything but a directory and a
lock of this user, reached by no link, is left alone.
"""

import fcntl
import os
import secrets
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

from forebay.core.errors import StartError

_LOCK: Final = "lock"
_NO_LINK: Final = os.O_NOFOLLOW | os.O_CLOEXEC


def temporary_directory() -> Path:
    """Returns the directory of the system for temporary files. Raises StartError if none can be written."""
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        raise StartError(f"no directory for temporary files can be written (TMPDIR): {error.strerror}") from error


class PrivateDirectory:
    """A locked directory. Made by `create`, ended by `remove`."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def create(cls, parent: Path, prefix: str) -> Self:
        """Creates one in `parent`, which exists, and removes abandoned ones of this `prefix`. Raises OSError."""
        remove_abandoned(parent, prefix)
        # Locked before it has the name that `remove_abandoned` looks for.
        created = Path(tempfile.mkdtemp(prefix=f".{prefix}{secrets.token_hex(8)}-", dir=parent))
        with ExitStack() as on_failure:
            on_failure.callback(shutil.rmtree, created, ignore_errors=True)
            lock = os.open(created / _LOCK, os.O_CREAT | os.O_EXCL | os.O_RDWR | _NO_LINK, 0o600)
            on_failure.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            renamed = created.rename(parent / created.name.removeprefix("."))
            on_failure.pop_all()
        return cls(renamed, lock)

    def remove(self) -> None:
        """Deletes the directory and unlocks it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def remove_abandoned(parent: Path, prefix: str) -> None:
    """Removes the directories of killed processes in `parent`, if that exists."""
    for found in parent.glob(f"{prefix}*"):
        with ExitStack() as descriptors:
            try:
                directory = os.open(found, os.O_RDONLY | os.O_DIRECTORY | _NO_LINK)
                descriptors.callback(os.close, directory)
                lock = os.open(_LOCK, os.O_RDWR | os.O_NONBLOCK | _NO_LINK, dir_fd=directory)
                descriptors.callback(os.close, lock)
                if {os.fstat(each).st_uid for each in (directory, lock)} != {os.geteuid()}:
                    continue
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue  # it is in use, another user's, being created, or was just removed
            shutil.rmtree(found, ignore_errors=True)

"""A directory of this process's own for as long as it runs: mode 0700, under an unguessable name, locked.

    PREFIX0123456789abcdef-xxxxxxxx/
        lock        flock'ed by the process that made the directory
        ...         the maker's

What a process that was killed has left is found by its lock, which nobody holds, and removed by the next one that
makes such a directory. It lies where others may write too (/tmp): what is not a directory and a lock of this user's,
by themselves and by no link, is left alone.
"""

import fcntl
import os
import secrets
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

_LOCK: Final = "lock"
_NO_LINK: Final = os.O_NOFOLLOW | os.O_CLOEXEC


class PrivateDirectory:
    """See the module. Made by `make`, ended by `remove`."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def create(cls, parent: Path, prefix: str) -> Self:
        """A new one in `parent`, which is there; those of this `prefix` that were abandoned are removed. OSError if it
        can't be made."""
        _remove_abandoned(parent, prefix)
        # Locked before it has the name by which others look for abandoned ones.
        made = Path(tempfile.mkdtemp(prefix=f".{prefix}{secrets.token_hex(8)}-", dir=parent))
        with ExitStack() as failed:
            failed.callback(shutil.rmtree, made, ignore_errors=True)
            lock = os.open(made / _LOCK, os.O_CREAT | os.O_EXCL | os.O_RDWR | _NO_LINK, 0o600)
            failed.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            named = made.rename(parent / made.name.removeprefix("."))
            failed.pop_all()
        return cls(named, lock)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _remove_abandoned(parent: Path, prefix: str) -> None:
    for left in parent.glob(f"{prefix}*"):
        with ExitStack() as opened:
            try:
                directory = os.open(left, os.O_RDONLY | os.O_DIRECTORY | _NO_LINK)
                opened.callback(os.close, directory)
                lock = os.open(_LOCK, os.O_RDWR | os.O_NONBLOCK | _NO_LINK, dir_fd=directory)
                opened.callback(os.close, lock)
                if {os.fstat(each).st_uid for each in (directory, lock)} != {os.geteuid()}:
                    continue
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue  # it is in use, another's, one that is being made, or just removed
            shutil.rmtree(left, ignore_errors=True)

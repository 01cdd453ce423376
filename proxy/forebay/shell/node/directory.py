"""The private directory that a node's workers meet in: mode 0700, under an unguessable name, locked while it is in use.

What a supervisor that was killed has left behind is found by its lock, which nobody holds, and removed by the next one.
"""

import fcntl
import os
import secrets
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

_PREFIX: Final = "forebay-node-"
_LOCK: Final = "lock"


class NodeDirectory:
    """See the module. Made by `make`, ended by `remove`."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def make(cls, parent: Path | None = None) -> Self:
        """OSError if it can't be made."""
        parent = parent or Path(tempfile.gettempdir())
        _remove_abandoned(parent)
        # Locked before it has the name by which others look for abandoned ones.
        made = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}{secrets.token_hex(8)}-", dir=parent))
        lock = os.open(made / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return cls(made.rename(parent / made.name.removeprefix(".")), lock)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _remove_abandoned(parent: Path) -> None:
    for left in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # somebody else's, or just removed
            lock = os.open(left / _LOCK, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(lock)

"""The directory of a spool's files: private (storage.private_directory), created when it is first needed.

Directories that killed processes have left are removed by the next process. If somebody removes the directory, as
cleaners of temporary files do after some days without use, the next file gets another one.
"""

import itertools
import threading
from pathlib import Path
from typing import Final

from forebay.core.errors import SpoolFailed
from forebay.storage.private_directory import PrivateDirectory, remove_abandoned, temporary_directory

_PREFIX: Final = "forebay-holds-"


class SpoolDirectory:
    """`parent`: the directory in which it is created; None: the system's directory of temporary files."""

    def __init__(self, parent: Path | None = None) -> None:
        self._parent = parent if parent is not None else temporary_directory()
        self._created: PrivateDirectory | None = None
        self._lock = threading.Lock()
        self._numbers = itertools.count()

    def new_file(self) -> Path:
        """Returns the path of a file that does not exist yet. In a thread. Raises OSError."""
        with self._lock:
            if self._created is not None and not self._created.path.is_dir():
                self.remove()
            if self._created is None:
                self._parent.mkdir(parents=True, exist_ok=True)
                self._created = PrivateDirectory.create(self._parent, _PREFIX)
            return self._created.path / str(next(self._numbers))

    def remove(self) -> None:
        """Removes the directory with its files."""
        if self._created is not None:
            self._created.remove()
            self._created = None

    def remove_abandoned(self) -> None:
        """Removes the directories of killed processes. In a thread."""
        remove_abandoned(self._parent, _PREFIX)

    def failed(self, failure: OSError) -> SpoolFailed:
        """Returns the failure to write a file."""
        return SpoolFailed(f"{self._parent}: {failure.strerror}")

"""Where a node's workers meet: a private directory in the system's temporary one, which holds their sockets."""

import os
import secrets
import tempfile
from pathlib import Path
from typing import Final

from forebay.core.errors import ForebayError
from forebay.storage.private_directory import PrivateDirectory

PREFIX: Final = "forebay-node-"
_LONGEST: Final = 107
"""Bytes that the path of a socket may have (unix(7): sun_path)."""


class NotStarted(ForebayError):
    """A worker could not be started. Its text is for people."""


def meeting_place(workers: int, parent: Path | None = None) -> PrivateDirectory:
    """Raises NotStarted."""
    try:
        place = PrivateDirectory.make(parent or Path(tempfile.gettempdir()), PREFIX)
    except OSError as failure:
        raise NotStarted(f"the workers have no directory to meet in (TMPDIR): {failure}") from failure
    beyond = len(os.fsencode(longest_of(place.path, workers))) - _LONGEST
    if beyond > 0:
        place.remove()
        raise NotStarted(f"{place.path} is too long for sockets by {beyond} bytes: choose a shorter one (TMPDIR)")
    return place


def socket_of(directory: Path, worker: int) -> Path:
    return directory / f"worker-{worker}"


def longest_of(directory: Path, workers: int) -> Path:
    """The longest path that a socket of a node has in there: while it takes the place of the one before."""
    return fresh_socket(socket_of(directory, workers - 1), new_name())


def new_name() -> str:
    return secrets.token_hex(8)


def fresh_socket(path: Path, process: str) -> Path:
    return path.with_name(f"{path.name}.{process}")

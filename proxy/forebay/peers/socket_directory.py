"""Where a node's workers meet: a private directory in the system's temporary one, which holds their sockets."""

import os
import secrets
import tempfile
from pathlib import Path
from typing import Final

from forebay.core.errors import ForebayError
from forebay.storage.private_directory import PrivateDirectory

PREFIX: Final = "forebay-node-"
_MAX_PATH: Final = 107
"""Bytes that the path of a socket may have (unix(7): sun_path)."""


class WorkerStartError(ForebayError):
    """A worker could not be started. Its text is for people."""


def make_socket_directory(workers: int, parent: Path | None = None) -> PrivateDirectory:
    """Raises WorkerStartError."""
    try:
        place = PrivateDirectory.create(parent or Path(tempfile.gettempdir()), PREFIX)
    except OSError as failure:
        raise WorkerStartError(f"the workers have no directory to meet in (TMPDIR): {failure}") from failure
    beyond = len(os.fsencode(longest_socket_path(place.path, workers))) - _MAX_PATH
    if beyond > 0:
        place.remove()
        raise WorkerStartError(f"{place.path} is too long for sockets by {beyond} bytes: choose a shorter one (TMPDIR)")
    return place


def socket_path(directory: Path, worker: int) -> Path:
    return directory / f"worker-{worker}"


def longest_socket_path(directory: Path, workers: int) -> Path:
    """The longest path that a socket of a node has in there: while it takes the place of the one before."""
    return temporary_socket_path(socket_path(directory, workers - 1), new_instance_id())


def new_instance_id() -> str:
    return secrets.token_hex(8)


def temporary_socket_path(path: Path, instance_id: str) -> Path:
    return path.with_name(f"{path.name}.{instance_id}")

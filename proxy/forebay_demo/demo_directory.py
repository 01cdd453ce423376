"""The demo's directory: where it is, that it is ours alone, and that Swift can live in it.

Every refusal is a DemoUnavailable whose sentence says what to do.
"""

import fcntl
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO, Final

from forebay_demo.child_process import DemoUnavailable

DIRECTORY_VARIABLE: Final = "FOREBAY_DEMO_DIR"
_ANOTHER = f"choose another directory, e.g. {DIRECTORY_VARIABLE}=/var/tmp/forebay-demo"


def demo_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """$FOREBAY_DEMO_DIR, or `.forebay` in the working directory.

    `forebay demo` and `forebay serve` each take a folder of their own in it, so that both may run at once.
    """
    return Path(environment.get(DIRECTORY_VARIABLE) or ".forebay")


def lock_directory(directory: Path) -> BinaryIO:
    """Makes `directory` if need be and takes its lock, held until the file and each inherited copy of it is closed."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (directory / "lock").open("ab")
    except OSError as error:
        raise unwritable(directory, error) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.close()
        raise DemoUnavailable(f"Another demo is running in {directory}: end it, or {_ANOTHER}.") from error
    return lock


def require_xattrs(directory: Path, set_xattr: Callable[[Path, str, bytes], None] = os.setxattr) -> None:
    """Swift keeps an object's metadata in user xattrs, so the file system must have them."""
    probe = directory / ".xattr-probe"
    try:
        probe.touch()
    except OSError as error:
        raise unwritable(directory, error) from error
    try:
        set_xattr(probe, "user.forebay.probe", b"x")
    except OSError as error:
        raise DemoUnavailable(
            f"The file system of {directory} has no user xattrs, which Swift needs ({error.strerror}): "
            f"{_ANOTHER} (ext4, xfs and btrfs have them)."
        ) from error
    finally:
        probe.unlink(missing_ok=True)


def unwritable(directory: Path, error: OSError) -> DemoUnavailable:
    """The error of a directory that can't be written."""
    return DemoUnavailable(f"The demo can't write to {directory} ({error.strerror or error}): {_ANOTHER}.")

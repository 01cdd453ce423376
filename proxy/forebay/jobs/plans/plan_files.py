"""The files of a plan or a key list that is being received, and the lock of the directory that they come into.

    append ──> memory ──flush_excess──> new-<random>/ ──keep──> <id>/ or keys-<id>/, in place of one that was there
                                             └── anything else: removed

So under its name a directory is whole, and there at every moment: it takes the other's place in one step
(https://man7.org/linux/man-pages/man2/rename.2.html, RENAME_EXCHANGE), where the file system can do that. Until then
it is locked, so the lock tells whether its writer has ended; and its file `order` says which of two was kept first. No
clock is asked, as that can be set.

Nothing is synced before a plan is acknowledged, which would take ten milliseconds of a reader who waits for it: a power
cut may cost the plan, and is found out by the checksums of its files (storage.file_sums).
"""

import asyncio
import ctypes
import errno
import fcntl
import logging
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, Final, Self

from forebay.core.c_library import c_function
from forebay.core.errors import S3Error
from forebay.storage.durable_files import make_directory
from forebay.storage.file_sums import FileSum, write_sums

_log = logging.getLogger(__name__)

_ORDER: Final = "order"
_LATEST: Final = ".order"
"""The `order` of the directory that was kept last."""
_BUFFER_SIZE: Final = 1 << 20
"""Bytes that are kept before they are written, of all files of a plan together."""
_RENAMEAT2: Final = c_function("renameat2", ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
"""None with musl before 1.2.6, and on macOS."""
_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2
_CANNOT_EXCHANGE: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})
"""The file system or the kernel exchanges no names."""


def plan_id(bucket: str, principal: str, name: str) -> str:
    """The id of a plan, and of the directory that it is in."""
    return blake2b("\0".join((bucket, principal, name)).encode(), digest_size=16).hexdigest()


@contextmanager
def locked_plans(root: Path) -> Iterator[None]:
    """Keeps other threads and workers from exchanging plans of `root` meanwhile. Raises OSError."""
    with (root / ".lock").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def order_of(directory: Path) -> int:
    """Returns the number of a directory in the order in which all were kept; 0: it is not known."""
    try:
        return int((directory / _ORDER).read_text())
    except (OSError, ValueError):
        return 0


def remove_abandoned(root: Path) -> None:
    """Removes directories whose writers have ended."""
    found = list(root.glob("new-*"))
    if not found:
        return
    with suppress(OSError), locked_plans(root):  # who has made one holds it by now
        for directory in found:
            with suppress(OSError):
                descriptor = os.open(directory, os.O_RDONLY)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(directory, ignore_errors=True)
                finally:
                    os.close(descriptor)


def exchange_names(first: Path, second: Path) -> None:
    """Has two directories change their names in one step. Raises OSError: FileNotFoundError where one is not there, and
    ENOSYS where the system can't do that."""
    if _RENAMEAT2 is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), str(second))
    names = os.fsencode(first), os.fsencode(second)
    if _RENAMEAT2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), str(second))


class PlanFiles:
    """The files of a directory that is being written, removed again unless it is kept. Made with what is written first:
    each turn of a thread is half a millisecond of a reader who waits for the plan to be accepted."""

    def __init__(self, root: Path, exchange: Callable[[Path, Path], None] = exchange_names, boot: str = "") -> None:
        """`boot`: of the machine (storage.file_sums)."""
        self._root = root
        self._exchange = exchange
        self._boot = boot
        self._sums: dict[str, FileSum] = {}
        self._directory = root / f"new-{secrets.token_hex(8)}"
        self._locked: int | None = None
        """The descriptor of the directory, once it is made."""
        self._pending: dict[str, bytearray] = {}
        self._files: dict[str, BinaryIO] = {}
        self._size = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        for file in self._files.values():
            with suppress(OSError):
                file.close()
        if self._locked is not None:
            await asyncio.to_thread(shutil.rmtree, self._directory, ignore_errors=True)
            self._unlock()

    def append(self, name: str, content: bytes) -> None:
        """Appends to one of the files."""
        self._pending.setdefault(name, bytearray()).extend(content)
        self._size += len(content)

    async def flush_excess(self) -> None:
        """Writes the pending bytes if they are many."""
        if self._size >= _BUFFER_SIZE:
            await self._flush()

    async def keep(self, directory: str) -> None:
        """Renames the directory to its name. It replaces a directory of that name."""
        await self._flush(self._root / directory)

    async def _flush(self, target: Path | None = None) -> None:
        pending, self._pending, self._size = self._pending, {}, 0
        try:
            await asyncio.to_thread(self._write, pending, target)
        except OSError as error:
            raise self._no_room(error) from None

    def _write(self, pending: dict[str, bytearray], target: Path | None) -> None:
        """`target`: the directory's name, where nothing more is to be written."""
        if self._locked is None:
            self._make()
        for name, content in pending.items():
            file = self._files.get(name)
            if file is None:
                file = self._files[name] = (self._directory / name).open("wb", buffering=0)
            self._sums[name] = self._sums.get(name, FileSum()).extended(content)
            view = memoryview(content)
            while view:
                view = view[file.write(view) :]
        if target is not None:
            self._rename(target)
            self._unlock()

    def _make(self) -> None:
        make_directory(self._root)
        with locked_plans(self._root):
            self._directory.mkdir(0o700)
            self._locked = os.open(self._directory, os.O_RDONLY)
            with suppress(OSError):  # a file system without locks of directories: then nothing is taken for abandoned
                fcntl.flock(self._locked, fcntl.LOCK_SH)

    def _no_room(self, error: OSError) -> S3Error:
        _log.warning("a plan can't be kept in %s: %s", self._root, error.strerror)
        return S3Error("SlowDown", f"The plan can't be kept in server.state_dir: {error.strerror}.")

    def _unlock(self) -> None:
        if self._locked is not None:
            os.close(self._locked)
            self._locked = None

    def _rename(self, target: Path) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()
        replaced = self._directory.with_name(f"{self._directory.name}-old")
        with locked_plans(self._root):
            (self._directory / _ORDER).write_text(str(_next_order(self._root, self._boot)))
            write_sums(self._directory, self._sums, self._boot)
            try:
                self._exchange(self._directory, target)
                replaced = self._directory
            except FileNotFoundError:
                self._directory.rename(target)
            except OSError as error:
                if error.errno not in _CANNOT_EXCHANGE:
                    raise
                with suppress(FileNotFoundError):
                    target.rename(replaced)
                self._directory.rename(target)
        shutil.rmtree(replaced, ignore_errors=True)


def _next_order(root: Path, boot: str) -> int:
    """Takes the next number of the order. Called under the lock. After a power cut the kept number may be an old
    one."""
    try:
        latest, written_in = (root / _LATEST).read_text().split()
        order = int(latest) + 1 if written_in == boot else 0
    except (OSError, ValueError):
        order = 0
    order = order or 1 + max(map(order_of, root.iterdir()), default=0)
    (root / _LATEST).write_text(f"{order} {boot}")
    return order

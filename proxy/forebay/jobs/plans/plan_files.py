"""The files of a plan or a key list that is being received, and the lock of the directory that they come into.

    append ──> memory ──flush_excess──> new-<random>/ ──keep──> <id>/ or keys-<id>/, in place of one that was there
                                             └── anything else: removed

So under its name a directory is whole.
"""

import asyncio
import fcntl
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, Final, Self

from forebay.core.errors import S3Error

_BUFFER_SIZE: Final = 1 << 20
"""Bytes that are kept before they are written, of all files of a plan together."""


def plan_id(bucket: str, principal: str, name: str) -> str:
    """The id of a plan, and of the directory that it is in."""
    return blake2b("\0".join((bucket, principal, name)).encode(), digest_size=16).hexdigest()


@contextmanager
def locked_plans(root: Path) -> Iterator[None]:
    """Keeps other threads and workers from exchanging plans of `root` meanwhile. Raises OSError."""
    with (root / ".lock").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class PlanFiles:
    """The files of a directory that is being written, removed again unless it is kept. Made with what is written first:
    each turn of a thread is half a millisecond of a reader who waits for the plan to be accepted."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._directory = root / f"new-{secrets.token_hex(8)}"
        self._is_made = False
        self._pending: dict[str, bytearray] = {}
        self._files: dict[str, BinaryIO] = {}
        self._size = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        for file in self._files.values():
            with suppress(OSError):
                file.close()
        if self._is_made:
            await asyncio.to_thread(shutil.rmtree, self._directory, ignore_errors=True)

    def append(self, name: str, content: bytes) -> None:
        """Appends to one of the files."""
        self._pending.setdefault(name, bytearray()).extend(content)
        self._size += len(content)

    async def flush_excess(self) -> None:
        """Writes what is pending, if it is much."""
        if self._size >= _BUFFER_SIZE:
            await self._flush()

    async def keep(self, directory: str) -> None:
        """Gives the directory its name, in place of one that has it."""
        await self._flush(self._root / directory)

    async def _flush(self, target: Path | None = None) -> None:
        pending, self._pending, self._size = self._pending, {}, 0
        try:
            await asyncio.to_thread(self._write, pending, target)
        except OSError as error:
            raise _no_room(error) from None

    def _write(self, pending: dict[str, bytearray], target: Path | None) -> None:
        """`target`: the directory's name, where nothing more is to be written."""
        if not self._is_made:
            self._is_made = True
            self._directory.mkdir(0o700, parents=True)
        for name, content in pending.items():
            file = self._files.get(name)
            if file is None:
                file = self._files[name] = (self._directory / name).open("wb", buffering=0)
            view = memoryview(content)
            while view:
                view = view[file.write(view) :]
        if target is not None:
            self._rename(target)
            self._is_made = False

    def _rename(self, target: Path) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()
        replaced = self._directory.with_name(f"{self._directory.name}-old")
        with locked_plans(self._root):
            with suppress(FileNotFoundError):
                target.rename(replaced)
            self._directory.rename(target)
        shutil.rmtree(replaced, ignore_errors=True)


def _no_room(error: OSError) -> S3Error:
    return S3Error("InternalError", f"The plan can't be kept in server.state_dir: {error.strerror}.")

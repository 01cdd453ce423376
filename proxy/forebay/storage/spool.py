"""The spool: bytes kept for a while, in memory up to a share of the budget, then in files of a private directory.

A spooled body is needed to finish a client's request: small parts until their upload is completed, bodies of unknown
length until their end, the starts of others until their turn at the origin. The spool is no tier: nothing is evicted,
nothing survives the process.

    body = spool.create()
    await body.reserve(size)       space in the spool and in memory for the next bytes; SpoolFull, Throttled
    body.append(piece)             into memory; as many bytes as were reserved
    await body.spill()             memory above the share is written to the file
    async for piece in body.pieces()
    body.release()                 or left to Spool.close

`try_reserve` is `reserve` without waiting, for bytes that need not be spooled. Bytes are charged as they arrive, so a
body that drips costs what has come of it.

The directory (storage.private_directory) is created when it is first needed, and removed at the end; those that killed
processes have left are removed by the next one. If somebody removes it, as cleaners of temporary files do after some
days without use, the next body gets another one.
"""

import asyncio
import itertools
import os
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from forebay.core.buffers import Piece
from forebay.core.errors import SpoolFailed, SpoolFull
from forebay.core.fair_semaphore import FairSemaphore
from forebay.storage.private_directory import PrivateDirectory, remove_abandoned, temporary_directory

PIECE: Final = 256 << 10
"""Bytes that are read from a file at a time."""
SPILL_SIZE: Final = 16 << 10
"""Bytes of a body in memory that are worth writing to its file while the body still arrives."""
_JOINED: Final = 4 << 10
"""Smaller pieces are joined: many small objects take many times the memory of their bytes."""
_PREFIX: Final = "forebay-holds-"


def spool_full() -> SpoolFull:
    """The failure to reserve space in a spool that has reached its limit."""
    return SpoolFull("No room is left to hold small parts and bodies of unknown length (limits.held).")


class Spool:
    """All spooled bodies. `limit`: bytes, in memory and files together. `share`: of them in memory. `wait`: seconds to
    wait for memory."""

    def __init__(
        self, limit: int, budget: FairSemaphore, *, share: int, wait: float, parent: Path | None = None
    ) -> None:
        self.limit = limit
        self._budget = budget
        self._share = share
        self._wait = wait
        self._parent = parent if parent is not None else temporary_directory()
        self._directory: PrivateDirectory | None = None
        self._directory_lock = threading.Lock()
        self._numbers = itertools.count()
        self._bodies: set[SpooledBody] = set()
        self.in_use = 0
        """Bytes that were reserved and not yet released."""
        self.in_memory = 0
        """The spooled bytes that are in memory."""

    def __len__(self) -> int:
        """Returns the number of bodies that are not released."""
        return len(self._bodies)

    def __contains__(self, body: "SpooledBody") -> bool:
        """Returns whether a body is not released."""
        return body in self._bodies

    def remove_abandoned(self) -> None:
        """Removes the files of killed processes, also if no body is spooled for long. In a thread."""
        remove_abandoned(self._parent, _PREFIX)

    def create(self) -> "SpooledBody":
        """Returns a new body, empty."""
        body = SpooledBody(self)
        self._bodies.add(body)
        return body

    def close(self) -> None:
        """Releases all bodies and removes the directory."""
        for body in list(self._bodies):
            body.release()
        if self._directory is not None:
            self._directory.remove()
            self._directory = None

    def has_space(self, size: int) -> bool:
        """Returns whether `size` bytes more are within the limit."""
        return self.in_use + size <= self.limit

    # For SpooledBody alone.

    async def reserve(self, size: int) -> None:
        """Reserves space and memory for `size` bytes. Raises SpoolFull, Throttled."""
        if not self.has_space(size):
            raise spool_full()
        self.in_use += size
        try:
            await self._budget.acquire(size, self._wait)
        except BaseException:
            self.in_use -= size
            raise
        self.in_memory += size

    def try_reserve(self, size: int) -> bool:
        """Reserves space and memory for `size` bytes if both are free. Returns whether it did."""
        if not self.has_space(size) or not self._budget.try_acquire(size):
            return False
        self.in_use += size
        self.in_memory += size
        return True

    def release_memory(self, size: int) -> None:
        """Releases the memory of `size` bytes."""
        self.in_memory -= size
        self._budget.release(size)

    @property
    def is_over_share(self) -> bool:
        """Whether bytes should be spilled: there are more in memory than the share, or others wait for memory."""
        return self.in_memory > self._share or self._budget.waiting > 0

    def remove(self, body: "SpooledBody") -> None:
        """Removes a released body."""
        self._bodies.discard(body)

    def failed(self, failure: OSError) -> SpoolFailed:
        """Returns the failure to write a file."""
        return SpoolFailed(f"{self._parent}: {failure.strerror}")

    def new_file(self) -> Path:
        """Returns the path of a new body's file. In a thread. Raises OSError."""
        with self._directory_lock:
            if self._directory is not None and not self._directory.path.is_dir():
                self._directory.remove()
                self._directory = None
            if self._directory is None:
                self._parent.mkdir(parents=True, exist_ok=True)
                self._directory = PrivateDirectory.create(self._parent, _PREFIX)
            return self._directory.path / str(next(self._numbers))


class SpooledBody:
    """The bytes of one body. Made by Spool.create."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._memory: list[bytes | bytearray] = []
        self._reserved = 0
        self._in_memory = 0
        self._is_shared = False
        self._file: Path | None = None
        self._in_file = 0
        self._spilling = asyncio.Lock()

    @property
    def size(self) -> int:
        """Bytes appended."""
        return self._in_file + self._in_memory

    async def reserve(self, size: int) -> None:
        """Reserves space and memory for `size` bytes more. Raises SpoolFull at the limit, Throttled if no memory comes
        free."""
        await self._spool.reserve(size)
        self._reserved += size
        if self not in self._spool:  # released while it waited
            self._release_bytes()

    def try_reserve(self, size: int) -> bool:
        """Reserves space and memory for `size` bytes more if both are free. Returns whether it did."""
        if self not in self._spool or not self._spool.try_reserve(size):
            return False
        self._reserved += size
        return True

    def append(self, piece: Piece) -> None:
        """Appends bytes that were reserved. Raises ValueError for more."""
        size = len(piece)
        if self not in self._spool:
            return
        if self._in_memory + size > self._reserved:
            raise ValueError("more bytes than were reserved")
        tail = self._memory[-1] if self._memory and not self._is_shared else None
        if isinstance(tail, bytearray) and len(tail) < SPILL_SIZE:
            tail += piece
        else:
            self._memory.append(bytearray(piece) if size < _JOINED else bytes(piece))
            self._is_shared = False
        self._in_memory += size

    async def to_file(self) -> "SpooledFile":
        """Writes all of the body to its file and returns that: another process of this user can read it until the body
        is released. Raises SpoolFailed."""
        await self.spill(whole=True)
        if self._file is None:
            raise SpoolFailed("the body is empty")
        return SpooledFile(str(self._file), self._in_file)

    async def spill(self, *, whole: bool = False, least: int = 1) -> None:
        """Writes memory to the file where the spool is over its share and the body has `least` bytes in memory, or
        `whole`. Raises SpoolFailed; what is in memory then stays there."""
        if not whole and (self._in_memory < least or not self._spool.is_over_share):
            return
        async with self._spilling:
            if not (whole or self._spool.is_over_share) or self not in self._spool or not self._memory:
                return
            pieces = tuple(self._memory)  # they stay readable until they are in the file
            self._is_shared = True
            written = sum(len(piece) for piece in pieces)
            try:
                await asyncio.to_thread(self._append_to_file, pieces)
            except OSError as failure:
                raise self._spool.failed(failure) from failure
            if self not in self._spool:  # released while it was written
                return
            del self._memory[: len(pieces)]
            self._in_file += written
            self._in_memory -= written
            self._reserved -= written
            self._spool.release_memory(written)

    def _append_to_file(self, pieces: tuple[bytes | bytearray, ...]) -> None:
        try:
            if self._file is None:
                self._file = self._spool.new_file()
            descriptor = os.open(self._file, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            try:
                # The rest of a failed attempt is overwritten.
                os.lseek(descriptor, self._in_file, os.SEEK_SET)
                for piece in pieces:
                    view = memoryview(piece)
                    while view:
                        view = view[os.write(descriptor, view) :]
            finally:
                os.close(descriptor)
        finally:
            if self not in self._spool:  # released meanwhile; the caller of `spill` may have given up long ago
                self._remove_file()

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yields all bytes from the beginning. May be called again. Raises SpoolFailed."""
        position = 0
        while self._file is not None and position < self._in_file:
            async for piece in _read(self._file, position, self._in_file):
                position += len(piece)
                yield piece
        if self not in self._spool:
            raise SpoolFailed("the body was released")
        self._is_shared = True
        for kept in tuple(self._memory):
            yield kept if isinstance(kept, bytes) else bytes(kept)

    def release(self) -> None:
        """Drops the bytes. May be called twice."""
        if self not in self._spool:
            return
        self._spool.remove(self)
        self._release_bytes()
        self._remove_file()

    def _release_bytes(self) -> None:
        self._spool.in_use -= self._in_file + self._reserved
        self._spool.release_memory(self._reserved)
        self._memory, self._reserved, self._in_file, self._in_memory = [], 0, 0, 0

    def _remove_file(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.unlink()


@dataclass(frozen=True, slots=True)
class SpooledFile:
    """A spooled body of another worker, in its file. It is gone when that worker releases it, or dies."""

    path: str
    size: int

    def pieces(self) -> AsyncIterator[bytes]:
        """Yields all bytes from the beginning. Raises SpoolFailed."""
        return _read(Path(self.path), 0, self.size)

    def release(self) -> None:
        """Does nothing: the other worker releases it."""


async def _read(path: Path, start: int, stop: int) -> AsyncIterator[bytes]:
    """Yields the bytes of a file. It is open for a piece at a time, so that none stays open for a slow reader. Raises
    SpoolFailed if it can't be read, or ends early."""
    while start < stop:
        try:
            piece = await asyncio.to_thread(_read_piece, path, start, min(PIECE, stop - start))
        except OSError as failure:
            raise SpoolFailed(f"{path.parent}: {failure.strerror}") from failure
        if not piece:
            raise SpoolFailed(f"{path}: the file of a spooled body is shorter than it was")
        start += len(piece)
        yield piece


def _read_piece(path: Path, position: int, size: int) -> bytes:
    with path.open("rb") as file:
        file.seek(position)
        return file.read(size)

"""A spooled body: bytes kept for a while, in memory while the spool has little there, then in a file of its own.

    body = spool.create()
    await body.reserve(size)       space in the spool and in memory for the next bytes; SpoolFull, Throttled
    body.append(piece)             into memory; as many bytes as were reserved
    await body.spill()             memory above the spool's share is written to the file
    async for piece in body.pieces()
    body.release()

`try_reserve` is `reserve` without waiting, for bytes that need not be spooled. A body that was released takes no more
bytes and has none, whatever was under way for it.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from forebay.core.buffers import Piece
from forebay.core.errors import SpoolFailed
from forebay.storage.spool_directory import SpoolDirectory
from forebay.storage.spool_space import SpoolSpace

PIECE: Final = 256 << 10
"""Bytes that are read from a file at a time."""
SPILL_SIZE: Final = 16 << 10
"""Bytes of a body in memory that are worth writing to its file while the body still arrives."""
_JOINED: Final = 4 << 10
"""Smaller pieces are joined: many small objects take many times the memory of their bytes."""


class SpooledBody:
    """The bytes of one body."""

    def __init__(
        self, space: SpoolSpace, directory: SpoolDirectory, on_release: "Callable[[SpooledBody], None]"
    ) -> None:
        """`on_release` is called once, when the body is released."""
        self._space, self._directory, self._on_release = space, directory, on_release
        self._is_released = False
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
        await self._space.reserve(size)
        self._reserved += size
        if self._is_released:  # released while it waited
            self._release_bytes()

    def try_reserve(self, size: int) -> bool:
        """Reserves space and memory for `size` bytes more if both are free. Returns whether it did."""
        if self._is_released or not self._space.try_reserve(size):
            return False
        self._reserved += size
        return True

    def append(self, piece: Piece) -> None:
        """Appends bytes that were reserved. Raises ValueError for more."""
        size = len(piece)
        if self._is_released:
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
        """Writes memory to the file if the spool is over its share and the body has `least` bytes in memory, or if
        `whole`. Raises SpoolFailed; the bytes then stay in memory."""
        if not whole and (self._in_memory < least or not self._space.is_over_share):
            return
        async with self._spilling:
            if not self._is_to_spill(whole=whole):
                return
            pieces = tuple(self._memory)  # they stay readable until they are in the file
            self._is_shared = True
            written = sum(len(piece) for piece in pieces)
            try:
                await asyncio.to_thread(self._append_to_file, pieces)
            except OSError as failure:
                raise self._directory.failed(failure) from failure
            if self._is_released:  # released while it was written
                return
            del self._memory[: len(pieces)]
            self._in_file += written
            self._in_memory -= written
            self._reserved -= written
            self._space.release_memory(written)

    def _is_to_spill(self, *, whole: bool) -> bool:
        return bool(self._memory) and not self._is_released and (whole or self._space.is_over_share)

    def _append_to_file(self, pieces: tuple[bytes | bytearray, ...]) -> None:
        try:
            if self._file is None:
                self._file = self._directory.new_file()
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
            if self._is_released:  # released meanwhile; the caller of `spill` may have given up long ago
                self._remove_file()

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yields all bytes from the beginning. May be called again. Raises SpoolFailed."""
        position = 0
        while self._file is not None and position < self._in_file:
            async for piece in _read(self._file, position, self._in_file):
                position += len(piece)
                yield piece
        if self._is_released:
            raise SpoolFailed("the body was released")
        self._is_shared = True
        for kept in tuple(self._memory):
            yield kept if isinstance(kept, bytes) else bytes(kept)

    def release(self) -> None:
        """Drops the bytes. May be called twice."""
        if self._is_released:
            return
        self._is_released = True
        self._release_bytes()
        self._remove_file()
        self._on_release(self)

    def _release_bytes(self) -> None:
        self._space.release(self._in_file + self._reserved)
        self._space.release_memory(self._reserved)
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

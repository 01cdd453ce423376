"""Bytes put aside for a while: in memory as far as the budget lends it, then in files of a private directory. Bounded.

What is held here is needed to finish something that a client began: small parts until their upload is completed, bodies
of unknown length until they have ended. It is no tier: nothing is evicted, nothing survives the process.

    hold = holds.hold()
    await hold.prepare(size)       room in all, and memory for what comes next; SpoolFull, Throttled
    hold.take(piece)               into memory; as many bytes as were prepared
    await hold.settle()            memory above the share goes to the file
    async for piece in hold.pieces()
    hold.release()                 or left to Holds.close

The directory (storage.private_directory) is made when it is first needed, and removed at the end; those that a killed
process has left are removed by the next one.
"""

import asyncio
import itertools
import os
import tempfile
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from forebay.core.errors import SpoolFailed, SpoolFull
from forebay.core.fair_semaphore import FairSemaphore
from forebay.protocol.body.checksums import Piece
from forebay.storage.private_directory import PrivateDirectory

PIECE: Final = 256 << 10
"""Bytes that are read from a file at a time."""
_PREFIX: Final = "forebay-holds-"


class Spool:
    """All that is held. `limit`: bytes, in memory and files together. `share`: of them in memory. `wait`: seconds that
    are waited for memory."""

    def __init__(
        self, limit: int, budget: FairSemaphore, *, share: int, wait: float, parent: Path | None = None
    ) -> None:
        self.limit = limit
        self._budget = budget
        self._share = share
        self._wait = wait
        self._parent = parent if parent is not None else Path(tempfile.gettempdir())
        self._directory: PrivateDirectory | None = None
        self._making = threading.Lock()
        self._numbers = itertools.count()
        self._held: set[SpooledBody] = set()
        self.in_use = 0
        """Bytes that were asked for and not yet released."""
        self.in_memory = 0

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, hold: "SpooledBody") -> bool:
        """Whether it has not been released."""
        return hold in self._held

    def create(self) -> "SpooledBody":
        """A new one, empty."""
        hold = SpooledBody(self)
        self._held.add(hold)
        return hold

    def close(self) -> None:
        """Release everything, and remove the directory."""
        for hold in list(self._held):
            hold.release()
        if self._directory is not None:
            self._directory.remove()
            self._directory = None

    def has_space(self, size: int) -> bool:
        return self.in_use + size <= self.limit

    # For Hold alone.

    async def reserve(self, size: int) -> None:
        if not self.has_space(size):
            raise SpoolFull("No room is left to hold small parts and bodies of unknown length (limits.held).")
        self.in_use += size
        try:
            await self._budget.acquire(size, self._wait)
        except BaseException:
            self.in_use -= size
            raise
        self.in_memory += size

    def release_memory(self, size: int) -> None:
        self.in_memory -= size
        self._budget.release(size)

    @property
    def is_over_share(self) -> bool:
        return self.in_memory > self._share or self._budget.waiting > 0

    def remove(self, hold: "SpooledBody") -> None:
        self._held.discard(hold)

    def new_file(self) -> Path:
        """In a thread: where the bytes of one hold go."""
        with self._making:
            if self._directory is None:
                self._parent.mkdir(parents=True, exist_ok=True)
                self._directory = PrivateDirectory.create(self._parent, _PREFIX)
            return self._directory.path / str(next(self._numbers))


class SpooledBody:
    """One run of bytes. Made by Holds.hold."""

    def __init__(self, holds: Spool) -> None:
        self._holds = holds
        self._memory: list[bytes] = []
        self._prepared = 0
        self._in_memory = 0
        self._file: Path | None = None
        self._in_file = 0
        self._writing = asyncio.Lock()

    @property
    def size(self) -> int:
        """Bytes taken."""
        return self._in_file + self._in_memory

    async def reserve(self, size: int) -> None:
        """Room and memory for `size` bytes more. Raises SpoolFull if the limit is reached, Throttled if no
        memory comes free."""
        await self._holds.reserve(size)
        self._prepared += size
        if self not in self._holds:  # released while it waited
            self._give_back()

    def append(self, piece: Piece) -> None:
        """The next bytes. They must have been prepared for."""
        size = len(piece)
        if self not in self._holds:
            return
        if self._in_memory + size > self._prepared:
            raise ValueError("more bytes than were prepared for")
        self._memory.append(bytes(piece))
        self._in_memory += size

    async def to_file(self) -> "SpooledFile":
        """What another process of this user can read, until this is released. Raises HoldsBroken."""
        await self.spill(whole=True)
        if self._file is None:
            raise SpoolFailed("nothing is held")
        return SpooledFile(str(self._file), self._in_file)

    async def spill(self, *, whole: bool = False) -> None:
        """Make room in memory, where others need it; `whole`: put all of it into the file. Raises HoldsBroken."""
        async with self._writing:
            if not (whole or self._holds.is_over_share) or self not in self._holds or not self._memory:
                return
            pieces = tuple(self._memory)  # they stay readable until they are in the file
            written = sum(len(piece) for piece in pieces)
            try:
                await asyncio.to_thread(self._append, pieces)
            except OSError as failure:
                raise SpoolFailed(str(failure)) from failure
            if self not in self._holds:  # released while it was written
                return
            del self._memory[: len(pieces)]
            self._in_file += written
            self._in_memory -= written
            self._prepared -= written
            self._holds.release_memory(written)

    def _append(self, pieces: tuple[bytes, ...]) -> None:
        try:
            if self._file is None:
                self._file = self._holds.new_file()
            descriptor = os.open(self._file, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            try:
                # What an attempt that failed has left is written over.
                os.lseek(descriptor, self._in_file, os.SEEK_SET)
                for piece in pieces:
                    view = memoryview(piece)
                    while view:
                        view = view[os.write(descriptor, view) :]
            finally:
                os.close(descriptor)
        finally:
            if self not in self._holds:  # released meanwhile; whoever waited for this may have given up long ago
                self._remove_file()

    async def pieces(self) -> AsyncIterator[bytes]:
        """All that was taken, from the beginning. May be read again."""
        at = 0
        while self._file is not None and at < self._in_file:
            async for piece in _read(self._file, at, self._in_file, "bytes that were held are gone"):
                at += len(piece)
                yield piece
        if self not in self._holds:
            raise SpoolFailed("it was let go of")
        for piece in tuple(self._memory):
            yield piece

    def release(self) -> None:
        """Let go of it. Safe to say twice."""
        if self not in self._holds:
            return
        self._holds.remove(self)
        self._give_back()
        self._remove_file()

    def _give_back(self) -> None:
        self._holds.in_use -= self._in_file + self._prepared
        self._holds.release_memory(self._prepared)
        self._memory, self._prepared, self._in_file, self._in_memory = [], 0, 0, 0

    def _remove_file(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.unlink()


@dataclass(frozen=True, slots=True)
class SpooledFile:
    """Bytes that another worker of the node holds. It may let go of them, or die: then they are gone."""

    path: str
    size: int

    def pieces(self) -> AsyncIterator[bytes]:
        return _read(Path(self.path), 0, self.size, "bytes that were lent are gone")

    def release(self) -> None:
        """They are the other's to let go of."""


async def _read(path: Path, start: int, stop: int, gone: str) -> AsyncIterator[bytes]:
    """The bytes of a file in pieces. The file is open for a piece at a time, so that none stays open for a slow reader.
    HoldsBroken, and why, when it can't be read, or ends early (`gone`)."""
    while start < stop:
        try:
            piece = await asyncio.to_thread(_read_piece, path, start, min(PIECE, stop - start))
        except OSError as failure:
            raise SpoolFailed(str(failure)) from failure
        if not piece:
            raise SpoolFailed(gone)
        start += len(piece)
        yield piece


def _read_piece(path: Path, at: int, size: int) -> bytes:
    with path.open("rb") as file:
        file.seek(at)
        return file.read(size)

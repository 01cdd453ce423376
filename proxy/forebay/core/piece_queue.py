"""A piece queue: the pieces of one body on their way to a thread that hashes or writes them, in order.

    put ──> waiting ──`batch` bytes, and none under way──> under way, in a thread ──> consumed
                └ finish: what is left, however little

The thread consumes whatever has come while it was busy, so where it is the slower side its batches grow, and a hop
between threads (35 microseconds) is paid for many bytes. `wait_for_room` bounds what waits: at most `limit` bytes and
one piece, besides as many under way.

Belongs to one event loop. After a failure nothing more is consumed.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Final

from forebay.core.buffers import Piece

_JOINED: Final = 4 << 10
"""Smaller pieces are joined: many small objects take many times the memory of their bytes."""
_TAIL: Final = 64 << 10


class PieceQueue:
    """One queue. Call `finish` or `stop` before closing the resources of `consume`."""

    def __init__(
        self,
        consume: Callable[[Sequence[Piece]], None],
        *,
        batch: int,
        limit: int,
        executor: Executor | None = None,
    ) -> None:
        """`consume` is called in a thread of `executor` (None: of the loop's own), once at a time. `batch`, `limit`:
        bytes."""
        self._consume = consume
        self._batch = batch
        self._limit = limit
        self._executor = executor
        self._waiting: list[Piece | bytearray] = []
        self._size = 0
        self._under_way: asyncio.Future[None] | None = None
        self._failure: BaseException | None = None
        self._has_failed = False

    @property
    def waiting(self) -> int:
        """Bytes that wait."""
        return self._size

    def put(self, pieces: Sequence[Piece]) -> None:
        """Adds pieces. They must not change any more."""
        for piece in pieces:
            if len(piece) >= _JOINED:
                self._waiting.append(piece)
            elif self._waiting and isinstance(tail := self._waiting[-1], bytearray) and len(tail) < _TAIL:
                tail += piece
            else:
                self._waiting.append(bytearray(piece))
            self._size += len(piece)
        self._begin(self._batch)

    async def wait_for_room(self) -> None:
        """Waits while more than `limit` bytes wait. Raises the error of `consume`."""
        while self._size > self._limit and self._under_way is not None:
            await asyncio.wait((self._under_way,))
        self._check()

    async def finish(self) -> None:
        """Returns once every piece is consumed. Raises the error of `consume`."""
        self._batch = 1
        self._begin(1)
        while self._under_way is not None:
            await asyncio.wait((self._under_way,))
        self._check()

    async def stop(self) -> None:
        """Drops the waiting pieces, and returns once no thread is at work."""
        self._drop()
        while self._under_way is not None:
            await asyncio.wait((self._under_way,))
        self._failure = None

    def _begin(self, least: int) -> None:
        if self._under_way is not None or self._has_failed or self._size < least:
            return
        batch = [memoryview(piece) if isinstance(piece, bytearray) else piece for piece in self._waiting]
        self._waiting, self._size = [], 0
        self._under_way = asyncio.get_running_loop().run_in_executor(self._executor, self._consume, batch)
        self._under_way.add_done_callback(self._ended)

    def _ended(self, ended: "asyncio.Future[None]") -> None:
        self._under_way = None
        self._failure = asyncio.CancelledError() if ended.cancelled() else ended.exception()
        if self._failure is not None:
            self._has_failed = True
            self._drop()
        self._begin(self._batch)

    def _drop(self) -> None:
        self._waiting, self._size = [], 0

    def _check(self) -> None:
        failure, self._failure = self._failure, None
        try:
            if failure is not None:
                raise failure
        finally:
            del failure  # it and this frame would refer to each other

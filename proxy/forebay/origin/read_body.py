"""The body of a read, counted.

The bytes are exactly as many as were announced by the range: fewer or more is OriginBroken. The body is whole only
once the end has come, not when the count is right: an excess may follow. When it breaks before the first byte was
handed out, the read is asked again, pinned to the version whose facts were given; later it isn't.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from forebay.core.errors import OriginBroken, OriginError


class BodySource(Protocol):
    """What is needed of an OriginResponse: see there."""

    async def read_into(self, target: memoryview) -> int: ...
    def read_if_buffered(self, target: memoryview) -> bool: ...
    def close(self) -> None: ...


Reopen: TypeAlias = Callable[[OriginError], Awaitable[BodySource]]
"""Gives a new answer with the same bytes to come, or raises the error when there is to be no further attempt."""


class ReadBody:
    """What is left of an answer that was found good."""

    __slots__ = ("_length", "_received", "_reopen", "_source")

    def __init__(self, source: BodySource, length: int, reopen: Reopen) -> None:
        self._source = source
        self._length = length
        self._received = 0
        self._reopen = reopen

    def __repr__(self) -> str:
        return f"<ReadBody {self._received} of {self._length}>"

    async def read_into(self, target: memoryview) -> int:
        """The bytes that have come, at least one, into the front of `target`: how many; 0 at the end. OriginBroken,
        OriginUnreachable, VersionChanged."""
        while True:
            try:
                received = await self._source.read_into(target)
                self._count(received)
            except OriginError as error:
                await self._reopen_or_raise(error)
            else:
                return received

    def read_if_buffered(self, target: memoryview) -> bool:
        """All of it into `target`, which it fills, if it is here already; else False, and nothing has happened."""
        if self._received or len(target) != self._length or not self._source.read_if_buffered(target):
            return False
        self._received = self._length
        return True

    async def _reopen_or_raise(self, error: OriginError) -> None:
        self.close()
        if self._received:
            raise error
        self._source = await self._reopen(error)

    def _count(self, length: int) -> None:
        """So many more bytes have come, or (0) the end."""
        if self._received + length > self._length:
            raise OriginBroken("the body is longer than announced")
        if not length and self._received < self._length:
            raise OriginBroken("the body is shorter than announced")
        self._received += length

    def close(self) -> None:
        """Drops the connection unless the body was read to its end. May be called again."""
        self._source.close()

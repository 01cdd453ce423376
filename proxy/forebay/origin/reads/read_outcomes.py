"""The outcomes of opening an object at the origin, a closed set, and the body that comes with success.

All else is an exception (forebay.core.errors): OriginUnreachable, OriginBroken, VersionChanged.

A body has exactly as many bytes as its range announced: fewer or more is OriginBroken. It is complete only once its end
has come, not when the count is right: an excess may follow. If it breaks before its first byte was handed out, the read
is repeated, pinned to the version whose facts were given; later it is not.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias

from forebay.core.byte_ranges import Span
from forebay.core.errors import OriginBroken, OriginError
from forebay.core.heads import HeaderPairs, ObjectFacts


class BodySource(Protocol):
    """The part of an OriginResponse that a body reads from."""

    async def read_into(self, target: memoryview) -> int:
        """Reads at least one byte into the front of `target`; returns how many, 0 at the end."""
        ...

    def take_whole(self, length: int) -> memoryview | None:
        """Takes the whole body of `length` bytes, if it is here already: the buffer is the caller's from then on."""
        ...

    def skip_turns(self) -> None:
        """Receives the rest without body turns (forebay.origin.turns.body_turns), as a client waits for it."""
        ...

    def close(self) -> None:
        """Drops the connection unless the body was read to its end."""
        ...


Reopen: TypeAlias = Callable[[OriginError], Awaitable[BodySource]]
"""Gives a new response with the same bytes, or raises the error when there is to be no further attempt."""


class ReadBody:
    """The body of a read, counted."""

    __slots__ = ("_length", "_received", "_reopen", "_skips_turns", "_source")

    def __init__(self, source: BodySource, length: int, reopen: Reopen) -> None:
        self._source = source
        self._length = length
        self._received = 0
        self._reopen = reopen
        self._skips_turns = False

    def __repr__(self) -> str:
        return f"<ReadBody {self._received} of {self._length}>"

    async def read_into(self, target: memoryview) -> int:
        """Reads at least one byte into the front of `target`; returns how many, 0 at the end.

        OriginBroken, OriginUnreachable, VersionChanged.
        """
        while True:
            try:
                received = await self._source.read_into(target)
                self._count(received)
            except OriginError as error:
                await self._reopen_or_raise(error)
            else:
                return received

    async def read_all(self) -> bytes:
        """Reads the whole body, and closes it. To be called before any other read. Raises the errors of `read_into`."""
        content, position = bytearray(self._length), 0
        try:
            while position < len(content):
                position += await self.read_into(memoryview(content)[position:])
        finally:
            self.close()
        return bytes(content)

    def take_whole(self) -> memoryview | None:
        """Takes the whole body, if it is here already: the buffer is the caller's from then on, and has ended."""
        whole = self._source.take_whole(self._length) if not self._received else None
        if whole is not None:
            self._received = self._length
        return whole

    def skip_turns(self) -> None:
        """Receives the rest without body turns, as a client waits for it."""
        self._skips_turns = True
        self._source.skip_turns()

    async def _reopen_or_raise(self, error: OriginError) -> None:
        self.close()
        if self._received:
            raise error
        self._source = await self._reopen(error)
        if self._skips_turns:
            self._source.skip_turns()

    def _count(self, length: int) -> None:
        """`length`: bytes received, 0 at the end."""
        if self._received + length > self._length:
            raise OriginBroken("the body is longer than announced")
        if not length and self._received < self._length:
            raise OriginBroken("the body is shorter than announced")
        self._received += length

    def close(self) -> None:
        """Drops the connection unless the body was read to its end. May be called again."""
        self._source.close()


class ObjectOpened(NamedTuple):
    """The object, or the requested part of it, is on its way. `body` is the caller's to read to its end or close."""

    facts: ObjectFacts
    span: Span
    """The requested span, clipped to the object; empty for a HEAD."""
    body: ReadBody
    source: Literal["origin", "flight", "joined", "worker"] = "origin"
    """The sender: the origin itself, or the worker that owns the object: from a flight of its own for this read, from
    one that another read had started, or from its tiers."""


@dataclass(frozen=True, slots=True)
class Revalidated:
    """304: the caller's version is the current one."""

    etag: str
    last_modified: str
    repeated: HeaderPairs = ()
    """The facts of the object that the 304 repeats beside these two: see protocol.response_headers.repeated_facts."""


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """The origin's own refusal, to be passed on as it came: 403, 404, 416, a redirect, a 503 after all attempts."""

    status: int
    headers: HeaderPairs
    """All of them, the transport's included."""
    body: bytes
    """Empty when it was larger than a refusal is, or broke off."""


@dataclass(frozen=True, slots=True)
class Uncacheable:
    """A success that the cache may not keep: the caller passes the request through instead. Nothing is left open."""

    reason: str


ReadOutcome: TypeAlias = ObjectOpened | Revalidated | ErrorResponse | Uncacheable

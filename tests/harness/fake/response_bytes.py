"""A response as bytes, before a fault spoils it: what `harness.fake.actions.Rewrite` changes.

Nothing is checked and nothing completed: a response with two lengths, or with none, is sent like any other.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from harness.fake.gate import Gate

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ResponseBytes:
    """The head as lines, the body as it follows the head."""

    method: str
    """Of the request."""
    status_line: str
    headers: Pairs
    body: bytes = b""
    before: bytes = b""
    """Sent before the status line, in one segment with it."""
    late: bytes = b""
    """Sent after the body, in a segment of its own."""
    stop: int | None = None
    """The response is cut after so many bytes of head and body."""
    piece: int | None = None
    """Bytes of a segment; None: all at once."""
    interval: float = 0.0
    """Seconds between two segments."""
    gate: Gate | None = None
    """Waited for after the last byte."""
    ending: Literal["keep", "close", "reset"] = "keep"
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep

    @property
    def head(self) -> bytes:
        lines = [self.status_line, *(f"{name}: {value}" for name, value in self.headers)]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "surrogateescape")

    def segments(self) -> Iterator[bytes]:
        """The bytes in the order and the pieces in which they are sent."""
        raw = (self.before + self.head + self.body)[: None if self.stop is None else len(self.before) + self.stop]
        size = self.piece or max(1, len(raw))
        yield from (raw[at : at + size] for at in range(0, len(raw), size))
        if self.late:
            yield self.late

    def header(self, name: str) -> str | None:
        """The first value of a header."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    def without(self, *names: str) -> "ResponseBytes":
        """The same without these headers (lower case)."""
        return replace(self, headers=tuple(pair for pair in self.headers if pair[0].lower() not in names))

    def adding(self, *pairs: tuple[str, str]) -> "ResponseBytes":
        """The same with more headers, whether or not they are there already."""
        return replace(self, headers=(*self.headers, *pairs))

    def replacing(self, name: str, value: str) -> "ResponseBytes":
        """The same with another value of a header, where it has that header."""
        return replace(
            self, headers=tuple((key, value if key.lower() == name.lower() else old) for key, old in self.headers)
        )

"""One request and its reply, as the story sees them: no transport, no framework.

The shell's adapters implement these two; tests implement them in memory. What has been read of a request's head is
final: `headers` and `target` are as they came, decoded once by forebay.protocol.target.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from forebay.core.buffers import Buffer
from forebay.core.heads import HeaderPairs
from forebay.protocol.header_map import Headers
from forebay.protocol.oss.oss_request import OssRequest


class Body(Protocol):
    """The body of a request, as it arrives."""

    def pieces(self) -> AsyncIterator[bytes]:
        """Its bytes, once, with back-pressure. Asks for the body first where the client waits for `100 Continue`.

        Raises S3Error IncompleteBody when it ends early and RequestTimeout when the client stalls.
        """
        ...


@dataclass(frozen=True, slots=True)
class BytesBody:
    """A body that is at hand. Implements Body."""

    content: bytes

    async def pieces(self) -> AsyncIterator[bytes]:
        yield self.content


@dataclass(frozen=True, slots=True)
class Request:
    """The head of a request and the way to its body."""

    method: str
    raw_target: str
    """The request line's target, exactly as received."""
    host: str
    """The Host header; empty if there was none."""
    headers: Headers
    body: Body
    has_body: bool
    """Whether the framing announces one: a Content-Length above zero, or a Transfer-Encoding."""
    received_at: float
    """When its head was complete: seconds since the epoch."""
    peer: str
    oss_request: OssRequest | None = None
    """What it asked for in OSS's terms, where it spoke OSS: then method, headers and target are a translation."""
    secure: bool = False
    """Whether it came over TLS, as far as this listener can tell."""

    @property
    def url(self) -> str:
        """What the client asked, without the query."""
        return f"{'https' if self.secure else 'http'}://{self.host}{self.raw_target.partition('?')[0]}"


class Reply(Protocol):
    """Where the answer goes. `start` once, then `write` any number of times, then `finish` or `abort`."""

    @property
    def started(self) -> bool:
        """Whether the head has left: from then on a failure can only be shown by aborting."""
        ...

    async def start(self, status: int, headers: HeaderPairs, length: int | None) -> None:
        """Send the head. `length` is the Content-Length; None: not known, so chunked."""
        ...

    async def write(self, buffer: Buffer | bytes) -> None:
        """Send a piece; returns when the client has room for more. Raises ConnectionError when it has left."""
        ...

    async def finish(self) -> None: ...

    def abort(self) -> None:
        """Break the connection so that the client can't take what it has for the whole."""
        ...

"""One request and its reply: no transport, no framework.

The server's adapters implement `Body` and `Reply` (forebay.server.http.aiohttp_exchange,
forebay.server.fastpath.direct_reply); tests implement them in memory. A request's head is final: `headers` and
`raw_target` are as received, and the target is decoded once, by forebay.protocol.target.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeAlias

from forebay.core.buffers import Buffer
from forebay.core.heads import HeaderPairs
from forebay.protocol.batch.batch_output import BatchOutput
from forebay.protocol.header_map import Headers
from forebay.protocol.oss.oss_request import OssRequest


class Body(Protocol):
    """The body of a request, as it is received."""

    def pieces(self) -> AsyncIterator[bytes]:
        """The bytes, once, with back-pressure. Sends `100 Continue` first where the client waits for it.

        Raises S3Error: IncompleteBody when the body ends early, RequestTimeout when the client stalls.
        """
        ...


@dataclass(frozen=True, slots=True)
class BytesBody:
    """A body in memory. Implements Body."""

    content: bytes

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yields the whole body, if it is not empty."""
        if self.content:
            yield self.content


EMPTY_BODY: Final = BytesBody(b"")

SMALL_BODY: Final = 64 << 10
"""Bytes of a body that is received whole, then decoded and hashed at once."""


@dataclass(frozen=True, slots=True)
class SmallBody:
    """A body of at most SMALL_BODY bytes, which may not have arrived completely. Implements Body."""

    receive: Callable[[], Awaitable[bytes]]
    """Returns all of the body. To be called once. Sends `100 Continue` and raises errors as `Body.pieces` does."""

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yields the whole body, if it is not empty."""
        if content := await self.receive():
            yield content


class OpenFile(Protocol):
    """A file that stays open for as long as a reference to this exists."""

    fd: int


BodyPart: TypeAlias = Buffer | bytes | tuple[OpenFile, int, int, None]
"""Bytes of a body: in memory, or in a file, from a start to a stop, where they are certain to be in memory as well."""


class ChunkWriter(Protocol):
    """Writes the chunks of a body whose length is not known, without a copy of theirs."""

    @property
    def has_files(self) -> bool:
        """Whether parts may be in files."""
        ...

    async def write(self, parts: Sequence[BodyPart], size: int) -> None:
        """Sends a chunk of `size` bytes, once the response was started; returns when the client can take more, and
        nothing refers to the parts. Raises ConnectionError when it has left, or stalls."""


class Request(NamedTuple):
    """The head of a request, and its body."""

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
    """Seconds since the epoch when its head was complete."""
    peer: str
    oss_request: OssRequest | None = None
    """The request in OSS's terms if the client speaks OSS; `headers` are its translation then."""
    secure: bool = False
    """Whether the connection to this listener is TLS."""
    batch_output: BatchOutput | None = None
    """The output of a batch; None: the reply, as a TAR."""
    chunks: ChunkWriter | None = None
    """Writes to the reply's body, in place of `Reply.write`; None: its transport has to copy, or knows no chunks."""
    has_left: Callable[[], bool] = lambda: False
    """Whether the client has closed the connection."""
    outlives_client: bool = False
    """Whether nothing but the end of the process cancels the task that answers it."""
    send_interim: Callable[[], None] = lambda: None
    """Sends an interim response, as the answer takes long (RFC 9110 section 15.2)."""

    @property
    def expects_continue(self) -> bool:
        """Whether the client waits for 100 Continue, for a while, before it sends the body (RFC 9110, 10.1.1)."""
        return self.headers.get("Expect", "").lower() == "100-continue"

    @property
    def url(self) -> str:
        """The URL as the client sent it, without the query."""
        return f"{'https' if self.secure else 'http'}://{self.host}{self.raw_target.partition('?')[0]}"


class Reply(Protocol):
    """The receiver of a response: `start` once, `write` any number of times, then `finish` or `abort`."""

    @property
    def started(self) -> bool:
        """Whether the head has left: a failure after that can only be shown by `abort`."""
        ...

    async def start(self, status: int, headers: HeaderPairs, length: int | None) -> None:
        """Sends the head. `length`: the Content-Length; None if it is not known, so the body is chunked."""
        ...

    async def write(self, buffer: Buffer | bytes) -> None:
        """Sends a piece of the body; returns when the client can take more. Raises ConnectionError when it has left."""
        ...

    async def finish(self) -> None:
        """Ends the response."""
        ...

    def abort(self) -> None:
        """Breaks the connection, so that the client cannot mistake a part for the whole."""
        ...


class ObjectReply(Reply, Protocol):
    """A reply that can carry an object, piece by piece, to a client however slow."""

    def accept(self, piece: Buffer) -> int:
        """Sends as much of the front of a piece as the client accepts at once, and little more, which is copied.
        Returns how many bytes that was, at least one. For a body of known length, after `start` and whenever not
        `is_blocked`. Raises ConnectionError when the client has left.

        Unlike `write` it keeps no reference to the piece: a client that accepts nothing for hours holds no buffer.
        """
        ...

    @property
    def is_blocked(self) -> bool:
        """Whether the client accepts nothing for now."""
        ...

    async def drain(self) -> None:
        """Waits while the client accepts nothing. Raises ConnectionError when it has left, or stalls."""

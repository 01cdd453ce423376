"""The body receiver: receives the rest of a large body of a request straight into buffers, past aiohttp's parser.

    head ──> aiohttp's parser ──> request
    body ──> first bytes, by the parser ──┬──> aiohttp's stream of the request's body
             the rest, by the kernel ──> buffer ──┘

The parser copies each byte once more, behind the loop, which has copied it once out of its own buffer. Here the kernel
writes into the buffer that the reader gets as views. That is for bodies whose length is declared alone: where one ends,
a count says, and never its bytes. A buffer is never written to twice.

While a body is received this is the transport's protocol, in place of the connection, which all else is passed on to.
Flow control is aiohttp's: its stream pauses and resumes the transport.
"""

import asyncio
from typing import Final, Protocol, cast

from aiohttp.streams import StreamReader

LEAST: Final = 1 << 20
"""Bytes to come from which on such a receiver pays."""
FAST: Final = 64 << 10
"""Bytes that have come at once: a client that sends slowly has no buffer that waits for it."""
BUFFER: Final = 1 << 20
"""Bytes of a buffer; a connection has one at a time that is not full. Each piece costs the loop some 80 microseconds,
of any size, so a large buffer is worth its memory."""

COPIED: Final = 4096
"""The least bytes of a piece that is a view of a buffer. A smaller piece is copied: its holder would keep the whole
MiB."""


class ReceivingConnection(Protocol):
    """The connection that a body is received for."""

    def connection_lost(self, exc: BaseException | None) -> None:
        """The transport has closed."""

    def eof_received(self) -> bool | None:
        """The client sends nothing more."""

    def pause_writing(self) -> None:
        """The transport's buffer of unsent bytes is full."""

    def resume_writing(self) -> None:
        """Resumes sending: the transport's buffer has room again."""

    def body_received(self, count: int) -> None:
        """Counts bytes that were received."""

    def body_ended(self) -> None:
        """The last byte was received, and is in the stream."""


class BodyReceiver(asyncio.BufferedProtocol):
    """Receives the rest of one body."""

    def __init__(self, connection: ReceivingConnection, content: StreamReader, left: int) -> None:
        """`left`: bytes to come, at least one."""
        self._connection: ReceivingConnection | None = connection
        self._content = content
        self._left = left
        self._buffer = memoryview(b"")
        self._filled = 0

    def get_buffer(self, sizehint: int) -> memoryview:
        """Returns where the next bytes go."""
        if self._filled == len(self._buffer):
            self._buffer, self._filled = memoryview(bytearray(min(BUFFER, self._left))), 0
        return self._buffer[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Delivers the bytes that the loop has received."""
        start, self._filled = self._filled, self._filled + nbytes
        self._left -= nbytes
        if self._connection is None:
            return
        piece = self._buffer[start : self._filled]
        # It keeps and returns any piece as it is; its type says bytes.
        self._content.feed_data(bytes(piece) if nbytes < COPIED else cast("bytes", piece.toreadonly()))
        self._connection.body_received(nbytes)
        if not self._left:
            connection, self._connection = self._connection, None
            connection.body_ended()

    def connection_lost(self, exc: Exception | None) -> None:
        """The transport has closed."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.connection_lost(exc)

    def eof_received(self) -> bool | None:
        """The client sends nothing more."""
        return self._connection.eof_received() if self._connection is not None else None

    def pause_writing(self) -> None:
        """The transport's buffer of unsent bytes is full."""
        if self._connection is not None:
            self._connection.pause_writing()

    def resume_writing(self) -> None:
        """The transport's buffer of unsent bytes has room again."""
        if self._connection is not None:
            self._connection.resume_writing()

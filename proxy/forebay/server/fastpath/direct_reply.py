"""The direct reply: the response to a plain read that the fast lane admitted and could not answer.

The gateway answers such a read as any other; only aiohttp's server is not in between. Its head is unambiguous
(forebay.server.fastpath.request_head): it has no body, is HTTP/1.1, and the next request begins behind it. The bytes
written are those that aiohttp would write (held by a test).

The body of an object leaves past the transport where it can (`accept`): the transport would keep a reference to what
the client has not taken, and a buffer of a megabyte with it.

Not here: requests that arrive meanwhile, and closing the connection; both are the connection's.

RFC 9112 sections 6 and 7
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from http import HTTPStatus
from typing import Final, Protocol

from forebay.core.buffers import Buffer
from forebay.core.fair_semaphore import SemaphoreShare
from forebay.core.heads import HeaderPairs
from forebay.core.request_record import RequestRecord
from forebay.protocol.dates import http_date
from forebay.server.response_heads import response_fields, write_continue

_REASONS: Final = {status.value: status.phrase for status in HTTPStatus}
_LINE: Final = "\r\n"
MAX_JOINED_SIZE: Final = 16 << 10
"""Bytes of a body up to which copying it behind its head is cheaper than a write of two buffers."""
TAIL_SIZE: Final = 16 << 10
"""Bytes that are copied for a client that accepts nothing: the transport reports when they have left."""
ENCRYPTED_SIZE: Final = 64 << 10
"""Bytes that TLS encrypts at once, into a buffer of its own."""
UNSENT_ENCRYPTED: Final = 3 * ENCRYPTED_SIZE
"""Bytes that TLS may have buffered when it says that the client accepts nothing: as much as its transport and it take
before they say so, and one write more."""


class ReplyConnection(Protocol):
    """The part of a connection that a reply needs."""

    @property
    def transport(self) -> asyncio.Transport | None:
        """None after the client has left."""
        ...

    secure: bool
    """Whether the connection is TLS."""
    unsent: SemaphoreShare
    """The bytes that may wait for slow clients, of all connections."""

    @property
    def writing_paused(self) -> bool:
        """Whether the transport's buffer is full."""
        ...

    def write_now(self, pieces: Sequence[Buffer | bytes]) -> int:
        """Writes as much as the client accepts at once, and returns how many bytes that was. From then on the
        transport's buffer is full with the first byte in it. Not for TLS. Raises ConnectionError when the client has
        left."""
        ...

    async def drain(self) -> None:
        """Waits until the transport's buffer has room. Raises ConnectionError when the client has left."""
        ...


class DirectReply:
    """Writes a response to the connection. Implements forebay.protocol.exchange.Reply."""

    __slots__ = (
        "_chunked",
        "_connection",
        "_head",
        "_is_charged",
        "_is_head",
        "_is_last",
        "_isolation",
        "_left",
        "_record",
        "aborted",
        "keep_alive",
        "started",
    )

    def __init__(
        self,
        connection: ReplyConnection,
        record: RequestRecord,
        is_last: Callable[[], bool],
        isolation: HeaderPairs,
        *,
        is_head: bool,
    ) -> None:
        """`is_last`: whether the connection ends after this. `isolation`: see `response_fields`."""
        self._connection = connection
        self._record = record
        self._is_last = is_last
        self._isolation = isolation
        self._is_head = is_head
        self._chunked = False
        self._head = b""
        self._left = 0
        self._is_charged = True
        """Whether the share of unsent bytes had room when TLS last waited for the client."""
        self.started = False
        self.aborted = False
        self.keep_alive = True
        """Whether the connection may carry another request after this one."""

    def send_interim(self) -> None:
        """Sends the interim response 100 (Continue), before the response has begun."""
        write_continue(self._connection.transport)

    async def start(self, status: int, headers: HeaderPairs, length: int | None) -> None:
        """Prepares the head. ValueError for a control character in a header."""
        self.prepare(status, headers, length)

    def prepare(self, status: int, headers: HeaderPairs, length: int | None) -> bytes:
        """Makes the head as `start` does, and returns it: the caller writes it together with the whole body."""
        text = None
        if length is not None and not self._is_head and status in {200, 206} and not self._is_last():
            text = plain_head(status, headers, length, self._isolation)
        if text is not None:
            self._left = length or 0
        else:
            text = self._any_head(status, headers, length)
        self.started = True
        self._record.status = status
        self._record.first_byte = time.monotonic()
        self._head = text.encode("utf-8", "ignore")  # a byte that was not UTF-8 is left out, as aiohttp does
        return self._head

    def _any_head(self, status: int, headers: HeaderPairs, length: int | None) -> str:
        fields = response_fields(headers, length, self._isolation)
        if self._is_head or status in {204, 304} or status < 200:
            if not self._is_head:
                fields.popall("Content-Length", None)
            fields.popall("Transfer-Encoding", None)
        elif length is None:
            self._chunked = True
            fields["Transfer-Encoding"] = "chunked"
        else:
            self._left = length
        if self._left or self._chunked:
            fields.setdefault("Content-Type", "application/octet-stream")
        if "Date" not in fields:
            fields["Date"] = http_date(int(time.time()))
        if self._is_last():
            self.keep_alive = False
            fields["Connection"] = "close"
        lines = [
            f"HTTP/1.1 {status} {_REASONS.get(status, '')}",
            *[f"{name}: {value}" for name, value in fields.items()],
        ]
        text = _LINE.join((*lines, _LINE))
        if text.count("\n") != len(lines) + 1 or text.count("\r") != len(lines) + 1 or "\0" in text:
            raise ValueError("a control character in a header")
        return text

    async def write(self, buffer: Buffer | bytes) -> None:
        """Writes a piece, and waits while the client does not read. Raises ConnectionError."""
        if self._chunked:
            if len(buffer):
                self._write(b"%x\r\n" % len(buffer), buffer, b"\r\n")
        else:
            self._left -= len(buffer)
            self._write(buffer)
        if self._connection.writing_paused:
            await self._connection.drain()

    def accept(self, piece: Buffer) -> int:
        """Sends the front of a piece. Raises ConnectionError."""
        connection, transport = self._connection, self._live_transport()
        head, self._head = self._head, b""
        if connection.secure:
            count = self._encrypt(transport, head, piece)
        else:
            sent = connection.write_now((head, piece) if head else (piece,)) - len(head)
            if sent < 0:
                transport.write(head[sent:])
                sent = 0
            count = len(piece)
            if sent < count:
                count = min(count, sent + TAIL_SIZE)
                transport.write(bytes(piece[sent:count]))
        self._left -= count
        return count

    def _encrypt(self, transport: asyncio.Transport, head: bytes, piece: Buffer) -> int:
        """Writes the front of a piece to a TLS transport, which encrypts it at once and keeps that only."""
        count = min(len(piece), ENCRYPTED_SIZE if self._is_charged else TAIL_SIZE)
        if head:
            transport.set_write_buffer_limits(1, 0)
            transport.writelines((head, piece[:count]))
        else:
            transport.write(piece[:count])
        return count

    @property
    def is_blocked(self) -> bool:
        """Whether the client accepts nothing for now."""
        return self._connection.writing_paused

    async def drain(self) -> None:
        """Waits while the client accepts nothing. Raises ConnectionError."""
        connection = self._connection
        if not connection.secure:
            await connection.drain()
            return
        charged = UNSENT_ENCRYPTED if connection.unsent.try_acquire(UNSENT_ENCRYPTED) else 0
        try:
            await connection.drain()
        finally:
            connection.unsent.release(charged)
            self._is_charged = charged > 0

    async def finish(self) -> None:
        """Ends the response. Raises ConnectionError if it is shorter than announced."""
        if self._chunked:
            self._write(b"0\r\n\r\n")
        elif self._left:
            raise ConnectionAbortedError("another length than was announced")
        elif self._head:
            self._write()

    def abort(self) -> None:
        """Resets the connection."""
        self.aborted = True
        self._record.aborted = True
        if self._connection.transport is not None:
            self._connection.transport.abort()

    def _write(self, *pieces: Buffer | bytes) -> None:
        """Writes the head together with the first buffers: each write is a system call and a packet."""
        transport = self._live_transport()
        head, self._head = self._head, b""
        if head:
            pieces = (head, *pieces)
        if len(pieces) == 1:
            transport.write(pieces[0])
        elif sum(map(len, pieces)) <= MAX_JOINED_SIZE:
            transport.write(b"".join(pieces))
        else:
            transport.writelines(pieces)

    def _live_transport(self) -> asyncio.Transport:
        transport = self._connection.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client has left")
        return transport


def plain_head(status: int, headers: HeaderPairs, length: int, isolation: HeaderPairs) -> str | None:
    """Returns the head of a response with the usual headers; None if each header has to be checked. ValueError as for
    any head."""
    if not headers:
        return None
    names, values = zip(*headers, strict=True)
    form = _plain_form(status, names, isolation, is_empty=not length)
    if form is None:
        return None
    length_at, lines, count = form
    if length_at is not None and values[length_at] != str(length):
        return None
    text = lines % (*values, http_date(int(time.time())))
    if not text.count("\n") == text.count("\r") == count or "\0" in text:
        raise ValueError("a control character in a header")
    return text


@lru_cache(maxsize=256)  # the headers of most objects have the same names
def _plain_form(
    status: int, names: tuple[str, ...], isolation: HeaderPairs, *, is_empty: bool
) -> tuple[int | None, str, int] | None:
    """The position of Content-Length among the names of a response's headers; the head, with `%s` in place of their
    values and the date; and how many lines it has. None where a header is repeated, replaced or unusual. `is_empty`:
    there is no body, whose length is added, and not among the names."""
    lowered = [name.lower() for name in names]
    replaced = {"date", "connection", "transfer-encoding", *(name.lower() for name, _ in isolation)}
    if (
        len(set(lowered)) < len(lowered)
        or not replaced.isdisjoint(lowered)
        or ("content-length" in lowered) is is_empty
    ):
        return None
    fields = response_fields(tuple([(name, "") for name in names]), 0 if is_empty else None, isolation)
    if not is_empty:
        fields.setdefault("Content-Type", "application/octet-stream")
    line = f"HTTP/1.1 {status} {_REASONS[status]}"
    added = [f"{name}: {value}" for name, value in fields.items() if name.lower() not in lowered]
    own = [f"{name.replace('%', '%%')}: %s" for name in names]
    lines = [line, *own, *(each.replace("%", "%%") for each in added), "Date: %s", "", ""]
    return None if is_empty else lowered.index("content-length"), _LINE.join(lines), len(lines) - 1

"""The reply to a plain read that the fast lane has understood and could not answer: written to the connection by us.

The story answers it, as it answers all of the full lane; only aiohttp's server is not in between. Its head was read
beyond doubt (fasthead), so it has no body, is HTTP/1.1, and the next request begins behind it. What is written is what
aiohttp would write, byte for byte (held by a test).

Not here: what comes meanwhile, and the connection's end, which are the connection's.

RFC 9112 sections 6 and 7
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Final, Protocol

from forebay.core.buffers import Buffer
from forebay.core.heads import HeaderPairs
from forebay.core.request_record import RequestRecord
from forebay.server.http.aiohttp_exchange import response_fields

_REASONS: Final = {status.value: status.phrase for status in HTTPStatus}
_LINE: Final = "\r\n"
MAX_JOINED_SIZE: Final = 16 << 10
"""Bytes up to which copying a body behind its head is cheaper than a write of two pieces."""


class EmptyBody:
    """Of a request that has none. Implements forebay.protocol.exchange.Body."""

    async def pieces(self) -> AsyncIterator[bytes]:
        return
        yield


EMPTY_BODY: Final = EmptyBody()


class ReplyConnection(Protocol):
    """What the reply needs of its connection."""

    @property
    def transport(self) -> asyncio.Transport | None:
        """None: the client has left."""
        ...

    @property
    def writing_paused(self) -> bool:
        """Whether the client has yet to take what was written."""
        ...

    async def drain(self) -> None:
        """Until it has. Raises ConnectionError when it never will."""
        ...


class DirectReply:
    """Where the answer goes. Implements forebay.protocol.exchange.Reply."""

    __slots__ = (
        "_chunked",
        "_connection",
        "_head",
        "_is_head",
        "_is_last",
        "_left",
        "_record",
        "_stall",
        "aborted",
        "keep_alive",
        "started",
    )

    def __init__(
        self,
        connection: ReplyConnection,
        stall: float,
        record: RequestRecord,
        is_last: Callable[[], bool],
        *,
        is_head: bool,
    ) -> None:
        """`stall`: seconds that a client may take no byte at all. `is_last`: whether the connection is to end with
        this."""
        self._connection = connection
        self._stall = stall
        self._record = record
        self._is_last = is_last
        self._is_head = is_head
        self._chunked = False
        self._head = b""
        self._left = 0
        self.started = False
        self.aborted = False
        self.keep_alive = True
        """Whether the connection may carry another request."""

    async def start(self, status: int, headers: HeaderPairs, length: int | None) -> None:
        fields = response_fields(headers, length)
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
            fields["Date"] = _date(int(time.time()))
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
        self.started = True
        self._record.status = status
        self._record.first_byte = time.monotonic()
        self._head = text.encode("utf-8", "ignore")  # a byte that was not UTF-8 is left out, as aiohttp does

    async def write(self, buffer: Buffer | bytes) -> None:
        if self._chunked:
            if len(buffer):
                self._write(b"%x\r\n" % len(buffer), buffer, b"\r\n")
        else:
            self._left -= len(buffer)
            self._write(buffer)
        if self._connection.writing_paused:
            try:
                async with asyncio.timeout(self._stall):
                    await self._connection.drain()
            except TimeoutError as error:
                raise ConnectionAbortedError("the client takes no bytes") from error

    async def finish(self) -> None:
        if self._chunked:
            self._write(b"0\r\n\r\n")
        elif self._left:
            raise ConnectionAbortedError("another length than was announced")
        elif self._head:
            self._write()

    def abort(self) -> None:
        self.aborted = True
        self._record.aborted = True
        if self._connection.transport is not None:
            self._connection.transport.abort()

    def _write(self, *pieces: Buffer | bytes) -> None:
        """The head goes with the first of them, as each write is a packet to the client, and a call of the kernel's."""
        transport = self._connection.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client has left")
        head, self._head = self._head, b""
        if head:
            pieces = (head, *pieces)
        if len(pieces) == 1:
            transport.write(pieces[0])
        elif sum(map(len, pieces)) <= MAX_JOINED_SIZE:
            transport.write(b"".join(pieces))
        else:
            transport.writelines(pieces)


@lru_cache(maxsize=1)
def _date(second: int) -> str:
    return formatdate(second, usegmt=True)

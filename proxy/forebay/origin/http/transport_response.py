"""A response as its transport delivers it: from a pooled connection, or from the aiohttp session that carries bodies.

Both kinds promise the same: nothing is decoded; at most one buffer is received beyond the bytes that were read; a
connection whose response was not received to its end is dropped by `close` and never used again. Failures are
OriginErrors.
"""

import asyncio
from typing import Final, Protocol

import aiohttp
from multidict import CIMultiDictProxy

from forebay.origin.http.http_connection import HttpConnection
from forebay.origin.http.response_head import ResponseHead
from forebay.origin.http.transport_errors import TRANSPORT_ERRORS, ConnectionFault, error_within_body
from forebay.origin.turns.body_turns import PIECE, BodyTurns

_PIECE: Final = 256 * 1024


class TransportResponse(Protocol):
    """The interface of both kinds."""

    status: int
    reason: str
    headers: CIMultiDictProxy[str]

    @property
    def ended(self) -> bool:
        """Whether all of it was received and read. Until then it must be closed."""
        ...

    async def next_piece(self) -> bytes:
        """Returns at least one byte of the body; b"" at its end."""
        ...

    async def read_into(self, target: memoryview) -> int:
        """Reads at least one byte of the body into the front of `target`; returns how many, 0 at the end."""
        ...

    def take_whole(self, length: int) -> memoryview | None:
        """Takes the whole body of `length` bytes, if it is here already: the buffer is the caller's from then on."""
        ...

    def skip_turns(self) -> None:
        """Receives the rest of the body without body turns, as a client waits for it."""
        ...

    def close(self) -> None:
        """Drops the connection unless the response has ended."""
        ...


class PooledResponse:
    """A response on a pooled connection, which it owns until it has ended."""

    def __init__(
        self,
        connection: HttpConnection,
        head: ResponseHead,
        stall_timeout: float,
        body_turns: BodyTurns | None = None,
    ) -> None:
        """`body_turns`: the body takes its turns there; None: it takes none."""
        self.status, self.reason, self.headers = head.status, head.reason, head.headers
        self._buffered = None if connection.ended else connection.buffered_body()
        self._connection: HttpConnection | None = None if connection.ended else connection
        self._piece_size = min(_PIECE, head.body_length) if isinstance(head.body_length, int) else _PIECE
        self._stall_timeout, self._body_turns = stall_timeout, body_turns
        self._waiter: asyncio.Future[None] | None = None
        """The future of the body turn that the response waits for."""

    @property
    def ended(self) -> bool:
        """See TransportResponse."""
        return self._connection is None and self._buffered is None

    async def next_piece(self) -> bytes:
        """See TransportResponse."""
        piece = bytearray(self._piece_size)
        received = await self.read_into(memoryview(piece))
        del piece[received:]
        return bytes(piece)

    async def read_into(self, target: memoryview) -> int:
        """See TransportResponse."""
        connection, buffered = self._connection, self._buffered
        if buffered is not None:
            copied = min(len(buffered), len(target))
            target[:copied] = buffered[:copied]
            self._buffered = buffered[copied:] if copied < len(buffered) else None
            return copied
        if connection is None:
            return 0
        turns = self._body_turns
        if turns is not None and turns.is_beside_demand:
            self._waiter = turns.waiter()
            if self._waiter is not None:
                await self._waiter
                turns = self._body_turns  # None: it was to skip them meanwhile
        else:
            turns = None
        pauses = turns is not None
        if pauses:
            target = target[:PIECE]
        try:
            received = await connection.read_into(target, self._stall_timeout, pauses=pauses)
        except ConnectionFault as fault:
            raise fault.error from None
        if connection.ended:
            self._connection = None  # it may carry another response from now on
        return received

    def take_whole(self, length: int) -> memoryview | None:
        """See TransportResponse."""
        buffered = self._buffered
        if buffered is None or len(buffered) != length:
            return None
        self._buffered = None
        return buffered

    def skip_turns(self) -> None:
        """See TransportResponse."""
        self._body_turns = None
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def close(self) -> None:
        """See TransportResponse."""
        connection, self._connection, self._buffered = self._connection, None, None
        if connection is not None:
            connection.close()


class SessionResponse:
    """A response of the aiohttp session."""

    def __init__(self, response: aiohttp.ClientResponse, stall_timeout: float) -> None:
        connection = response.connection  # None: no body, or all of it is here
        if connection is not None and connection.protocol is not None:
            connection.protocol.read_timeout = stall_timeout  # from the second piece on
        self._response = response
        self._unread = b""
        self.status: int = response.status
        self.reason: str = response.reason or ""
        self.headers: CIMultiDictProxy[str] = response.headers
        self.ended = connection is None and response.content.at_eof()

    async def next_piece(self) -> bytes:
        """See TransportResponse."""
        if self._unread:
            piece, self._unread = self._unread, b""
            return piece
        try:
            piece = await self._response.content.readany()
        except TRANSPORT_ERRORS as fault:
            raise error_within_body(fault) from None
        self.ended = not piece
        return piece

    async def read_into(self, target: memoryview) -> int:
        """See TransportResponse."""
        piece = await self.next_piece()
        copied = min(len(piece), len(target))
        target[:copied] = piece[:copied]
        self._unread = piece[copied:]
        return copied

    def take_whole(self, length: int) -> memoryview | None:
        """None: reads use pooled connections."""
        return None

    def skip_turns(self) -> None:
        """Has the response take no body turns."""

    def close(self) -> None:
        """See TransportResponse."""
        self._response.close()

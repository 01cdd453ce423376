"""An answer as its transport gives it: over a wire, or through the aiohttp session that carries request bodies.

Both promise the same: nothing is decoded; no more is received than is asked for, but for some buffer's worth; a
connection whose answer was not received to its end is dropped by `close`, and never used again. What fails is an
OriginError.
"""

from typing import Final, Protocol

import aiohttp
from multidict import CIMultiDictProxy

from forebay.origin.http.http_connection import HttpConnection
from forebay.origin.http.response_head import ResponseHead
from forebay.origin.http.transport_errors import TRANSPORT_ERRORS, ConnectionFault, error_within_body

_PIECE: Final = 256 * 1024


class TransportResponse(Protocol):
    """The two kinds."""

    status: int
    reason: str
    headers: CIMultiDictProxy[str]

    @property
    def ended(self) -> bool:
        """Whether all of it was received and taken. Until then it is to be closed."""
        ...

    async def next_piece(self) -> bytes:
        """What has come, at least one byte; b"" at the end."""
        ...

    async def read_into(self, target: memoryview) -> int:
        """Some of it into the front of `target`, at least one byte; 0 at the end."""
        ...

    def read_if_buffered(self, target: memoryview) -> bool:
        """All of it into `target`, if all is here and fills it."""
        ...

    def close(self) -> None: ...


class PooledResponse:
    """See the module. Owns its wire until it has ended."""

    def __init__(self, connection: HttpConnection, head: ResponseHead, stall_timeout: float) -> None:
        self.status, self.reason, self.headers = head.status, head.reason, head.headers
        self._buffered = None if connection.ended else connection.buffered_body()
        self._connection: HttpConnection | None = None if connection.ended else connection
        self._piece_size = min(_PIECE, head.body_length) if isinstance(head.body_length, int) else _PIECE
        self._stall_timeout = stall_timeout

    @property
    def ended(self) -> bool:
        return self._connection is None and self._buffered is None

    async def next_piece(self) -> bytes:
        piece = bytearray(self._piece_size)
        received = await self.read_into(memoryview(piece))
        del piece[received:]
        return bytes(piece)

    async def read_into(self, target: memoryview) -> int:
        wire, whole = self._connection, self._buffered
        if whole is not None:
            taken = min(len(whole), len(target))
            target[:taken] = whole[:taken]
            self._buffered = whole[taken:] if taken < len(whole) else None
            return taken
        if wire is None:
            return 0
        try:
            received = await wire.read_into(target, self._stall_timeout)
        except ConnectionFault as fault:
            raise fault.error from None
        if wire.ended:
            self._connection = None  # somebody else's from now on
        return received

    def read_if_buffered(self, target: memoryview) -> bool:
        whole = self._buffered
        if whole is None or len(whole) != len(target):
            return False
        target[:] = whole
        self._buffered = None
        return True

    def close(self) -> None:
        wire, self._connection, self._buffered = self._connection, None, None
        if wire is not None:
            wire.close()


class SessionResponse:
    """See the module."""

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
        piece = await self.next_piece()
        taken = min(len(piece), len(target))
        target[:taken] = piece[:taken]
        self._unread = piece[taken:]
        return taken

    def read_if_buffered(self, target: memoryview) -> bool:  # reads go over wires
        return False

    def close(self) -> None:
        self._response.close()

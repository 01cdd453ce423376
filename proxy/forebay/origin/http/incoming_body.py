"""An answer as its transport gives it: over a wire, or through the aiohttp session that carries request bodies.

Both promise the same: nothing is decoded; no more is received than is asked for, but for some buffer's worth; a
connection whose answer was not received to its end is dropped by `close`, and never used again. What fails is an
OriginError.
"""

from typing import Final, Protocol

import aiohttp
from multidict import CIMultiDictProxy

from forebay.origin.http.http_connection import Wire
from forebay.origin.http.response_head import WireHead
from forebay.origin.http.transport_errors import FOREIGN, WireFault, within_the_body

_PIECE: Final = 256 * 1024


class Incoming(Protocol):
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

    def take(self, target: memoryview) -> bool:
        """All of it into `target`, if all is here and fills it."""
        ...

    def close(self) -> None: ...


class WireAnswer:
    """See the module. Owns its wire until it has ended."""

    def __init__(self, wire: Wire, head: WireHead, stall_timeout: float) -> None:
        self.status, self.reason, self.headers = head.status, head.reason, head.headers
        self._whole = None if wire.ended else wire.whole()
        self._wire: Wire | None = None if wire.ended else wire
        self._most = min(_PIECE, head.ends) if isinstance(head.ends, int) else _PIECE
        self._stall_timeout = stall_timeout

    @property
    def ended(self) -> bool:
        return self._wire is None and self._whole is None

    async def next_piece(self) -> bytes:
        piece = bytearray(self._most)
        received = await self.read_into(memoryview(piece))
        del piece[received:]
        return bytes(piece)

    async def read_into(self, target: memoryview) -> int:
        wire, whole = self._wire, self._whole
        if whole is not None:
            taken = min(len(whole), len(target))
            target[:taken] = whole[:taken]
            self._whole = whole[taken:] if taken < len(whole) else None
            return taken
        if wire is None:
            return 0
        try:
            received = await wire.read_into(target, self._stall_timeout)
        except WireFault as fault:
            raise fault.error from None
        if wire.ended:
            self._wire = None  # somebody else's from now on
        return received

    def take(self, target: memoryview) -> bool:
        whole = self._whole
        if whole is None or len(whole) != len(target):
            return False
        target[:] = whole
        self._whole = None
        return True

    def close(self) -> None:
        wire, self._wire, self._whole = self._wire, None, None
        if wire is not None:
            wire.close()


class SessionAnswer:
    """See the module."""

    def __init__(self, response: aiohttp.ClientResponse, stall_timeout: float) -> None:
        connection = response.connection  # None: no body, or all of it is here
        if connection is not None and connection.protocol is not None:
            connection.protocol.read_timeout = stall_timeout  # from the second piece on
        self._response = response
        self._held = b""
        self.status: int = response.status
        self.reason: str = response.reason or ""
        self.headers: CIMultiDictProxy[str] = response.headers
        self.ended = connection is None and response.content.at_eof()

    async def next_piece(self) -> bytes:
        if self._held:
            piece, self._held = self._held, b""
            return piece
        try:
            piece = await self._response.content.readany()
        except FOREIGN as fault:
            raise within_the_body(fault) from None
        self.ended = not piece
        return piece

    async def read_into(self, target: memoryview) -> int:
        piece = await self.next_piece()
        taken = min(len(piece), len(target))
        target[:taken] = piece[:taken]
        self._held = piece[taken:]
        return taken

    def take(self, target: memoryview) -> bool:  # reads go over wires
        return False

    def close(self) -> None:
        self._response.close()

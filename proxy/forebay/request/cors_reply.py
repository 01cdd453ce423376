"""The reply to a request of a web page: the CORS headers of the bucket are added to whatever the response is."""

from dataclasses import dataclass
from typing import Final

from forebay.core.buffers import Buffer
from forebay.core.heads import HeaderPairs
from forebay.protocol.exchange import ObjectReply

_REPLACED: Final = "access-control-"


@dataclass(frozen=True, slots=True)
class CorsReply:
    """Adds `headers` to the head and writes everything to `inner`. Implements forebay.protocol.exchange.ObjectReply."""

    inner: ObjectReply
    headers: HeaderPairs

    @property
    def started(self) -> bool:
        """Whether the response head has left."""
        return self.inner.started

    async def start(self, status: int, headers: HeaderPairs, length: int | None) -> None:
        """Sends the head, with these CORS headers in place of any others."""
        kept = tuple(pair for pair in headers if not pair[0].lower().startswith(_REPLACED))
        await self.inner.start(status, (*kept, *self.headers), length)

    async def write(self, buffer: Buffer | bytes) -> None:
        """Sends a piece."""
        await self.inner.write(buffer)

    def accept(self, piece: Buffer) -> int:
        """Sends from the front of a piece of an object."""
        return self.inner.accept(piece)

    @property
    def is_blocked(self) -> bool:
        """Whether the client accepts nothing for now."""
        return self.inner.is_blocked

    async def drain(self) -> None:
        """Waits while the client accepts nothing."""
        await self.inner.drain()

    async def finish(self) -> None:
        """Ends the response."""
        await self.inner.finish()

    def abort(self) -> None:
        """Breaks the connection."""
        self.inner.abort()

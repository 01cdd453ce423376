"""The reply to a request that was carried out as another one: a document takes the place of the response's body."""

from collections.abc import Callable
from dataclasses import dataclass

from forebay.core.buffers import Buffer
from forebay.core.heads import HeaderPairs
from forebay.protocol.exchange import Reply


@dataclass(slots=True)
class DocumentReply:
    """Sends to `inner` a document in place of the body of a successful response; other statuses than 200 pass
    unchanged. `translate` makes it of the response's ETag, with its status and headers; `replaced` is what the
    names of headers begin with, in lower case, that are left out of the response. Implements
    forebay.protocol.exchange.Reply."""

    inner: Reply
    translate: Callable[[str], tuple[int, HeaderPairs, bytes]]
    replaced: tuple[str, ...]
    _document: bytes | None = None

    @property
    def started(self) -> bool:
        """Whether the response head has left."""
        return self.inner.started

    async def start(self, status: int, headers: HeaderPairs, length: int | None) -> None:
        """Sends the head that goes with the document."""
        if status != 200:
            await self.inner.start(status, headers, length)
            return
        etag = next((value for name, value in headers if name.lower() == "etag"), "")
        status, added, self._document = self.translate(etag)
        kept = tuple(pair for pair in headers if not pair[0].lower().startswith(self.replaced))
        await self.inner.start(status, (*kept, *added), None if status == 204 else len(self._document))

    async def write(self, buffer: Buffer | bytes) -> None:
        """Sends a piece of a response that passes unchanged."""
        if self._document is None:
            await self.inner.write(buffer)

    async def finish(self) -> None:
        """Sends the document, if there is one, and ends the response."""
        if self._document:
            await self.inner.write(self._document)
        await self.inner.finish()

    def abort(self) -> None:
        """Breaks the connection."""
        self.inner.abort()

"""The origin's answer on its way back to the client.

    origin ──> head and body as they arrive ──> client               one piece is in memory at a time

The outcome of most answers is their status. That of CompleteMultipartUpload, CopyObject and DeleteObjects is in their
body: the origin may send 200 early, then blanks that keep the connection alive, then the outcome as a document. The
blanks pass at once; the document is held back until the write is settled.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_CompleteMultipartUpload.html
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from forebay.core.errors import OriginBroken
from forebay.core.heads import HeaderPairs
from forebay.core.request_record import RequestRecord
from forebay.origin.origin_response import OriginResponse
from forebay.protocol.exchange import Reply, Request
from forebay.protocol.forwarded_headers import relayed_headers
from forebay.protocol.xml.s3_documents import with_location

RESULT_LIMIT: Final = 4 << 20
"""Bytes of a result document. A batch delete of 1,000 long keys has about two million."""
_BYPASS: Final = ("x-forebay-cache", "bypass")

# What S3 sends to keep a connection alive while it still works: the XML declaration, once, and blanks.
_KEEP_ALIVE: Final = re.compile(rb"\s*(?:<\?xml[^>]*\?>)?\s*")

Settle: TypeAlias = Callable[[int, bytes], Awaitable[HeaderPairs]]
"""Settles a write by the status and result document of its answer, before the client has the end of it. Returns
response headers for the client."""


@dataclass(frozen=True, slots=True)
class AnswerRelay:
    """Relays one answer."""

    answer: OriginResponse
    request: Request
    reply: Reply
    record: RequestRecord

    async def stream(self, extra: HeaderPairs = ()) -> None:
        """Relays the answer as it arrives, with those of the `extra` headers that the origin has not sent. Its head
        leaves with its first byte. Raises OriginBroken when it ends early."""
        piece = await self.answer.next_piece() if self.request.method != "HEAD" else b""
        await self._start(extra, self._length())
        while piece:
            await self.reply.write(piece)
            self.record.count_sent("origin", len(piece))
            piece = await self.answer.next_piece()
        await self.reply.finish()

    async def document(self, settle: Settle, location: str | None = None) -> None:
        """Relays an answer whose outcome is in its body. Its document, and its head if nothing has left yet, are sent
        when `settle` has returned. `location`: the object's URL as the client knows it, for the document."""
        result = bytearray()
        while piece := await self.answer.next_piece():
            result += piece
            if len(result) > RESULT_LIMIT:
                raise OriginBroken("the result document is too large")
            if _KEEP_ALIVE.fullmatch(result):
                await self._send(bytes(result), (), self._length())
                result.clear()
        extra = await settle(self.answer.status, bytes(result))
        document, length = bytes(result), self._length()
        if location is not None and not (self.reply.started and length is not None):
            document = with_location(document, location)
            length = len(document)
        await self._send(document, extra, length)
        await self.reply.finish()

    async def _send(self, buffer: bytes, extra: HeaderPairs, length: int | None) -> None:
        if not self.reply.started:
            await self._start(extra, length)
        await self.reply.write(buffer)
        self.record.count_sent("origin", len(buffer))

    async def _start(self, extra: HeaderPairs, length: int | None) -> None:
        passed = relayed_headers(self.answer.headers, oss=self.request.oss_request is not None)
        added = (pair for pair in extra if pair[0] not in self.answer.headers)
        await self.reply.start(self.answer.status, (*passed, *added, _BYPASS), length)

    def _length(self) -> int | None:
        length = self.answer.headers.get("Content-Length")
        return int(length) if length is not None and length.isdecimal() else None

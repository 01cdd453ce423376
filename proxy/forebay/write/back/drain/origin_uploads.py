"""Uploads at the origin: the requests by which parts of the journal become parts there.

create ──> its id there ──> send_part, some at a time ──┬──> completed (persister, or the client's own request)
                                                        └──> abort
"""

from collections.abc import AsyncIterator
from typing import Final

from forebay.core.buffers import Piece
from forebay.core.byte_ranges import Span
from forebay.core.byte_rate import ByteRate
from forebay.core.errors import ForebayError, OriginBroken
from forebay.core.heads import HeaderPairs
from forebay.core.names import ObjectName
from forebay.core.requester import BACKGROUND, requester
from forebay.origin.origin_request import EMPTY_SHA256, UNSIGNED_PAYLOAD, OriginRequest
from forebay.origin.origins import Origins
from forebay.policy.acceptable_writes import has_opaque_etags
from forebay.protocol.xml.s3_documents import upload_id
from forebay.storage.journal.pending_objects import BodyPart, PendingObjects
from forebay.write.back.drain.persist_outcome import PersistOutcome, is_another, judge_status
from forebay.write.back.pending.pending_uploads import PendingPart

PARALLEL_PARTS: Final = 4
"""Parts of one upload under way at a time."""
DOCUMENT: Final = 64 << 10
"""Bytes of an answer that are read."""
READ_SIZE: Final = 1 << 20
"""Bytes of a body that are read at a time."""
_LEAST_PIECE: Final = 64 << 10
_PIECES_PER_SECOND: Final = 16
"""Pieces per second of a body that is sent at a rate, at least."""


class UploadRefused(Exception):
    """The origin has refused a step of an upload."""

    def __init__(self, outcome: PersistOutcome) -> None:
        super().__init__(outcome.reason)
        self.outcome = outcome


class OriginUploads:
    """Requests of uploads at the origin. Each raises UploadRefused, OriginError, Throttled, S3Error."""

    def __init__(self, origins: Origins, pending: PendingObjects, rate: ByteRate | None = None) -> None:
        """`rate`: at which parts are sent, where no client waits for that."""
        self._origins = origins
        self._pending = pending
        self._rate = rate

    async def create(self, name: ObjectName, headers: HeaderPairs) -> str:
        """Returns the id of a new upload."""
        created = OriginRequest(
            "POST", *name, query=(("uploads", ""),), headers=headers, operation="CreateMultipartUpload"
        )
        found = upload_id(await self._send(name, created))
        if not found:
            raise OriginBroken("an upload without an id")
        return found

    async def send_part(self, name: ObjectName, origin_id: str, part: PendingPart) -> str:
        """Sends a part of the journal. Returns its ETag there. Raises OSError and BodyDamaged, too."""
        request = OriginRequest(
            "PUT",
            *name,
            query=(("partNumber", str(part.part.origin_number)), ("uploadId", origin_id)),
            headers=part.part.headers,
            body=self._pieces_of(part) if part.part.size else None,
            content_length=part.part.size,
            payload_hash=(part.part.sha256 or UNSIGNED_PAYLOAD) if part.part.size else EMPTY_SHA256,
            operation="UploadPart",
        )
        turn = self._origins.uploads(name.bucket).turn(part.part.size)
        async with turn, await self._origins.send(request) as answer:
            document, etag = await answer.read(DOCUMENT), answer.headers.get("ETag", "")
            if answer.status != 200:
                raise UploadRefused(judge_status(answer.status, document))
            is_opaque = has_opaque_etags(answer.headers)
        if not is_opaque and is_another(etag, part.part.etag):
            raise OriginBroken(f"a part has the ETag {etag} in place of {part.part.etag}")
        return etag

    def _pieces_of(self, part: PendingPart) -> AsyncIterator[Piece]:
        return paced(pieces_of(self._pending, part.bytes, part.part.size), self._rate)

    async def abort(self, name: ObjectName, origin_id: str) -> bool:
        """Aborts an upload, if that is possible. Returns whether it is gone. Never raises."""
        request = OriginRequest("DELETE", *name, query=(("uploadId", origin_id),), operation="AbortMultipartUpload")
        try:
            await self._send(name, request)
        except UploadRefused as refused:
            return refused.outcome.status == 404
        except ForebayError:
            return False  # the origin's own rules for unfinished uploads remove it
        return True

    async def has_ended(self, name: ObjectName, origin_id: str) -> bool:
        """Returns whether the origin is known to have the upload no more. Never raises."""
        query = (("max-parts", "1"), ("uploadId", origin_id))
        try:
            await self._send(name, OriginRequest("GET", *name, query=query, operation="ListParts"))
        except UploadRefused as refused:
            return refused.outcome.status == 404
        except ForebayError:
            return False
        return False

    async def _send(self, name: ObjectName, request: OriginRequest) -> bytes:
        async with self._origins.uploads(name.bucket).turn(0), await self._origins.send(request) as answer:
            document = await answer.read(DOCUMENT)
            if answer.status >= 300:
                raise UploadRefused(judge_status(answer.status, document))
            return document


def paced(pieces: AsyncIterator[Piece], rate: ByteRate | None) -> AsyncIterator[Piece]:
    """Yields the bytes of a body that is sent to the origin, not faster than `rate` with all others. A client that
    waits for it does not wait for the rate as well. Raises what `pieces` raises."""
    if rate is None or requester.get() != BACKGROUND:
        return pieces
    return _paced(pieces, rate)


async def _paced(pieces: AsyncIterator[Piece], rate: ByteRate) -> AsyncIterator[Piece]:
    """Yields pieces so small that each of many bodies goes on every few seconds: an origin ends a request that is
    silent for longer (S3: 20 s)."""
    step = max(_LEAST_PIECE, min(READ_SIZE, rate.rate // _PIECES_PER_SECOND))
    async for read in pieces:
        content = memoryview(read)
        for at in range(0, len(content), step):
            piece = content[at : at + step]
            await rate.acquire(len(piece))
            yield piece


async def pieces_of(pending: PendingObjects, parts: tuple[BodyPart, ...], size: int) -> AsyncIterator[Piece]:
    """Yields the bytes of a body in the journal. Raises OSError, BodyDamaged."""
    for start in range(0, size, READ_SIZE):
        piece = await pending.read_parts(parts, Span(start, min(start + READ_SIZE, size)))
        yield piece

"""Upload preparation: what of a completed upload needs no order at the origin, as nobody sees it there.

    created ──> parts, some at a time ──> PreparedUpload ──> completed, in its turn (persister)
                  └ one fails: the others are cancelled, and the upload is aborted

An attempt has an upload of its own, so that a part of an earlier one that arrives late is nobody's.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from forebay.core.byte_ranges import Span
from forebay.core.errors import ForebayError, OriginBroken
from forebay.core.names import ObjectName
from forebay.origin.origin_request import EMPTY_SHA256, UNSIGNED_PAYLOAD, OriginRequest
from forebay.origin.origins import Origins
from forebay.policy.acceptable_writes import has_opaque_etags
from forebay.protocol.xml.s3_documents import UploadedPart, upload_id
from forebay.storage.journal.body_file import BodyDamaged
from forebay.storage.journal.pending_objects import BodyPart, PendingObjects
from forebay.write.back.accepted_write import AcceptedWrite
from forebay.write.back.pending_uploads import PendingPart, PendingUploads
from forebay.write.back.persist_outcome import PersistOutcome, is_another, judge_failure, judge_status

PARALLEL_PARTS: Final = 4
"""Parts of one upload under way at a time."""
DOCUMENT: Final = 64 << 10
"""Bytes of an answer that are read."""
_PIECE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class PreparedUpload:
    """An upload at the origin with all its parts."""

    upload_id: str
    parts: list[UploadedPart]


class _Refused(Exception):
    def __init__(self, outcome: PersistOutcome) -> None:
        self.outcome = outcome


class UploadPreparation:
    """Prepares uploads."""

    def __init__(self, origins: Origins, pending: PendingObjects, uploads: PendingUploads) -> None:
        self._origins = origins
        self._pending = pending
        self._uploads = uploads

    async def prepare(self, write: AcceptedWrite) -> PreparedUpload | PersistOutcome:
        """Returns an upload with all parts of a completion, or what became of the attempt. Never raises."""
        try:
            return await self._prepare(write)
        except _Refused as refused:
            return refused.outcome
        except (ForebayError, OSError) as error:
            return judge_failure(error)

    async def _prepare(self, write: AcceptedWrite) -> PreparedUpload:
        created = OriginRequest(
            "POST", *write.name, query=(("uploads", ""),), headers=write.headers, operation="CreateMultipartUpload"
        )
        origin_id = upload_id(await self._ask(write.name, created)) or ""
        if not origin_id:
            raise OriginBroken("an upload without an id")
        limit = asyncio.Semaphore(PARALLEL_PARTS)

        async def send(part: PendingPart) -> UploadedPart:
            async with limit:
                return UploadedPart(part.part.number, await self._send_part(write.name, origin_id, part))

        try:
            parts = [self._uploads.parts[each.record] for each in write.parts]
        except KeyError:
            raise BodyDamaged("a part is missing") from None
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(send(part)) for part in parts]
        except BaseExceptionGroup as failures:
            await self.abort(write.name, origin_id)
            raise failures.exceptions[0] from None
        return PreparedUpload(origin_id, [task.result() for task in tasks])

    async def _send_part(self, name: ObjectName, origin_id: str, part: PendingPart) -> str:
        request = OriginRequest(
            "PUT",
            *name,
            query=(("partNumber", str(part.part.number)), ("uploadId", origin_id)),
            headers=part.part.headers,
            body=pieces_of(self._pending, part.bytes, part.part.size) if part.part.size else None,
            content_length=part.part.size,
            payload_hash=(part.part.sha256 or UNSIGNED_PAYLOAD) if part.part.size else EMPTY_SHA256,
            operation="UploadPart",
        )
        turn = self._origins.uploads(name.bucket).turn(part.part.size)
        async with turn, await self._origins.send(request) as answer:
            document, etag = await answer.read(DOCUMENT), answer.headers.get("ETag", "")
            if answer.status != 200:
                raise _Refused(judge_status(answer.status, document))
            is_opaque = has_opaque_etags(answer.headers)
        if not is_opaque and is_another(etag, part.part.etag):
            raise OriginBroken(f"a part has the ETag {etag} in place of {part.part.etag}")
        return etag

    async def abort(self, name: ObjectName, origin_id: str) -> None:
        """Aborts an upload at the origin, if that is possible."""
        request = OriginRequest("DELETE", *name, query=(("uploadId", origin_id),), operation="AbortMultipartUpload")
        try:
            await self._ask(name, request)
        except (ForebayError, _Refused):
            return  # the origin's own rules for unfinished uploads remove it

    async def _ask(self, name: ObjectName, request: OriginRequest) -> bytes:
        async with self._origins.uploads(name.bucket).turn(0), await self._origins.send(request) as answer:
            document = await answer.read(DOCUMENT)
            if answer.status >= 300:
                raise _Refused(judge_status(answer.status, document))
            return document


async def pieces_of(pending: PendingObjects, parts: tuple[BodyPart, ...], size: int) -> AsyncIterator[bytes]:
    """Yields the bytes of a body in the journal. Raises OSError, BodyDamaged."""
    for start in range(0, size, _PIECE):
        piece = await pending.read_parts(parts, Span(start, min(start + _PIECE, size)))
        yield piece  # type: ignore[misc] # a socket accepts any buffer

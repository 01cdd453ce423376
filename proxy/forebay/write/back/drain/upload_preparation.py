"""Upload preparation: the steps of a completed upload that need no order at the origin, as nobody sees them there.

    created ──> parts, some at a time ──> PreparedUpload ──> completed, in its turn (persister)
                  └ one fails: the others are cancelled, and the upload is aborted

An attempt has an upload of its own, so that a part of an earlier one that arrives late is nobody's.
"""

import asyncio
from dataclasses import dataclass

from forebay.core.errors import ForebayError
from forebay.protocol.body.part_checksums import listed_checksums
from forebay.protocol.xml.s3_documents import UploadedPart
from forebay.storage.journal.body_file import BodyDamaged
from forebay.write.back.drain.origin_uploads import PARALLEL_PARTS, OriginUploads, UploadRefused
from forebay.write.back.drain.own_uploads import OwnUploads
from forebay.write.back.drain.persist_outcome import PersistOutcome, judge_failure
from forebay.write.back.pending.accepted_write import AcceptedWrite
from forebay.write.back.pending.pending_uploads import PendingPart, PendingUploads


@dataclass(frozen=True, slots=True)
class PreparedUpload:
    """An upload at the origin with all its parts."""

    upload_id: str
    parts: list[UploadedPart]


class UploadPreparation:
    """Prepares uploads."""

    def __init__(self, at_origin: OriginUploads, uploads: PendingUploads, own: OwnUploads) -> None:
        self._at_origin = at_origin
        self._uploads = uploads
        self._own = own

    async def prepare(self, write: AcceptedWrite) -> PreparedUpload | PersistOutcome:
        """Returns an upload with all parts of a completion, or the outcome of the failed attempt. Never raises."""
        try:
            return await self._prepare(write)
        except UploadRefused as refused:
            return refused.outcome
        except (ForebayError, OSError) as error:
            return judge_failure(error)

    async def _prepare(self, write: AcceptedWrite) -> PreparedUpload:
        try:
            parts = [self._uploads.parts[each.record] for each in write.parts]
        except KeyError:
            raise BodyDamaged("a part is missing") from None
        origin_id = await self._at_origin.create(write.name, write.headers)
        await self._own.add(write.name, origin_id)
        limit = asyncio.Semaphore(PARALLEL_PARTS)

        async def send(part: PendingPart) -> UploadedPart:
            async with limit:
                etag = await self._at_origin.send_part(write.name, origin_id, part)
                return UploadedPart(part.part.origin_number, etag, listed_checksums(write.headers, part.part.headers))

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(send(part)) for part in parts]
        except BaseExceptionGroup as failures:
            await self._abort(write, origin_id)
            raise failures.exceptions[0] from None
        return PreparedUpload(origin_id, [task.result() for task in tasks])

    async def abort(self, write: AcceptedWrite, prepared: PreparedUpload) -> None:
        """Aborts a prepared upload. Never raises."""
        await self._abort(write, prepared.upload_id)

    async def has_ended(self, write: AcceptedWrite, prepared: PreparedUpload) -> bool:
        """Returns whether the origin is known to have a prepared upload no more. Never raises."""
        return await self._at_origin.has_ended(write.name, prepared.upload_id)

    async def end(self, prepared: PreparedUpload) -> None:
        """Notes that a prepared upload was completed."""
        await self._own.end(prepared.upload_id)

    async def _abort(self, write: AcceptedWrite, origin_id: str) -> None:
        if await self._at_origin.abort(write.name, origin_id):
            await self._own.end(origin_id)

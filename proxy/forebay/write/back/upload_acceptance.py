"""Acceptance of multipart uploads, from their creation to their end, as the origin would answer them."""

from collections.abc import Callable, Sequence
from hashlib import md5
from typing import Final

from forebay.core.cooperative import run_cooperatively
from forebay.core.errors import S3Error
from forebay.policy.drain_order import WriteInterval
from forebay.protocol.body.payload import HashedPayload
from forebay.protocol.conditions import same_etag
from forebay.protocol.forwarded_headers import forwarded_headers
from forebay.protocol.xml.s3_documents import (
    UploadedPart,
    completed_document,
    created_document,
    read_parts_cooperatively,
)
from forebay.write.back.accepted_write import (
    AbortedUpload,
    AcceptedPart,
    AcceptedUpload,
    AcceptedWrite,
    CompletedPart,
)
from forebay.write.back.pending_uploads import PendingPart, PendingUpload, PendingUploads, new_upload_id
from forebay.write.back.record_writer import DEFAULT_TYPE, XML, RecordWriter, facts_of, origin_headers
from forebay.write.forward_request import WriteContext
from forebay.write.forwarder import Forwarder

DOCUMENT_LIMIT: Final = 4 << 20
"""Bytes of a completion."""
SMALLEST_PART: Final = 5 << 20
"""Bytes of a part but the last, at the origin."""


class UploadAcceptance:
    """Accepts the requests of uploads. `has_room(size)`: whether the journal takes so many bytes more."""

    def __init__(
        self, writer: RecordWriter, uploads: PendingUploads, forwarder: Forwarder, has_room: Callable[[int], bool]
    ) -> None:
        self._writer = writer
        self._uploads = uploads
        self._forwarder = forwarder
        self._has_room = has_room

    async def create(self, context: WriteContext) -> None:
        """Accepts a CreateMultipartUpload. Raises S3Error."""
        forward = context.forward
        sent = forwarded_headers(forward.request.headers)
        headers = sent if any(name.lower() == "content-type" for name, _ in sent) else (*sent, DEFAULT_TYPE)
        upload = AcceptedUpload(forward.target.name, new_upload_id(), headers, self._writer.clock())
        await self._writer.write(context, upload)
        await self._writer.answer(context, 200, (XML,), created_document(forward.target.name, upload.upload_id))

    async def part(self, context: WriteContext) -> None:
        """Accepts an UploadPart. Raises S3Error, Throttled."""
        forward, number = context.forward, context.forward.part_number
        self._upload_of(context)
        if number is None or not 1 <= number <= 10_000:
            raise S3Error("InvalidArgument", "A part number is from 1 to 10000.", ArgumentName="partNumber")
        if not self._has_room(forward.length or 0):
            raise S3Error("SlowDown", "The journal is full. Please try again.")
        async with self._writer.stored(context) as (body, stored):
            headers = origin_headers(context, body, stored, is_part=True)
            form = body.form if body is not None else None
            part = AcceptedPart(
                forward.target.name,
                forward.upload.upload_id,
                number,
                stored.etag,
                stored.digest.size,
                headers,
                form.sha256 if isinstance(form, HashedPayload) else None,
                stored.bodies,
                self._writer.clock(),
            )
            record = await self._writer.append(part, stored.payload)
        await self._writer.publish(part, record, stored.payload)
        await self._writer.answer_stored(context, stored, headers)

    async def complete(self, context: WriteContext) -> None:
        """Accepts a CompleteMultipartUpload. Raises S3Error."""
        forward, decision, began, now = context.forward, context.decision, self._writer.stamp(), self._writer.clock()
        document = await self._forwarder.read_document(forward, DOCUMENT_LIMIT)
        if any(name.lower().startswith("if-") for name in forward.request.headers):
            raise S3Error("NotImplemented", "The completion of this upload can't have a condition.")
        listed = await run_cooperatively(read_parts_cooperatively(document))
        upload = self._upload_of(context)
        parts = _listed_parts(upload, listed)
        etags = b"".join(bytes.fromhex(part.part.etag.strip('"')) for part in parts)
        etag = f'"{md5(etags, usedforsecurity=False).hexdigest()}-{len(parts)}"'
        write = AcceptedWrite(
            "complete",
            forward.target.name,
            WriteInterval(began, self._writer.stamp()),
            upload.upload.headers,
            facts_of(etag, sum(part.part.size for part in parts), now, upload.upload.headers),
            decision.block if decision is not None else 0,
            now,
            upload_id=upload.upload.upload_id,
            parts=tuple(CompletedPart(part.part.number, part.part.etag, part.record) for part in parts),
            replaces=self._writer.seen(forward.target.name),
        )
        await self._writer.write(context, write, document)
        answer = completed_document(forward.target.name, etag, forward.request.url)
        await self._writer.answer(context, 200, (XML,), answer)

    async def abort(self, context: WriteContext) -> None:
        """Accepts an AbortMultipartUpload. Raises S3Error."""
        upload = self._upload_of(context)
        await self._writer.write(context, AbortedUpload(upload.upload.name, upload.upload.upload_id))
        await self._writer.answer(context, 204)

    def _upload_of(self, context: WriteContext) -> PendingUpload:
        key = context.forward.upload
        upload = self._uploads.find(key.name, key.upload_id)
        if upload is None:
            raise S3Error("NoSuchUpload", UploadId=key.upload_id)
        return upload


def _listed_parts(upload: PendingUpload, listed: Sequence[UploadedPart]) -> list[PendingPart]:
    """The parts that a completion lists. Raises S3Error as the origin would."""
    if not listed:
        raise S3Error("MalformedXML")
    numbers = [part.number for part in listed]
    if numbers != sorted(set(numbers)):
        raise S3Error("InvalidPartOrder")
    found = []
    for each in listed:
        part = upload.parts.get(each.number)
        if part is None or not same_etag(part.part.etag, each.etag):
            raise S3Error("InvalidPart")
        found.append(part)
    if any(part.part.size < SMALLEST_PART for part in found[:-1]):
        raise S3Error("EntityTooSmall")
    return found

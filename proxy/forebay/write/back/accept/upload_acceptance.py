"""Acceptance of multipart uploads, from their creation to their end, as the origin would answer them."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Final

from forebay.core.cooperative import run_cooperatively
from forebay.core.errors import S3Error
from forebay.core.heads import DURABLE_LOCAL, DURABLE_ORIGIN, HeaderPairs
from forebay.policy.drain_order import WriteInterval
from forebay.protocol.body.checksum_headers import checksum_elements, with_checksum_type
from forebay.protocol.body.part_checksums import (
    algorithm_of,
    check_listed,
    check_part,
    created_facts,
    multipart_etag,
    object_checksum,
)
from forebay.protocol.body.payload import HashedPayload
from forebay.protocol.conditions import same_etag
from forebay.protocol.dates import format_document_time
from forebay.protocol.xml.s3_documents import (
    UploadedPart,
    completed_document,
    copied_part_document,
    created_document,
    read_parts_cooperatively,
)
from forebay.storage.journal.log_writer import RecordId
from forebay.write.back.accept.body_store import HashedSource, StoredBody
from forebay.write.back.accept.copy_sources import CopySources
from forebay.write.back.accept.joined_parts import JoinedParts
from forebay.write.back.accept.record_writer import XML, RecordWriter, facts_of, md5_header, with_type
from forebay.write.back.accept.upload_expiry import UploadExpiry
from forebay.write.back.accept.upload_room import UploadRoom
from forebay.write.back.drain.origin_completion import CompletionAtOrigin, conditions_of
from forebay.write.back.pending.accepted_write import (
    AbortedUpload,
    AcceptedPart,
    AcceptedUpload,
    AcceptedWrite,
    CompletedPart,
    OriginCompletion,
)
from forebay.write.back.pending.pending_uploads import (
    PendingPart,
    PendingUpload,
    PendingUploads,
    new_upload_id,
)
from forebay.write.body_digest import BodyDigest, combining_digests, crc_header, crc_in
from forebay.write.forward_request import WriteContext
from forebay.write.forwarder import Forwarder
from forebay.write.repeated_completion import RepeatedCompletions, completed_etag, completion_digest

DOCUMENT_LIMIT: Final = 4 << 20
"""Bytes of a completion."""
MOVED: Final = "its upload goes on at the origin"
"""Why a request of an upload goes through."""
_ENCRYPTIONS: Final = ("x-amz-server-side-encryption", "x-amz-copy-source-server-side-encryption")


class UploadAcceptance:
    """Accepts the requests of uploads."""

    def __init__(
        self,
        writer: RecordWriter,
        uploads: PendingUploads,
        forwarder: Forwarder,
        room: UploadRoom,
        sources: CopySources,
        completion: CompletionAtOrigin,
        is_refused: Callable[[RecordId], Awaitable[bool]],
        expiry: UploadExpiry,
        joined: JoinedParts,
        deciding: Callable[[WriteContext], AbstractAsyncContextManager[None]],
        repeats: RepeatedCompletions,
    ) -> None:
        """`is_refused`: whether the draining worker refuses a completion, or an abort. Raises S3Error. `deciding`: a
        context in which no other request of the node has the origin decide about the completion of an upload. Raises
        Throttled, S3Error, ConnectionError."""
        self._writer = writer
        self._uploads = uploads
        self._forwarder = forwarder
        self._room = room
        self._sources = sources
        self._completion = completion
        self._is_refused = is_refused
        self._expiry = expiry
        self._joined = joined
        self._deciding = deciding
        self._repeats = repeats

    async def obstacle(self, context: WriteContext) -> str | None:
        """Returns why a request of an upload goes on to the origin, in words; None: it is accepted, or refused, here.
        A part has its room from here on. Raises S3Error, OriginError, Throttled."""
        key = context.forward.upload
        upload = self._uploads.find(key.name, key.upload_id)
        if upload is None:
            return None
        if context.forward.operation.name == "UploadPart":
            await self._room.reserve(upload, context.forward.content_size or 0)
        return MOVED if upload.origin_id else None

    async def create(self, context: WriteContext) -> None:
        """Accepts a CreateMultipartUpload. Raises S3Error."""
        forward = context.forward
        headers = with_type(self._writer.sent_headers(context))
        upload_id = new_upload_id(self._writer.stamp())
        await self._writer.write(context, AcceptedUpload(forward.target.name, upload_id, headers, self._writer.clock()))
        facts = created_facts(headers)
        await self._writer.answer(context, 200, (XML, *facts), created_document(forward.target.name, upload_id))

    async def part(self, context: WriteContext) -> None:
        """Accepts an UploadPart. Raises S3Error, Throttled."""
        with self._expiry.receiving(context.forward.upload.upload_id):
            await self._part(context)

    async def _part(self, context: WriteContext) -> None:
        upload = self._check_part(context)
        body, stored = await self._writer.receive(context)
        async with self._writer.kept(context, stored) as kept:
            headers = self._writer.origin_headers(context, body, stored, is_part=True)
            if self._writer.has_checksums(context):
                check_part(upload.upload.headers, headers)
            form = body.form if body is not None else None
            part = self._part_of(context, stored, headers, form.sha256 if isinstance(form, HashedPayload) else None)
            record = await kept.append(part)
        await self._writer.answer_stored(context, part, record, stored, headers)

    async def copied_part(self, context: WriteContext) -> bool:
        """Accepts an UploadPartCopy: the bytes are read now. False: there was no room for them, and its upload goes on
        at the origin. Raises S3Error, OriginError, Throttled."""
        with self._expiry.receiving(context.forward.upload.upload_id):
            return await self._copied_part(context)

    async def _copied_part(self, context: WriteContext) -> bool:
        upload = self._check_part(context)
        source = await self._sources.open(context.forward)
        await self._room.reserve(upload, source.size)
        if upload.origin_id:
            return False
        algorithm = algorithm_of(upload.upload.headers)
        hashed = HashedSource(source, algorithm) if algorithm is not None else None
        stored = await self._writer.store(context, hashed or source)
        async with self._writer.kept(context, stored) as kept:
            checksums = (hashed.header,) if hashed is not None else ()
            part = self._part_of(context, stored, (md5_header(stored), *checksums), None)
            record = await kept.append(part)
        await self._writer.publish(part, record, stored.payload)
        document = copied_part_document(
            stored.etag, format_document_time(part.accepted_at), checksum_elements(checksums)
        )
        await self._writer.answer(context, 200, (XML,), document)
        return True

    def _check_part(self, context: WriteContext) -> PendingUpload:
        upload = self._upload_of(context)
        number = context.forward.part_number
        if number is None or not 1 <= number <= 10_000:
            raise S3Error("InvalidArgument", "A part number is from 1 to 10000.", ArgumentName="partNumber")
        for name in context.forward.request.headers:
            if name.lower().startswith(_ENCRYPTIONS):  # a key must not be written down
                raise S3Error("InvalidRequest", f"The upload was created without {name}.")
        return upload

    def _part_of(
        self, context: WriteContext, stored: StoredBody, headers: HeaderPairs, sha256: str | None
    ) -> AcceptedPart:
        return AcceptedPart(
            context.forward.target.name,
            context.forward.upload.upload_id,
            context.forward.part_number or 0,
            stored.etag,
            stored.digest.size,
            headers,
            sha256,
            stored.bodies,
            self._writer.clock(),
            stored.digest.crc,
            self._writer.stamp(),
        )

    async def complete(self, context: WriteContext) -> None:
        """Accepts a CompleteMultipartUpload. Raises S3Error."""
        document = await self._forwarder.read_document(context.forward, DOCUMENT_LIMIT)
        conditions = conditions_of(context.forward.request.headers)
        if conditions is None and not self._room.is_ending:
            await self._complete(context, document, None)
            return
        async with self._deciding(context):  # one that is repeated meanwhile, in any worker, is answered as this one
            await self._complete(context, document, conditions or ())

    async def _complete(self, context: WriteContext, document: bytes, conditions: HeaderPairs | None) -> None:
        """`conditions`: of the origin, which decides; None: the journal takes it."""
        forward, decision, began, now = context.forward, context.decision, self._writer.stamp(), self._writer.clock()
        listed = await run_cooperatively(read_parts_cooperatively(document))
        request = completion_digest(document, conditions)
        if await self._is_answered_again(context, request, listed):
            return
        upload = self._upload_of(context)
        with self._expiry.receiving(upload.upload.upload_id):
            parts = await self._joined.join(context, _listed_parts(upload, listed))
        digests = (BodyDigest(part.part.crc, part.part.size) for part in parts)
        digest = await run_cooperatively(combining_digests(digests))
        sums = [(part.part.headers, part.part.size) for part in parts]
        checksum = await run_cooperatively(object_checksum(upload.upload.headers, sums))
        etag = self._writer.etag(context, multipart_etag(part.part.etag for part in parts))
        write = AcceptedWrite(
            "complete",
            forward.target.name,
            WriteInterval(began, self._writer.stamp()),
            upload.upload.headers,
            facts_of(etag, sum(part.part.size for part in parts), now, (*upload.upload.headers, *checksum), digest),
            decision.block if decision is not None else 0,
            now,
            upload_id=upload.upload.upload_id,
            parts=tuple(CompletedPart(part.part.origin_number, part.part.etag, part.record) for part in parts),
            replaces=self._writer.seen(forward.target.name),
        )
        durable = DURABLE_LOCAL
        if upload.origin_id:
            raise S3Error("SlowDown", "The upload goes on at the origin. Please try again.")
        if conditions is None:
            record = await self._writer.write(context, write, document)
            if await self._is_refused(record):
                raise S3Error("NoSuchUpload", UploadId=write.upload_id)
        else:
            origin_etag, origin_checksum = await self._completion.complete(context, write, conditions)
            etag, checksum, durable = origin_etag or etag, origin_checksum or checksum, DURABLE_ORIGIN
            made = OriginCompletion(etag, (*checksum, *crc_header(digest)), request)
            with suppress(S3Error):  # what is left of the upload here expires
                await self._writer.write(context, AbortedUpload(write.name, write.upload_id, made))
        await self._answer_completion(context, etag, (*checksum, *crc_header(digest)), durable)

    async def _answer_completion(
        self, context: WriteContext, etag: str, sums: HeaderPairs, durable: tuple[str, str]
    ) -> None:
        """`sums`: the checksums and the CRC-64 of the object, as headers."""
        forward, checksums = context.forward, checksum_elements(with_checksum_type(sums))
        crc = crc_in(sums) if forward.speaks_oss else ()
        answer = completed_document(forward.target.name, etag, forward.request.url, checksums)
        await self._writer.answer(context, 200, (XML, *crc), answer, durable=durable)

    async def _is_answered_again(self, context: WriteContext, request: str, listed: Sequence[UploadedPart]) -> bool:
        """Answers a completion that is repeated, as its client has missed the answer. Returns whether it is. Raises
        S3Error. `request`: what its client sent (`completion_digest`); `listed`: the parts in it."""
        key = context.forward.upload
        first = self._uploads.completion(key.upload_id, request)
        if first is None or first.name != key.name:
            return await self._is_at_origin(context, listed)
        if not first.is_at_origin and await self._is_refused(first.record):
            raise S3Error("NoSuchUpload", UploadId=key.upload_id)
        durable = DURABLE_ORIGIN if first.is_at_origin else DURABLE_LOCAL
        await self._answer_completion(context, first.etag, first.sums, durable)
        return True

    async def _is_at_origin(self, context: WriteContext, listed: Sequence[UploadedPart]) -> bool:
        """Answers the completion of an upload that is not remembered, if the origin has its object: an earlier run has
        carried it out. Returns whether it does."""
        key = context.forward.upload
        if self._uploads.find(*key) is not None or self._uploads.is_completed(key.upload_id):
            return False
        found = await self._repeats.find(key.name, None, completed_etag(listed))
        if found is not None:
            await self._answer_completion(context, found[0], crc_in(found[1]), DURABLE_ORIGIN)
        return found is not None

    async def abort(self, context: WriteContext) -> None:
        """Accepts an AbortMultipartUpload. Raises S3Error."""
        upload = self._upload_of(context)
        record = await self._writer.write(context, AbortedUpload(upload.upload.name, upload.upload.upload_id))
        if await self._is_refused(record):
            raise S3Error("NoSuchUpload", UploadId=upload.upload.upload_id)
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
        check_listed(part.part.headers, each)
        found.append(part)
    return found

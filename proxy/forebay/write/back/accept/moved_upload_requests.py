"""Moved upload requests: those of uploads that go on at the origin, by the id that their clients know.

    UploadPart, UploadPartCopy   once the part of its number that the journal has was carried: the later one counts
    CompleteMultipartUpload      once all parts were carried
    ListParts                    likewise; the origin's list, with the client's id
    AbortMultipartUpload         at once

https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListParts.html
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from forebay.core.errors import MalformedXml, OriginBroken, S3Error, Throttled
from forebay.core.s3_codes import S3_CODES
from forebay.origin.origin_request import OriginRequest
from forebay.origin.origins import Origins
from forebay.protocol.body.part_checksums import completed_checksums
from forebay.protocol.exchange import Request
from forebay.protocol.header_map import Headers
from forebay.protocol.target import Target
from forebay.protocol.xml.s3_documents import completed_fields, embedded_error
from forebay.protocol.xml.xml_tree import S3_NAMESPACE, read_tree, write_tree
from forebay.storage.journal.pending_objects import READ_SECONDS
from forebay.write.back.accept.upload_expiry import UploadExpiry
from forebay.write.back.accept.upload_moves import UploadMoves
from forebay.write.back.drain.origin_completion import conditions_of
from forebay.write.back.pending.accepted_write import OriginCompletion
from forebay.write.back.pending.pending_uploads import PendingUpload, PendingUploads
from forebay.write.body_digest import crc_in
from forebay.write.forward_request import WriteContext
from forebay.write.repeated_completion import completion_digest

_ID: Final = "uploadId"
_LISTED: Final = ("max-parts", "part-number-marker", "encoding-type")
_MAX_BYTES: Final = 4 << 20
_MAX_ELEMENTS: Final = 20_000


class MovedUploadRequests:
    """Carries out the requests of moved uploads, in one worker."""

    def __init__(
        self,
        uploads: PendingUploads,
        moves: UploadMoves,
        expiry: UploadExpiry,
        origins: Origins,
        wait: Callable[[str, Awaitable[None], Request], Awaitable[None]],
    ) -> None:
        """`wait`: see WriteBarriers."""
        self._uploads = uploads
        self._moves = moves
        self._expiry = expiry
        self._origins = origins
        self._wait = wait

    async def redirect(self, context: WriteContext) -> WriteContext:
        """Returns a write as it is to be carried out at the origin, once it may be: one of a moved upload has its id
        there. Raises Throttled, S3Error, ConnectionError."""
        forward = context.forward
        if forward.target.key is None:
            return context
        key = forward.upload
        upload = self._uploads.find(key.name, key.upload_id)
        if upload is None or not upload.origin_id:
            return context
        self._expiry.touch(key.upload_id)
        number = forward.part_number
        match forward.operation.name:
            case "UploadPart" | "UploadPartCopy":
                await self._carried(context, lambda: number not in upload.parts)
            case "CompleteMultipartUpload":
                await self._carried(context, lambda: not upload.parts)
            case _:
                pass
        query = tuple((name, upload.origin_id if name == _ID else value) for name, value in forward.target.query)
        return context._replace(forward=forward._replace(target=forward.target._replace(query=query)))

    async def _carried(self, context: WriteContext, condition: Callable[[], bool]) -> None:
        if not condition():
            forward = context.forward
            await self._wait(forward.target.bucket or "", self._uploads.wait_for(condition), forward.request)

    async def learn(self, context: WriteContext, status: int, headers: Headers, document: bytes, result: bytes) -> None:
        """Notes how the origin has answered a write. `document`: of the client; `result`: of the origin."""
        forward, made = context.forward, None
        upload = self._uploads.of_origin(forward.upload.name, forward.upload.upload_id)
        if upload is None:
            return
        fields = completed_fields(result)
        if "ETag" in fields:
            sums = (*completed_checksums(fields), *crc_in(tuple(headers.items())))
            with suppress(S3Error):  # no condition that is known here
                request = completion_digest(document, conditions_of(forward.request.headers))
                made = OriginCompletion(fields["ETag"], sums, request)
        await self._moves.note(upload, forward.operation.name, status, made)

    async def parts_document(self, upload: PendingUpload, target: Target) -> bytes:
        """Returns the answer to a ListParts. Raises S3Error, OriginError, Throttled."""
        try:
            async with asyncio.timeout(READ_SECONDS):
                await self._uploads.wait_for(lambda: not upload.parts)
        except TimeoutError:
            raise Throttled("parts of the upload are not at the origin yet") from None
        listed = ((name, target.param(name)) for name in _LISTED)
        request = OriginRequest(
            "GET",
            *upload.upload.name,
            query=((_ID, upload.origin_id), *((name, value) for name, value in listed if value)),
            operation="ListParts",
        )
        async with await self._origins.send(request) as answer:
            document = await answer.read(_MAX_BYTES)
            if answer.status != 200:
                code = embedded_error(document) or ""
                raise S3Error(code if code in S3_CODES else "ServiceUnavailable")
        try:
            root = read_tree(document, max_size=_MAX_BYTES, max_elements=_MAX_ELEMENTS)
        except MalformedXml:
            raise OriginBroken("a listing of parts: no document") from None
        for element in root.all("UploadId"):
            element.text = upload.upload.upload_id
        return write_tree(root, S3_NAMESPACE)

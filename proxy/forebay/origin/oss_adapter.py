"""The OSS adapter: sends requests in S3's terms to an OSS origin in OSS's, and translates its responses back.

    send(S3 request) > to_oss_request > signed and sent > status, headers and document translated > S3 response

Bytes of objects pass unchanged both ways; documents are read whole and written anew (forebay.protocol.oss).

CRC-64: that of an uploaded body is computed while it leaves, and compared with the one OSS returns; that of a completed
multipart upload is combined from its parts', where all of them passed here. Where they differ, the upload has failed
(OriginBroken), whatever its status, and the writer invalidates the object. Nothing is compared without a value:
for parts that were copied, or uploaded another way.

Operations that only OSS has (symlinks, appends, image processing) have no form in S3's terms, so they never arrive
here.
"""

import logging
from collections import OrderedDict
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from forebay.core.buffers import Piece
from forebay.core.cooperative import CooperativeWork, run_cooperatively
from forebay.core.errors import MalformedOssDocument, OriginBroken, S3Error
from forebay.core.events import DEFAULT_ORIGIN, Observe, OriginFailed
from forebay.origin.origin_request import OriginRequest
from forebay.origin.origin_response import ExpectedCrc64, OriginResponse
from forebay.protocol.body.crc64 import crc64
from forebay.protocol.body.crc_combination import combine_crc64
from forebay.protocol.conditions import same_etag
from forebay.protocol.oss.oss_errors import s3_error
from forebay.protocol.oss.oss_headers import OBJECT_TYPE, crc64_of
from forebay.protocol.oss.oss_operation_table import WITH_DOCUMENT
from forebay.protocol.oss.oss_origin_documents import s3_document
from forebay.protocol.oss.oss_origin_request import STREAMED, OssOriginRequest, is_empty_page, to_oss_request
from forebay.protocol.oss.oss_response_headers import s3_response_headers
from forebay.protocol.xml.s3_documents import read_parts_cooperatively

_log = logging.getLogger(__name__)

DOCUMENT_LIMIT: Final = 8 << 20
_REFUSAL_LIMIT: Final = 64 * 1024
_PARTS_PER_STEP: Final = 16  # parts combined between two yields: with lengths that all differ, a millisecond
_WRONG_CRC64: Final = "OSS received other bytes than were sent (CRC-64)"

SendOss: TypeAlias = Callable[[OriginRequest], Awaitable[OriginResponse]]


class OssAdapter:
    """Sends S3's requests in OSS's terms. `send_oss` sends a request that is in them already."""

    def __init__(self, send_oss: SendOss, region: str, observe: Observe, origin: str = DEFAULT_ORIGIN) -> None:
        self.send_oss = send_oss
        self._region = region.removeprefix("oss-")
        self._observe = observe
        self._origin = origin
        self._parts = PartCrc64Table()

    async def send(self, request: OriginRequest) -> OriginResponse:
        """Sends a request in S3's terms; the contract is OriginClient.send's."""
        operation = request.operation
        document = b"" if operation in STREAMED else await _document(request)
        sent = await run_cooperatively(
            to_oss_request(
                operation,
                request.method,
                request.query,
                request.headers,
                document,
                self._region,
                on_bucket=request.key is None,
            )
        )
        running = _RunningCrc64()
        body = sent.body or (running.wrap(request.body) if operation in STREAMED else None)
        response = await self.send_oss(
            request._replace(
                method=sent.method,
                query=sent.query,
                headers=sent.headers,
                body=body,
                content_length=request.content_length if operation in STREAMED else None,
            )
        )
        try:
            await self._translate_response(request, sent, response)
            if response.status < 300:
                await self._verify_upload(request, document, response, running)
        except BaseException:
            await response.__aexit__(None, None, None)
            raise
        return response

    async def _translate_response(
        self, request: OriginRequest, sent: OssOriginRequest, response: OriginResponse
    ) -> None:
        """Puts the response into S3's terms."""
        operation, headers = request.operation, s3_response_headers(response.headers.items())
        copies = operation in {"CopyObject", "UploadPartCopy"}
        if response.status >= 400 or (copies and response.status == 304):
            body = await response.read(_REFUSAL_LIMIT)  # of a HEAD there is none
            status, document = s3_error(response.status, body, copies=copies)
            response.replace_head(status, headers, document if sent.method != "HEAD" else None)
        elif operation == "HeadBucket":
            await response.read(DOCUMENT_LIMIT)
            kept = tuple(pair for pair in headers if pair[0].lower() not in {"content-length", "content-type"})
            response.replace_head(response.status, (*kept, ("x-amz-bucket-region", self._region)), b"")
        elif operation not in WITH_DOCUMENT or response.status >= 300:
            if operation == "GetObject" and response.status == 200:
                self._expect_crc64(sent, response)
            response.replace_head(response.status, headers)
        else:
            encoded = ("encoding-type", "url") in request.query
            try:
                body, is_empty = await response.read(DOCUMENT_LIMIT), is_empty_page(request.query)
                document = s3_document(operation, body, encoded=encoded, is_empty=is_empty)
            except MalformedOssDocument as error:
                _log.warning("%s: OSS answered with no document of its own: %s", operation, error)
                raise self._broken(operation, "no document") from None
            # OSS has the ETag of a completion in a header as well, and nothing to say after a quiet batch delete.
            kept = tuple(pair for pair in headers if pair[0].lower() not in {"content-type", "etag"})
            response.replace_head(response.status, (*kept, ("Content-Type", "application/xml")), document)

    def _expect_crc64(self, sent: OssOriginRequest, response: OriginResponse) -> None:
        """Verifies the CRC-64 of a whole object. Raises OriginBroken if a range was requested."""
        length = response.headers.get("Content-Length", "")
        if sent.has_range and length != "0":
            raise self._broken("GetObject", "200 to a range")
        expected = crc64_of(response.headers)
        # Of a symlink it is not documented whose CRC-64 this is: its own, or its target's.
        if expected is not None and length.isdecimal() and response.headers.get(OBJECT_TYPE) != "Symlink":
            response.expect_crc64(ExpectedCrc64(expected, int(length)))

    async def _verify_upload(
        self, request: OriginRequest, document: bytes, response: OriginResponse, digest: "_RunningCrc64"
    ) -> None:
        """Raises OriginBroken when OSS received other bytes than were sent."""
        returned, computed = crc64_of(response.headers), None
        upload, number = (
            (request.bucket, request.key, _parameter(request, "uploadId")),
            _parameter(request, "partNumber"),
        )
        match request.operation:
            case "PutObject" | "PostObject":
                computed = digest.value
            case "UploadPart" if number.isdecimal():
                computed = digest.value
                part = PartCrc64(response.headers.get("ETag", ""), digest.value, digest.length)
                self._parts.add(upload, int(number), part)
            case "CompleteMultipartUpload":
                listed = await run_cooperatively(read_parts_cooperatively(document))
                parts = [(part.number, part.etag) for part in listed]
                computed = await run_cooperatively(self._parts.combined(upload, parts))
            case "AbortMultipartUpload":
                self._parts.forget(upload)
            case _:
                pass
        if returned is not None and computed is not None and returned != computed:
            raise self._broken(request.operation, _WRONG_CRC64)

    def _broken(self, operation: str, reason: str) -> OriginBroken:
        self._observe(OriginFailed(operation, reason, self._origin))
        return OriginBroken(reason)


class _RunningCrc64:
    """The CRC-64 and the length of a body that is sent."""

    __slots__ = ("length", "value")

    def __init__(self) -> None:
        self.value = 0
        self.length = 0

    def wrap(self, body: AsyncIterable[Piece] | bytes | None) -> AsyncIterable[Piece] | bytes | None:
        """Returns the body, counted as it is read."""
        if body is None or isinstance(body, bytes):
            self._update(body or b"")
            return body
        return self._updated(body)

    async def _updated(self, body: AsyncIterable[Piece]) -> AsyncIterator[Piece]:
        async for piece in body:
            self._update(piece)
            yield piece

    def _update(self, piece: Piece) -> None:
        self.value = crc64(piece, self.value)
        self.length += len(piece)


_Upload: TypeAlias = tuple[str | None, str | None, str]
"""Bucket, key and upload id."""


class PartCrc64(NamedTuple):
    """A part that was uploaded through here. Its ETag shows whether it is still current."""

    etag: str
    value: int
    length: int


class PartCrc64Table:
    """The CRC-64 of parts of unfinished uploads. Bounded by the number of parts: whole uploads are forgotten, the one
    that was idle longest first."""

    def __init__(self, remembered: int = 100_000) -> None:
        self._remembered = remembered
        self._uploads: OrderedDict[_Upload, dict[int, PartCrc64]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        """The number of uploads known."""
        return len(self._uploads)

    def add(self, upload: _Upload, number: int, part: PartCrc64) -> None:
        """Records a part, in place of an earlier one of its number."""
        parts = self._uploads.setdefault(upload, {})
        self._count += number not in parts
        parts[number] = part
        self._uploads.move_to_end(upload)
        while self._count > self._remembered:
            _, idle = self._uploads.popitem(last=False)
            self._count -= len(idle)

    def combined(self, upload: _Upload, listed: Sequence[tuple[int, str]]) -> CooperativeWork[int | None]:
        """Forgets the upload, and combines the CRC-64 of its parts `listed` by number and ETag.

        None if not all of them are known. Cooperative work.
        """
        parts, value = self.forget(upload), 0
        for count, (number, etag) in enumerate(listed, 1):
            if count % _PARTS_PER_STEP == 0:
                yield
            part = parts.get(number)
            if part is None or not same_etag(part.etag, etag):
                return None
            value = combine_crc64(value, part.value, part.length)
        return value

    def forget(self, upload: _Upload) -> dict[int, PartCrc64]:
        """Forgets an upload; returns its parts."""
        parts = self._uploads.pop(upload, {})
        self._count -= len(parts)
        return parts


async def _document(request: OriginRequest) -> bytes:
    """The whole body of a request that is a document. S3Error MalformedXML when it is too large."""
    body = request.body
    if body is None or isinstance(body, bytes):
        return body or b""
    whole = bytearray()
    async for piece in body:
        whole += piece
        if len(whole) > DOCUMENT_LIMIT:
            raise S3Error("MalformedXML", "The document is too large.")
    return bytes(whole)


def _parameter(request: OriginRequest, name: str) -> str:
    return next((value for key, value in request.query if key == name), "")

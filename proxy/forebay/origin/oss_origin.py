"""The origin is Alibaba OSS: what is asked of it in S3's terms is asked in OSS's, and its answers are told in S3's.

    send(S3 request) ──> protocol.oss.oss_origin_request ──> signed, sent ──>
    protocol.oss.oss_origin_documents ──> S3 answer

Bytes of objects go through as they are, both ways; documents are read whole and written anew.

CRC-64: that of an uploaded body is computed while it leaves, and compared with what OSS says it received; that of a
completed multipart upload is put together from its parts', where all of them went through here. Where they differ, the
upload has failed (OriginBroken), whatever its status said, and what is believed of the object is forgotten by those who
write. What OSS does not tell can't be compared: parts that were copied, uploads of which parts came another way.

What only OSS has (symlinks, appends, image processing) has no form in S3's terms, so it does not come here. An OSS
client in front of an OSS origin could be given it: a request that is in OSS's terms already goes to `native`.
"""

import logging
from collections import OrderedDict
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

from forebay.core.cooperative import CooperativeWork, run_cooperatively
from forebay.core.errors import MalformedOssDocument, OriginBroken, S3Error
from forebay.core.events import Observe, OriginFailed
from forebay.origin.origin_request import OriginRequest
from forebay.origin.origin_response import ExpectedCrc64, OriginResponse
from forebay.protocol.body.crc64 import combine, crc64
from forebay.protocol.etags import same_etag
from forebay.protocol.oss.oss_errors import s3_error
from forebay.protocol.oss.oss_headers import OBJECT_TYPE, crc64_of
from forebay.protocol.oss.oss_origin_documents import s3_document
from forebay.protocol.oss.oss_origin_request import READS, STREAMED, OssOriginRequest, to_oss_request
from forebay.protocol.oss.oss_response_headers import s3_response_headers
from forebay.protocol.xml.s3_documents import reading_parts

_log = logging.getLogger(__name__)

DOCUMENT_LIMIT: Final = 8 << 20
_REFUSAL_LIMIT: Final = 64 * 1024
_AT_ONCE: Final = 16  # parts that are joined in one stretch: where all are of other lengths, a millisecond
_NOT_AS_SENT: Final = "received is not what was sent (CRC-64)"
# Those whose success has no document, in OSS as in S3.
_SILENT: Final = STREAMED | frozenset(
    {
        "AbortMultipartUpload",
        "CreateBucket",
        "DeleteBucket",
        "DeleteBucketTagging",
        "DeleteObject",
        "DeleteObjectTagging",
        "PutBucketAcl",
        "PutBucketTagging",
        "PutBucketVersioning",
        "PutObjectAcl",
        "PutObjectTagging",
        "RestoreObject",
    }
)

SendOss: TypeAlias = Callable[[OriginRequest], Awaitable[OriginResponse]]


class OssAdapter:
    """Asks in OSS's terms. `native` sends a request that is in them."""

    def __init__(self, send_oss: SendOss, region: str, observe: Observe) -> None:
        self.send_oss = send_oss
        self._region = region.removeprefix("oss-")
        self._observe = observe
        self._parts = PartCrc64Table()

    async def send(self, request: OriginRequest) -> OriginResponse:
        """As OriginClient.send, whose contract this is."""
        operation = request.operation
        document = b"" if operation in STREAMED else await _document(request)
        asked = await run_cooperatively(
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
        body = asked.body or (running.wrap(request.body) if operation in STREAMED else None)
        answer = await self.send_oss(
            replace(
                request,
                method=asked.method,
                query=asked.query,
                headers=asked.headers,
                body=body,
                content_length=request.content_length if operation in STREAMED else None,
            )
        )
        try:
            await self._translate_response(request, asked, answer)
            if answer.status < 300:
                await self._verify_upload(request, document, answer, running)
        except BaseException:
            await answer.__aexit__(None, None, None)
            raise
        return answer

    async def _translate_response(self, request: OriginRequest, sent: OssOriginRequest, answer: OriginResponse) -> None:
        """Let the answer speak S3."""
        operation, headers = request.operation, s3_response_headers(answer.headers.items())
        copies = operation in {"CopyObject", "UploadPartCopy"}
        if answer.status >= 400 or (copies and answer.status == 304):
            body = await answer.read(_REFUSAL_LIMIT)  # of a HEAD there is none
            status, told = s3_error(answer.status, body, copies=copies)
            answer.replace_head(status, headers, told if sent.method != "HEAD" else None)
        elif operation == "HeadBucket":
            await answer.read(DOCUMENT_LIMIT)
            kept = tuple(pair for pair in headers if pair[0].lower() not in {"content-length", "content-type"})
            answer.replace_head(answer.status, (*kept, ("x-amz-bucket-region", self._region)), b"")
        elif operation in READS or operation in _SILENT or answer.status >= 300:
            if operation == "GetObject" and answer.status == 200:
                self._expect_crc64(sent, answer)
            answer.replace_head(answer.status, headers)
        else:
            encoded = ("encoding-type", "url") in request.query
            try:
                told = s3_document(operation, await answer.read(DOCUMENT_LIMIT), encoded=encoded)
            except MalformedOssDocument as untold:
                _log.warning("%s: OSS answered with no document of its own: %s", operation, untold)
                raise self._broken(operation, "no document") from None
            answer.replace_head(answer.status, headers, told)

    def _expect_crc64(self, sent: OssOriginRequest, answer: OriginResponse) -> None:
        """A whole object is coming. Raises OriginBroken if a range was asked for."""
        length = answer.headers.get("Content-Length", "")
        if sent.has_range and length != "0":
            raise self._broken("GetObject", "200 to a range")
        told = crc64_of(answer.headers)
        # What a symlink tells of is not said: itself, or what it leads to.
        if told is not None and length.isdecimal() and answer.headers.get(OBJECT_TYPE) != "Symlink":
            answer.expect_crc64(ExpectedCrc64(told, int(length)))

    async def _verify_upload(
        self, request: OriginRequest, document: bytes, answer: OriginResponse, digest: "_RunningCrc64"
    ) -> None:
        """Raises OriginBroken when OSS has received something else."""
        told, known = crc64_of(answer.headers), None
        upload, number = (
            (request.bucket, request.key, _parameter(request, "uploadId")),
            _parameter(request, "partNumber"),
        )
        match request.operation:
            case "PutObject" | "PostObject":
                known = digest.value
            case "UploadPart" if number.isdecimal():
                known = digest.value
                part = PartCrc64(answer.headers.get("ETag", ""), digest.value, digest.length)
                self._parts.add(upload, int(number), part)
            case "CompleteMultipartUpload":
                listed = await run_cooperatively(reading_parts(document))
                known = await run_cooperatively(self._parts.combined(upload, listed))
            case "AbortMultipartUpload":
                self._parts.forget(upload)
            case _:
                pass
        if told is not None and known is not None and told != known:
            raise self._broken(request.operation, _NOT_AS_SENT)

    def _broken(self, operation: str, reason: str) -> OriginBroken:
        self._observe(OriginFailed(operation, reason))
        return OriginBroken(reason)


class _RunningCrc64:
    """The CRC-64 of what goes by."""

    __slots__ = ("length", "value")

    def __init__(self) -> None:
        self.value = 0
        self.length = 0

    def wrap(self, body: AsyncIterable[bytes] | bytes | None) -> AsyncIterable[bytes] | bytes | None:
        """The same body, counted in as it is read."""
        if body is None or isinstance(body, bytes):
            self._update(body or b"")
            return body
        return self._updated(body)

    async def _updated(self, body: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
        async for piece in body:
            self._update(piece)
            yield piece

    def _update(self, piece: bytes) -> None:
        self.value = crc64(piece, self.value)
        self.length += len(piece)


UploadKey: TypeAlias = tuple[str | None, str | None, str]
"""Bucket, key and upload id."""


class PartCrc64(NamedTuple):
    """What went through here as a part. Its ETag says whether it is still the one: it may be sent again, elsewhere."""

    etag: str
    value: int
    length: int


class PartCrc64Table:
    """The CRC-64 of the parts of uploads under way, those that went through here. Bounded: whole uploads are forgotten,
    the one that was idle longest first."""

    def __init__(self, remembered: int = 100_000) -> None:
        self._remembered = remembered
        self._uploads: OrderedDict[UploadKey, dict[int, PartCrc64]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        """How many uploads are known."""
        return len(self._uploads)

    def add(self, upload: UploadKey, number: int, part: PartCrc64) -> None:
        """A part was received. One that is sent again replaces the first."""
        parts = self._uploads.setdefault(upload, {})
        self._count += number not in parts
        parts[number] = part
        self._uploads.move_to_end(upload)
        while self._count > self._remembered:
            _, idle = self._uploads.popitem(last=False)
            self._count -= len(idle)

    def combined(self, upload: UploadKey, listed: Sequence[tuple[int, str]]) -> CooperativeWork[int | None]:
        """The CRC-64 of the parts that are `listed` by number and ETag, None if not all of them are known. The upload
        has ended."""
        parts, value = self.forget(upload), 0
        for place, (number, etag) in enumerate(listed, 1):
            if place % _AT_ONCE == 0:
                yield
            part = parts.get(number)
            if part is None or not same_etag(part.etag, etag):
                return None
            value = combine(value, part.value, part.length)
        return value

    def forget(self, upload: UploadKey) -> dict[int, PartCrc64]:
        """Forget it; what was known."""
        parts = self._uploads.pop(upload, {})
        self._count -= len(parts)
        return parts


async def _document(request: OriginRequest) -> bytes:
    """The body of a request that is a document, whole. S3Error MalformedXML for more than a document has."""
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

"""The reply to a request in OSS's dialect: translates responses in S3's terms into OSS's.

    start(200, x-amz-...)         -> the same with x-oss-...                        object bytes pass unchanged
    start(200), a document        -> buffered, translated, sent whole               SDKs of OSS need its length
    start(200), <Error> inside    -> buffered, sent as an error status              OSS has no such responses
    start(404), an error of S3    -> buffered, sent as OSS's error document         on HEAD, in a header

While a response is buffered nothing has started, so a failure can still be answered: a second `start` replaces what was
buffered.

https://www.alibabacloud.com/help/en/oss/developer-reference/common-http-headers
"""

from collections.abc import Awaitable, Callable
from typing import Final, TypedDict

from forebay.core.buffers import Buffer
from forebay.core.errors import MalformedXml, OriginBroken, S3Error
from forebay.core.heads import HeaderPairs
from forebay.core.request_record import RequestRecord
from forebay.protocol.exchange import ObjectReply
from forebay.protocol.oss.oss_documents import (
    MAX_SIZE,
    CrcOfPart,
    OssLocation,
    failed_batch_delete,
    read_origin_document,
    result_etag_of,
    to_oss_document,
)
from forebay.protocol.oss.oss_errors import OssFailure, error_response, failure_of_error, to_oss_failure
from forebay.protocol.oss.oss_request import OssRequest
from forebay.protocol.oss.oss_response_headers import oss_response_headers
from forebay.protocol.xml.s3_documents import embedded_error

CreationDate = Callable[[], Awaitable[str | None]]
BucketExists = Callable[[], Awaitable[bool]]

_DROPPED: Final = frozenset({"content-type", "content-length", "content-encoding", "etag"})
_WITH_ERRORS: Final = frozenset({"accept-ranges", "content-range", "retry-after", "x-forebay-cache"})


class _Conditions(TypedDict):
    forbids_overwrite: bool
    conditions: frozenset[str]


class OssReply:
    """Translates a response, and writes it to `inner`. Implements forebay.protocol.exchange.ObjectReply."""

    def __init__(self, inner: ObjectReply, method: str, record: RequestRecord, location: OssLocation) -> None:
        self._inner = inner
        self._is_head = method == "HEAD"
        self._record = record
        self._location = location
        self.request: OssRequest | None = None
        """The translated request. None until it is admitted."""
        self.bucket_exists: BucketExists | None = None
        """Tells which is missing where a 404 does not say. None until the request is admitted."""
        self.creation_date: CreationDate | None = None
        """The creation date of the bucket, for GetBucketInfo."""
        self.part_crc: CrcOfPart | None = None
        """The known CRCs of the upload's parts, for ListParts."""
        self._status = 0
        self._headers: HeaderPairs = ()
        self._buffered: bytearray | None = None

    @property
    def started(self) -> bool:
        """Whether the response head has left. False while a response is buffered."""
        return self._inner.started

    async def start(self, status: int, headers: HeaderPairs, length: int | None) -> None:
        """Sends the translated head, or begins to buffer a document or an error."""
        self._status, self._headers, self._buffered = status, headers, None
        if self._is_failure or (self.request is not None and self.request.operation.has_document and not self._is_head):
            self._buffered = bytearray()
            return
        fields = oss_response_headers(self.request, status, headers, self._record.request_id)
        await self._inner.start(status, fields, length)

    @property
    def _is_failure(self) -> bool:
        return self._status >= 300 and self._status != 304

    async def write(self, buffer: Buffer | bytes) -> None:
        """Sends or buffers a piece. Raises OriginBroken for a document that is too large."""
        if self._buffered is None:
            await self._inner.write(buffer)
            return
        self._buffered += buffer
        if len(self._buffered) > MAX_SIZE:
            raise OriginBroken(f"a document of more than {MAX_SIZE} bytes")

    def accept(self, piece: Buffer) -> int:
        """Sends the front of a piece of an object, which is never buffered."""
        return self._inner.accept(piece)

    @property
    def is_blocked(self) -> bool:
        """Whether the client accepts nothing for now."""
        return self._inner.is_blocked

    async def drain(self) -> None:
        """Waits while the client accepts nothing."""
        await self._inner.drain()

    async def finish(self) -> None:
        """Ends the response; a buffered one is translated and sent."""
        if self._buffered is None:
            await self._inner.finish()
        elif self._is_failure:
            exists = True
            if self._status == 404 and not self._buffered and self.bucket_exists is not None:
                exists = await self.bucket_exists()
            failure = to_oss_failure(self._status, bytes(self._buffered), bucket_is_there=exists, **self._conditions)
            await self._send_error(failure, self._headers)
        else:
            await self._send_document(bytes(self._buffered))

    def abort(self) -> None:
        """Breaks the connection."""
        self._inner.abort()

    async def refuse(self, error: S3Error, headers: HeaderPairs) -> None:
        """Answers with an error made by Forebay. `headers` go with it in either dialect."""
        await self._send_error(failure_of_error(error, **self._conditions), headers)

    @property
    def _conditions(self) -> "_Conditions":
        """The conditions whose failures OSS tells in another way than S3."""
        if self.request is None:
            return _Conditions(forbids_overwrite=False, conditions=frozenset())
        return _Conditions(forbids_overwrite=self.request.forbids_overwrite, conditions=self.request.source_conditions)

    async def _send_document(self, body: bytes) -> None:
        """Sends the translation of a document, or the error that it contains."""
        if embedded_error(body) is not None:
            await self._send_error(to_oss_failure(200, body, **self._conditions), ())
            return
        request = self.request
        if request is None or (not body.strip() and request.name != "GetBucketLocation"):
            await self._send(self._status, self._origin_headers(), b"")
            return
        try:
            root = read_origin_document(body)
        except MalformedXml as refused:
            raise OriginBroken(f"its document cannot be parsed: {refused}") from refused
        if request.name == "DeleteMultipleObjects" and root.find("Deleted") is None:
            failure = failed_batch_delete(root)
            if failure is not None:
                await self._send_error(failure, ())
            else:  # a quiet one
                await self._send(self._status, self._origin_headers(), b"")
            return
        needs_date = request.name == "GetBucketInfo"
        created = await self.creation_date() if needs_date and self.creation_date is not None else None
        document = to_oss_document(request, root, self._location, created, self.part_crc)
        fields = [*self._origin_headers(), ("Content-Type", "application/xml")]
        etag = result_etag_of(root)
        if etag:
            fields.append(("ETag", etag))
        await self._send(self._status, tuple(fields), document)

    def _origin_headers(self) -> HeaderPairs:
        """The headers of the origin's response that do not describe its document."""
        return tuple(pair for pair in self._headers if pair[0].lower() not in _DROPPED)

    async def _send_error(self, failure: OssFailure, fields: HeaderPairs) -> None:
        if failure.status == 304:  # which has no body
            await self._send(304, tuple(pair for pair in fields if pair[0].lower() == "x-forebay-cache"), b"")
            return
        # Headers about the range and the cache are kept; the others describe the document or the origin.
        kept = tuple(pair for pair in fields if pair[0].lower() in _WITH_ERRORS)
        headers, document = error_response(
            failure, request_id=self._record.request_id, host=self._location.endpoint, is_head=self._is_head
        )
        await self._send(failure.status, (*kept, *headers), document)

    async def _send(self, status: int, fields: HeaderPairs, document: bytes) -> None:
        headers = oss_response_headers(self.request, status, fields, self._record.request_id)
        await self._inner.start(status, headers, None if status == 304 else len(document))
        if document and not self._is_head:
            await self._inner.write(document)
        await self._inner.finish()

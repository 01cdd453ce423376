"""The OSS front end: the steps of a request in OSS's dialect beyond its translation to S3's terms.

    admission (translates) ──┬──> read                             as any request of S3
                             └──> prepare_write ──> write          as any request of S3
    response <── OssReply (translates back) <─────────┘

`prepare_write` covers what renaming can't: documents in requests that S3 reads differently, and conditions against
overwriting that S3 does not have. Facts that a response in OSS's terms needs beyond S3's are looked up at the origin:
whether a bucket exists, when it was created.

https://www.alibabacloud.com/help/en/oss/developer-reference/list-of-operations-by-function
"""

from base64 import b64encode
from functools import partial
from hashlib import md5
from typing import Final

from multidict import CIMultiDict, CIMultiDictProxy

from forebay.core.cooperative import run_cooperatively
from forebay.core.errors import MalformedXml, OriginBroken, OriginError, S3Error
from forebay.core.names import UploadKey
from forebay.core.request_record import RequestRecord
from forebay.origin.origin_identity import OriginIdentity, request_credential
from forebay.origin.origin_request import OriginRequest
from forebay.origin.origin_response import OriginResponse
from forebay.origin.origins import Origins
from forebay.protocol.exchange import BytesBody, ObjectReply, Request
from forebay.protocol.header_map import Headers
from forebay.protocol.oss.oss_documents import MAX_SIZE, OssLocation, creation_date_of, read_origin_document
from forebay.protocol.oss.oss_request_documents import s3_request_document
from forebay.protocol.range_header import parse_range, range_header, whole_unless_inside
from forebay.protocol.response_headers import parse_content_range
from forebay.protocol.target import Target
from forebay.protocol.xml.s3_documents import MAX_PARTS, UploadedPart, write_completion_cooperatively
from forebay.protocol.xml.xml_tree import Element
from forebay.request.oss_reply import OssReply
from forebay.write.forward_request import ForwardRequest
from forebay.write.forwarder import Forwarder
from forebay.write.length_spooler import LengthSpooler, with_body
from forebay.write.multipart.multipart_registry import MultipartRegistry

BODY_LIMIT: Final = 4 << 20
"""Bytes of a document that is translated on its way to the origin."""
_REWRITTEN: Final = frozenset({"CompleteMultipartUpload", "PutBucket", "RestoreObject"})
# S3 has no condition on these, or not every S3 origin honours it.
_CHECKED_BEFORE: Final = frozenset({"CompleteMultipartUpload", "CopyObject", "InitiateMultipartUpload"})
_STREAMED: Final = frozenset({"PutObject", "UploadPart"})


class OssFrontend:
    """Serves clients that speak OSS. Keeps no state of a request."""

    def __init__(
        self, origins: Origins, forwarder: Forwarder, length_spooler: LengthSpooler, uploads: MultipartRegistry
    ) -> None:
        self._origins = origins
        self._forwarder = forwarder
        self._length_spooler = length_spooler
        self._uploads = uploads

    def wrap_reply(
        self, inner: ObjectReply, request: Request, target: Target | None, record: RequestRecord
    ) -> OssReply:
        """A reply that translates into OSS's terms. `target` None: it was not parsed."""
        host, bucket = request.host, target.bucket if target is not None else None
        if bucket is not None:
            host = host.removeprefix(f"{bucket}.")
        return OssReply(inner, request.method, record, OssLocation(self._origins.region_of(bucket), host))

    def allow_lookups(self, reply: OssReply, bucket: str | None, identity: OriginIdentity | None) -> None:
        """Lets the reply to an admitted request look facts about `bucket` up at the origin, as `identity`."""
        if bucket is None:
            return

        async def exists() -> bool:
            return await self._fetch_status(OriginRequest("HEAD", bucket, operation="HeadBucket"), identity) != 404

        async def creation_date() -> str | None:
            return await self._fetch_creation_date(bucket, identity)

        reply.bucket_exists, reply.creation_date = exists, creation_date
        if reply.request is not None and reply.request.name == "ListParts":
            target = reply.request.target
            reply.part_crc = partial(self._uploads.crc, UploadKey(target.name, target.param("uploadId") or ""))

    async def send_read(self, forward: ForwardRequest) -> OriginResponse:
        """Sends a bypassed read to the origin. A range that OSS ignores is dropped and the read is sent again: an S3
        origin clips the range or refuses it."""
        answer = await self._forwarder.send(forward)
        oss_request = forward.request.oss_request
        if oss_request is None or not oss_request.lenient_range or _has_whole_range(forward.request.headers, answer):
            return answer
        async with answer:
            headers = CIMultiDict(forward.request.headers)
            headers.popall("Range")
        request = forward.request._replace(headers=CIMultiDictProxy(headers))
        return await self._forwarder.send(forward._replace(request=request))

    async def prepare_write(self, forward: ForwardRequest) -> ForwardRequest:
        """The write as an S3 origin takes it. Raises S3Error, OriginError, Throttled."""
        oss_request = forward.request.oss_request
        if oss_request is None:
            return forward
        if oss_request.forbids_overwrite and oss_request.name in _CHECKED_BEFORE:
            name = forward.target.name
            status = await self._fetch_status(OriginRequest("HEAD", *name, operation="HeadObject"), forward.identity)
            if status < 300:
                raise S3Error("PreconditionFailed", Condition="If-None-Match")
        if oss_request.name in _STREAMED and forward.request.has_body and forward.length is None:
            return await self._length_spooler.spool(forward)
        if oss_request.name not in _REWRITTEN:
            return forward
        body = await self._forwarder.read_document(forward, BODY_LIMIT)
        if oss_request.completes_all:
            if body.strip():
                raise S3Error("InvalidArgument", "Either all parts are completed, or those that are listed.")
            body = await run_cooperatively(write_completion_cooperatively(await self._list_parts(forward)))
        else:
            body = await run_cooperatively(
                s3_request_document(oss_request, body, self._origins.region_of(forward.target.bucket))
            )
        return forward._replace(request=_with_document(forward.request, body))

    async def _list_parts(self, forward: ForwardRequest) -> list[UploadedPart]:
        """All parts of an upload that the origin has."""
        upload_id, marker = forward.target.param("uploadId") or "", ""
        parts: list[UploadedPart] = []
        while True:
            query = (("uploadId", upload_id), *((("part-number-marker", marker),) if marker else ()))
            request = OriginRequest("GET", *forward.target.name, query, operation="ListParts")
            root = await self._fetch_document(request, forward.identity)
            if root is None:
                raise S3Error("NoSuchUpload")
            found = [UploadedPart(int(each.text_at("PartNumber")), each.text_at("ETag")) for each in root.all("Part")]
            parts += found
            if root.text_at("IsTruncated") != "true" or not found or len(parts) > MAX_PARTS:
                return parts
            marker = str(found[-1].number)

    async def _fetch_document(self, request: OriginRequest, identity: OriginIdentity | None) -> Element | None:
        """The document that the origin answers with; None for a 404."""
        request = request._replace(credential=await request_credential(identity))
        async with await self._origins.send(request) as answer:
            if answer.status == 404:
                return None
            if answer.status != 200:
                raise OriginBroken(f"{request.operation} was answered with {answer.status}")
            try:
                return read_origin_document(await answer.read(MAX_SIZE))
            except MalformedXml as refused:
                raise OriginBroken(f"{request.operation}: {refused}") from refused

    async def _fetch_status(self, request: OriginRequest, identity: OriginIdentity | None) -> int:
        request = request._replace(credential=await request_credential(identity))
        async with await self._origins.send(request) as answer:
            return answer.status

    async def _fetch_creation_date(self, bucket: str, identity: OriginIdentity | None) -> str | None:
        request = OriginRequest("GET", operation="ListBuckets", credential=await request_credential(identity))
        try:
            async with await self._origins.of(bucket).send(request) as answer:
                if answer.status != 200:
                    return None
                return creation_date_of(read_origin_document(await answer.read(MAX_SIZE)), bucket)
        except (OriginError, MalformedXml):
            return None  # the response is complete enough without it


def _with_document(request: Request, body: bytes) -> Request:
    """The request with `body` as its document, and its digest."""
    headers = CIMultiDict(request.headers)
    headers.popall("Content-MD5", None)
    if body:
        headers["Content-MD5"] = b64encode(md5(body, usedforsecurity=False).digest()).decode()
    return with_body(request._replace(headers=CIMultiDictProxy(headers)), BytesBody(body), len(body))


def _has_whole_range(headers: Headers, answer: OriginResponse) -> bool:
    """Whether a response to a range request has the whole range, or is not about a range."""
    if answer.status == 416:
        return False
    found = parse_content_range(answer.headers.get("Content-Range", "")) if answer.status == 206 else None
    spec = parse_range(range_header(headers))
    return found is None or whole_unless_inside(spec, found[1]) == spec

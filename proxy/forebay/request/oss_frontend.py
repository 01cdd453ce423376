"""The front that speaks OSS: what a request of OSS needs beyond its translation.

    recognised ─> authenticated ─> to_s3_request ─> authorised ─> rule ─┬─> reading                         as S3's
                                                                └─> prepared ─> passing, writing    as S3's

`prepared` does what a change of names can't: documents in bodies that S3 reads otherwise, and the refusal to overwrite
where S3 has no condition for it. What the answer needs to be told in OSS's terms is asked of the origin here as well:
whether a bucket is there, when it was made.
"""

from base64 import b64encode
from dataclasses import replace
from functools import partial
from hashlib import md5
from typing import Final

from multidict import CIMultiDict, CIMultiDictProxy

from forebay.core.errors import OriginBroken, OriginError, S3Error
from forebay.core.request_record import RequestRecord
from forebay.core.yielding import in_turns
from forebay.origin.origin_client import OriginClient
from forebay.origin.origin_identity import OriginIdentity, secret_key_of
from forebay.origin.origin_request import OriginRequest
from forebay.origin.origin_response import OriginResponse
from forebay.protocol.exchange import BytesBody, Reply, Request
from forebay.protocol.header_map import Headers
from forebay.protocol.oss.oss_documents import MAX_SIZE, OssLocation, creation_date_of, read_s3_document
from forebay.protocol.oss.oss_request_body import s3_request_document
from forebay.protocol.range_header import parse_range, range_of, within
from forebay.protocol.response_headers import parse_content_range
from forebay.protocol.target import Target
from forebay.protocol.xml.s3_documents import MAX_PARTS, UploadedPart, writing_completion
from forebay.protocol.xml.strict_parser import XMLRefused
from forebay.protocol.xml.xml_tree import Element
from forebay.request.oss_reply import OssReply
from forebay.write.forwarder import Forwarder, ForwardRequest
from forebay.write.length_spooler import LengthSpooler, with_body
from forebay.write.multipart.upload_parts import MultipartRegistry

BODY_LIMIT: Final = 4 << 20
"""Bytes of a document that is translated on its way to the origin."""
_REWRITTEN: Final = frozenset({"CompleteMultipartUpload", "PutBucket", "RestoreObject"})
# Where S3 has no condition, or not every origin of S3 heeds it.
_CHECKED_BEFORE: Final = frozenset({"CompleteMultipartUpload", "CopyObject", "InitiateMultipartUpload"})


_STREAMED: Final = frozenset({"PutObject", "UploadPart"})


class OssFrontend:
    """Translates for those who speak OSS. Holds nothing of a request."""

    def __init__(
        self, origin: OriginClient, passing: Forwarder, length_spooler: LengthSpooler, uploads: MultipartRegistry
    ) -> None:
        self._origin = origin
        self._passing = passing
        self._length_spooler = length_spooler
        self._uploads = uploads

    def wrap_reply(self, inner: Reply, request: Request, target: Target | None, record: RequestRecord) -> OssReply:
        """The reply to `request`, which speaks OSS."""
        host = request.host
        if target is not None and target.bucket is not None:
            host = host.removeprefix(f"{target.bucket}.")
        return OssReply(inner, request.method, record, OssLocation(self._origin.region, host))

    def allow_lookups(self, reply: OssReply, bucket: str | None, identity: OriginIdentity | None) -> None:
        """From here on the answer may say of `bucket` what the origin tells `identity`."""
        if bucket is None:
            return

        async def is_there() -> bool:
            return await self._fetch_status(OriginRequest("HEAD", bucket, operation="HeadBucket"), identity) != 404

        async def created() -> str | None:
            return await self._fetch_creation_date(bucket, identity)

        reply.bucket_exists, reply.creation_date = is_there, created
        if reply.request is not None and reply.request.name == "ListParts":
            target = reply.request.target
            reply.part_crc = partial(self._uploads.crc, target.name, target.param("uploadId") or "")

    async def send_read(self, parcel: ForwardRequest) -> OriginResponse:
        """The origin's answer to a read that is passed on. Where OSS would ignore the range, so does this: an origin of
        S3 clips it, or refuses."""
        answer = await self._passing.send(parcel)
        asked = parcel.request.oss_request
        if asked is None or not asked.lenient_range or _has_whole_range(parcel.request.headers, answer):
            return answer
        async with answer:
            headers = CIMultiDict(parcel.request.headers)
            headers.popall("Range")
        request = replace(parcel.request, headers=CIMultiDictProxy(headers))
        return await self._passing.send(replace(parcel, request=request))

    async def prepare_write(self, parcel: ForwardRequest) -> ForwardRequest:
        """The parcel as it may be sent to an origin of S3. Raises S3Error, OriginError, Throttled."""
        asked = parcel.request.oss_request
        if asked is None:
            return parcel
        if asked.forbids_overwrite and asked.name in _CHECKED_BEFORE:
            name = parcel.target.name
            status = await self._fetch_status(OriginRequest("HEAD", *name, operation="HeadObject"), parcel.identity)
            if status < 300:
                raise S3Error("PreconditionFailed", Condition="If-None-Match")
        if asked.name in _STREAMED and parcel.request.has_body and parcel.length is None:
            return await self._length_spooler.spool(parcel)
        if asked.name not in _REWRITTEN:
            return parcel
        body = await self._passing.read_document(parcel, BODY_LIMIT)
        if asked.completes_all:
            if body.strip():
                raise S3Error("InvalidArgument", "Either all parts are completed, or those that are listed.")
            body = await in_turns(writing_completion(await self._list_parts(parcel)))
        else:
            body = await in_turns(s3_request_document(asked, body, self._origin.region))
        return replace(parcel, request=_with_document(parcel.request, body))

    async def _list_parts(self, parcel: ForwardRequest) -> list[UploadedPart]:
        """All parts of an upload, as the origin has them."""
        upload_id, marker = parcel.target.param("uploadId") or "", ""
        parts: list[UploadedPart] = []
        while True:
            query = (("uploadId", upload_id), *((("part-number-marker", marker),) if marker else ()))
            root = await self._fetch_document(
                OriginRequest("GET", *parcel.target.name, query, operation="ListParts"), parcel
            )
            if root is None:
                raise S3Error("NoSuchUpload")
            found = [UploadedPart(int(each.told("PartNumber")), each.told("ETag")) for each in root.all("Part")]
            parts += found
            if root.told("IsTruncated") != "true" or not found or len(parts) > MAX_PARTS:
                return parts
            marker = str(found[-1].number)

    async def _fetch_document(self, request: OriginRequest, parcel: ForwardRequest) -> Element | None:
        """What the origin answers; None where there is no such thing."""
        request = replace(request, credential=await secret_key_of(parcel.identity))
        async with await self._origin.send(request) as answer:
            if answer.status == 404:
                return None
            if answer.status != 200:
                raise OriginBroken(f"{request.operation} was answered with {answer.status}")
            try:
                return read_s3_document(await answer.read(MAX_SIZE))
            except XMLRefused as refused:
                raise OriginBroken(f"{request.operation}: {refused}") from refused

    async def _fetch_status(self, request: OriginRequest, identity: OriginIdentity | None) -> int:
        request = replace(request, credential=await secret_key_of(identity))
        async with await self._origin.send(request) as answer:
            return answer.status

    async def _fetch_creation_date(self, bucket: str, identity: OriginIdentity | None) -> str | None:
        request = OriginRequest("GET", operation="ListBuckets", credential=await secret_key_of(identity))
        try:
            async with await self._origin.send(request) as answer:
                if answer.status != 200:
                    return None
                return creation_date_of(read_s3_document(await answer.read(MAX_SIZE)), bucket)
        except (OriginError, XMLRefused):
            return None  # the rest can be told without it


def _with_document(request: Request, body: bytes) -> Request:
    """The request with another document, and its digest."""
    headers = CIMultiDict(request.headers)
    headers.popall("Content-MD5", None)
    if body:
        headers["Content-MD5"] = b64encode(md5(body, usedforsecurity=False).digest()).decode()
    return with_body(replace(request, headers=CIMultiDictProxy(headers)), BytesBody(body), len(body))


def _has_whole_range(headers: Headers, answer: OriginResponse) -> bool:
    """Whether an answer to a range has all of it, or does not bear on it."""
    if answer.status == 416:
        return False
    found = parse_content_range(answer.headers.get("Content-Range", "")) if answer.status == 206 else None
    spec = parse_range(range_of(headers))
    return found is None or within(spec, found[1]) == spec

"""Requests about a member of a pack that are neither plain reads of its bytes nor writes of an object.

    GetObjectTagging                 no tags
    GetObjectAttributes              ETag, ObjectSize and StorageClass, those that are asked for
    a read with partNumber=1         the whole member, as S3 has it of an object that was put at once; others 416
    a read of several ranges         the whole member, as S3 has it of every object
    a read with the keys of an       400 InvalidRequest: only the origin could obey these, and it has no such object
    encryption
    any, with the bucket's expected  first the origin compares the owner (origin.origin_checks)
    owner
    any, with versionId=null         the member, if the origin has no such version, and no versions in that bucket
    any other (ACL, Retention, ...)  405 MethodNotAllowed
    a read that no cache answered    503: only the cache can find the bytes

Clients on Amazon's CRT (Mountpoint, s3torchconnector) read small and empty objects by partNumber=1.

The origin has no object with the key, so it would answer NoSuchKey for a key that reads and listings show. If an object
hides the member, or the request names another version id, the origin answers.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObjectAttributes.html
"""

from dataclasses import replace
from typing import Final

from multidict import CIMultiDict

from forebay.core.errors import PackUnavailable, S3Error
from forebay.core.heads import Head, HeaderPairs
from forebay.core.request_record import RequestRecord
from forebay.metadata.lookup_request import LookupRequest
from forebay.metadata.packed_objects import PackedObjects
from forebay.metadata.resolution import ResolvedVersion
from forebay.origin.origin_checks import NULL_VERSION, OWNER, OriginChecks
from forebay.policy.freshness import requests_revalidation
from forebay.protocol.exchange import ObjectReply, Request
from forebay.protocol.header_map import Headers
from forebay.protocol.operations import is_harmless
from forebay.protocol.read_variants import OVERRIDES, VERSION, read_variant
from forebay.protocol.xml.xml_tree import S3_NAMESPACE, Element, write_tree
from forebay.request.admission import Admission
from forebay.request.object_read import ObjectReader

_WRITES: Final = frozenset(
    {"PutObject", "CopyObject", "DeleteObject", "CreateMultipartUpload", "UploadPart", "UploadPartCopy"}
    | {"CompleteMultipartUpload", "AbortMultipartUpload", "ListParts"}
)
"""Writes of objects, which a member does not stand in the way of."""
_READS: Final = frozenset({"GetObject", "HeadObject"})
_PART: Final = "partNumber"
_MAX_PART: Final = 10_000
_OBEYED: Final = frozenset({"x-amz-request-payer", OWNER})
"""Headers that are no origin_only_header, in lower case: one changes nothing, the other is checked before."""
_ATTRIBUTES: Final = frozenset({"ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"})


class PackedSubresources:
    """Answers requests about subresources of members. Keeps no state."""

    def __init__(self, packed: PackedObjects, reader: ObjectReader, checks: OriginChecks) -> None:
        self._packed, self._reader, self._checks = packed, reader, checks

    async def answer(self, admission: Admission, request: Request, reply: ObjectReply, record: RequestRecord) -> bool:
        """Answers a request about a member; False: it is about no member. Raises S3Error, OriginError, Throttled."""
        operation, target, decision = admission.operation, admission.target, admission.decision
        if decision is None or decision.packed is None or operation.level != "object" or operation.name in _WRITES:
            return False
        if (version := target.param(VERSION)) not in {None, NULL_VERSION}:
            return False
        lookup = LookupRequest(
            target.name,
            decision,
            None,
            no_cache=requests_revalidation(request.headers),
            identity=admission.identity,
        )
        found = await self._packed.resolve(lookup)
        if not isinstance(found, ResolvedVersion) or found.stored is None:
            return False
        shard, identity = found.stored.name, admission.identity
        if version is not None and not await self._checks.is_null_version(lookup.name, shard, identity):
            return False
        await self._checks.check_owner(*shard, request.headers, identity)
        if operation.name == "GetObjectTagging":
            root = Element("Tagging")
            root.add("TagSet", "")
        elif operation.name == "GetObjectAttributes":
            root = _attributes(request.headers, found.head)
        elif operation.name in _READS:
            if admission.variant is None and admission.is_accelerated:
                as_plain = _as_plain_read(admission, request, found.head.size)
                if await self._reader.answer(*as_plain, reply, record) is None:
                    return True
            raise PackUnavailable(f"{found.stored.name.path} can't be read through the cache")
        else:
            raise S3Error(
                "MethodNotAllowed", f"The key is a member of a pack, which {operation.name} does not apply to."
            )
        document = write_tree(root, S3_NAMESPACE)
        headers: HeaderPairs = (("Content-Type", "application/xml"), ("x-amz-request-id", record.request_id))
        if operation.name == "GetObjectAttributes":
            headers += (("Last-Modified", found.head.facts.last_modified),)
        record.step = "reply"
        await reply.start(200, headers, len(document))
        await reply.write(document)
        await reply.finish()
        return True


def _as_plain_read(admission: Admission, request: Request, size: int) -> tuple[Admission, Request]:
    """The plain read that answers a read of a member of `size` bytes. Raises S3Error where there is none."""
    headers, number = request.headers, admission.target.param(_PART)
    hindrances = [name for name in headers if not is_harmless(name.lower()) and name.lower() not in _OBEYED]
    variant = read_variant(tuple(pair for pair in admission.target.query if pair[0] in OVERRIDES))
    if hindrances or variant is None:
        named = ", ".join(hindrances) or "this response-* parameter"
        raise S3Error("InvalidRequest", f"The key is a member of a pack, which can't be read with {named}.")
    if number is not None:
        if "Range" in headers:
            raise S3Error("InvalidRequest", f"A read has a Range or {_PART}, not both.")
        if not (number.isascii() and number.isdecimal() and len(number) < 6 and 1 <= int(number) <= _MAX_PART):
            problem = f"{_PART} is a number from 1 to {_MAX_PART}."
            raise S3Error("InvalidArgument", problem, ArgumentName=_PART, ArgumentValue=number)
        if int(number) > 1:
            raise S3Error("InvalidPartNumber", ActualPartCount="1", PartNumberRequested=number)
        if size:  # an empty object has no range: 200
            headers = CIMultiDict(pair for pair in headers.items() if pair[0].lower() != "if-range")
            headers["Range"] = "bytes=0-"
    admission = admission._replace(operation=replace(admission.operation, variant=variant), headers=headers)
    return admission, request._replace(headers=headers)


def _attributes(headers: Headers, head: Head) -> Element:
    names = {name.strip() for value in headers.getall("x-amz-object-attributes", ()) for name in value.split(",")}
    if not names or not names <= _ATTRIBUTES:
        name = "x-amz-object-attributes"
        raise S3Error("InvalidArgument", f"{name} lists {', '.join(sorted(_ATTRIBUTES))}.", ArgumentName=name)
    root = Element("GetObjectAttributesResponse")
    for name, text in (
        ("ETag", head.version.etag.strip('"')),
        ("StorageClass", "STANDARD"),
        ("ObjectSize", str(head.size)),
    ):
        if name in names:
            root.add(name, text)
    return root

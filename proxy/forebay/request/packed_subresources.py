"""Requests about a member of a pack that are neither reads of its bytes nor writes of an object.

    GetObjectTagging                 no tags
    GetObjectAttributes              ETag, ObjectSize and StorageClass, those that are asked for
    GetObject with partNumber, ...   400 InvalidRequest: it has no parts, and no key of a customer encrypts it
    any other (ACL, Retention, ...)  405 MethodNotAllowed
    a read that no cache answered    503: only the cache can find the bytes

The origin has no object of the key, so its answer would be NoSuchKey, for a key that reads and listings show. Where an
object hides the member, and for a version by its id, the origin is asked.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObjectAttributes.html
"""

from typing import Final

from forebay.core.errors import PackUnavailable, S3Error
from forebay.core.heads import Head
from forebay.core.request_record import RequestRecord
from forebay.metadata.lookup_request import LookupRequest
from forebay.metadata.packed_objects import PackedObjects
from forebay.metadata.shared_lookup import ResolvedVersion
from forebay.policy.freshness import requests_revalidation
from forebay.protocol.exchange import Reply, Request
from forebay.protocol.header_map import Headers
from forebay.protocol.xml.xml_tree import S3_NAMESPACE, Element, write_tree
from forebay.request.admission import Admission

_WRITES: Final = frozenset(
    {"PutObject", "CopyObject", "DeleteObject", "CreateMultipartUpload", "UploadPart", "UploadPartCopy"}
    | {"CompleteMultipartUpload", "AbortMultipartUpload", "ListParts"}
)
"""Of objects, which a member does not stand in the way of."""
_READS: Final = frozenset({"GetObject", "HeadObject"})
_ATTRIBUTES: Final = frozenset({"ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"})


class PackedSubresources:
    """Answers them. Keeps no state."""

    def __init__(self, packed: PackedObjects) -> None:
        self._packed = packed

    async def answer(self, admission: Admission, request: Request, reply: Reply, record: RequestRecord) -> bool:
        """Answers a request about a member; False: it is about no member. Raises S3Error, OriginError, Throttled."""
        operation, target, decision = admission.operation, admission.target, admission.decision
        if decision is None or decision.packed is None or operation.level != "object" or operation.name in _WRITES:
            return False
        if target.param("versionId") is not None:
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
        if operation.name == "GetObjectTagging":
            root = Element("Tagging")
            root.add("TagSet", "")
        elif operation.name == "GetObjectAttributes":
            root = _attributes(request.headers, found.head)
        elif operation.is_plain_read or operation.variant is not None:
            raise PackUnavailable(f"{found.stored.name.path} can't be read through the cache")
        elif operation.name in _READS:
            raise S3Error("InvalidRequest", "The key is a member of a pack, which has no parts and is not encrypted.")
        else:
            raise S3Error(
                "MethodNotAllowed", f"The key is a member of a pack, which {operation.name} does not apply to."
            )
        document = write_tree(root, S3_NAMESPACE)
        headers = (
            ("Content-Type", "application/xml"),
            ("Last-Modified", found.head.facts.last_modified),
            ("x-amz-request-id", record.request_id),
        )
        record.step = "reply"
        await reply.start(200, headers, len(document))
        await reply.write(document)
        await reply.finish()
        return True


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

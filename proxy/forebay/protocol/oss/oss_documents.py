"""The documents of S3's answers, told in OSS's terms.

Both have the same roots and mostly the same elements; `translated` gives what OSS's SDKs insist on:

- no namespace (their parsers find nothing under one);
- every time is `YYYY-MM-DDTHH:MM:SS.000Z`;
- a listing that is truncated says where it goes on, also where S3 leaves it to the last key;
- an object has a Type, an ETag in upper case and OSS's name of its storage class;
- names are percent-encoded where `encoding-type=url` was asked for, with %20 for a blank, as they are decoded without
  taking a plus for one.

What S3 tells and OSS has no word for is left out. Not here: errors (forebay.protocol.oss.oss_errors).

https://www.alibabacloud.com/help/en/oss/developer-reference/listobjectsv2
"""

import re
from collections.abc import Callable
from typing import Final
from urllib.parse import quote, unquote_plus

from forebay.protocol.oss.oss_errors import OssFailure, status_of
from forebay.protocol.oss.oss_headers import oss_etag, storage_class, type_of
from forebay.protocol.oss.oss_request import OssRequest
from forebay.protocol.oss.oss_vocabulary import DEFAULT_ACL
from forebay.protocol.xml.xml_tree import Element, read_tree, write_tree

MAX_SIZE: Final = 8 << 20
"""Bytes of a document that is translated: 1,000 keys of 1,024 bytes, every byte encoded, and as much again."""
_MAX_ELEMENTS: Final = 200_000
DOCUMENTS: Final = frozenset(
    {
        "CompleteMultipartUpload",
        "CopyObject",
        "DeleteMultipleObjects",
        "GetBucket (ListObjects)",
        "GetBucketAcl",
        "GetBucketInfo",
        "GetBucketLocation",
        "GetBucketTags",
        "GetBucketVersioning",
        "GetObjectAcl",
        "GetObjectTagging",
        "GetService (ListBuckets)",
        "InitiateMultipartUpload",
        "ListMultipartUploads",
        "ListObjectVersions",
        "ListObjectsV2",
        "ListParts",
        "UploadPartCopy",
    }
)
"""The operations whose success is told by a document."""

_TIME: Final = re.compile(r"(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(?:\.\d+)?Z")
_TIMES: Final = frozenset({"LastModified", "Initiated", "CreationDate"})
# Names that S3 encodes where encoding-type=url was asked for, and of these the ones that OSS encodes.
_ENCODED: Final = frozenset(
    {"Delimiter", "Key", "KeyMarker", "Marker", "NextKeyMarker", "NextMarker", "Prefix", "StartAfter"}
)
_TOKENS: Final = frozenset({"ContinuationToken", "NextContinuationToken"})  # encoded by OSS, never by S3
_UNKNOWN: Final = frozenset(
    {
        "AbortDate",
        "AbortRuleId",
        "BucketArn",
        "BucketRegion",
        "ChecksumAlgorithm",
        "ChecksumCRC32",
        "ChecksumCRC32C",
        "ChecksumCRC64NVME",
        "ChecksumSHA1",
        "ChecksumSHA256",
        "ChecksumType",
        "Initiator",
        "Location",
        "RestoreStatus",
    }
)
_RESULTS: Final = frozenset({"CompleteMultipartUploadResult", "CopyObjectResult", "CopyPartResult"})
_OF_OBJECTS: Final = frozenset({"Contents", "Version"})
_EPOCH: Final = "1970-01-01T00:00:00.000Z"


class OssLocation:
    """What a document says of the place it comes from."""

    __slots__ = ("endpoint", "region")

    def __init__(self, region: str, endpoint: str) -> None:
        """`region`: the origin's. `endpoint`: the host by which the client reaches Forebay, without a bucket."""
        self.region, self.endpoint = f"oss-{region}", endpoint


def read_s3_document(body: bytes) -> Element:
    """A document of the origin. Raises XMLRefused."""
    return read_tree(body, max_size=MAX_SIZE, max_elements=_MAX_ELEMENTS)


CrcOfPart = Callable[[int, str], int | None]
"""The CRC64 of the part with this number and ETag, where it is known."""


def to_oss_document(
    request: OssRequest,
    root: Element,
    location: OssLocation,
    created: str | None = None,
    crc_of_part: CrcOfPart | None = None,
) -> bytes:
    """The answer to `asked`, from S3's. Where they are known, `created`: the bucket's date (GetBucketInfo), and
    `part_crc`: of the parts that are listed (ListParts)."""
    match request.name:
        case "GetBucketInfo":
            told = _bucket_info(request, root, location, created)
        case "GetBucketLocation":
            told = Element("LocationConstraint", f"oss-{root.text}" if root.text else location.region)
        case "GetBucketAcl" | "GetObjectAcl":
            told = _acl(root)
        case "GetService (ListBuckets)":
            told = _buckets(request, root, location)
        case _:
            told = _copied(root)
            completion = _COMPLETED.get(told.name)
            if completion is not None:
                completion(told)
            if crc_of_part is not None and request.name == "ListParts":
                _add_part_crcs(told, crc_of_part)
            if request.encodes_names:
                _encode(told)
                _set(told, "EncodingType", "url")
    return write_tree(told)


def creation_date_of(root: Element, bucket: str) -> str | None:
    """The date of `bucket` in a list of buckets."""
    for each in root.all("Buckets"):
        for found in each.all("Bucket"):
            if found.told("Name") == bucket:
                return _time(found.told("CreationDate"))
    return None


def failed_batch_delete(root: Element) -> OssFailure | None:
    """The first error of a batch delete that tells of nothing it deleted: OSS's document has no place for errors, and
    a client that asked to be told nothing else must hear of them."""
    error = root.find("Error")
    if error is None or root.find("Deleted") is not None:
        return None
    code = error.told("Code") or "InternalError"
    return OssFailure(status_of(code), code, error.told("Message"), (("Key", error.told("Key")),))


def result_etag_of(root: Element) -> str:
    """The ETag in the answer to a completion or a copy, which OSS repeats in a header; empty if there is none."""
    return root.told("ETag") if root.name in _RESULTS else ""


def _copied(root: Element) -> Element:
    decode = root.told("EncodingType") == "url"

    def copy(element: Element) -> Element:
        name, text = element.name, element.text
        if name in _TIMES:
            text = _time(text)
        elif name == "ETag":
            text = f'"{oss_etag(text).strip(chr(34))}"' if text else text
        elif name == "StorageClass":
            text = storage_class(text)
        elif name in _ENCODED and decode:
            text = unquote_plus(text)
        copied = Element(name, text, [copy(child) for child in element.children if child.name not in _UNKNOWN])
        if name in _OF_OBJECTS:
            if copied.find("Type") is None:
                copied.add("Type", type_of(copied.told("ETag")))
            if copied.find("StorageClass") is None:
                copied.add("StorageClass", "Standard")
        return copied

    told = copy(root)
    told.children = [child for child in told.children if child.name not in {"EncodingType", "Error"}]
    return told


def _encode(element: Element) -> None:
    for child in element.children:
        if child.name in _ENCODED or child.name in _TOKENS:
            child.text = quote(child.text, safe="")
        _encode(child)


def _listing(told: Element) -> None:
    truncated = _truncated(told)
    if truncated and told.find("NextContinuationToken") is None and not told.told("NextMarker"):
        # The order is that of what is listed, so the last name of either kind is where it goes on.
        names = [told.all(kind)[-1].told(key) for kind, key in _NAMED if told.all(kind)]
        _set(told, "NextMarker", max(names, default=""))


_NAMED: Final = (("Contents", "Key"), ("CommonPrefixes", "Prefix"))


def _uploads(told: Element) -> None:
    _truncated(told)
    for name in ("NextKeyMarker", "NextUploadIdMarker"):
        _set(told, name, told.told(name))


def _parts(told: Element) -> None:
    _truncated(told)
    parts = told.all("Part")
    last = parts[-1].told("PartNumber") if parts else told.told("PartNumberMarker", default="0")
    _set(told, "NextPartNumberMarker", told.told("NextPartNumberMarker") or last)


def _add_part_crcs(told: Element, part_crc: CrcOfPart) -> None:
    """Who goes on with an upload combines these with those of the parts it sends, and compares with the whole object's
    (alibabacloud-oss-v2): so whoever tells that of the whole tells them all."""
    for part in told.all("Part"):
        number = part.told("PartNumber")
        crc = part_crc(int(number), part.told("ETag")) if number.isascii() and number.isdecimal() else None
        if crc is not None and part.find("HashCrc64ecma") is None:
            part.add("HashCrc64ecma", str(crc))


def _versions(told: Element) -> None:
    needed = ["Prefix", "KeyMarker", "VersionIdMarker", "Delimiter"]  # S3 leaves out what was not asked for
    if _truncated(told):
        needed += ["NextKeyMarker", "NextVersionIdMarker"]
    for name in needed:
        _set(told, name, told.told(name))


def _truncated(told: Element) -> bool:
    truncated = told.told("IsTruncated").lower() == "true"
    _set(told, "IsTruncated", "true" if truncated else "false")
    return truncated


_COMPLETED: Final[dict[str, Callable[[Element], None]]] = {
    "ListBucketResult": _listing,
    "ListMultipartUploadsResult": _uploads,
    "ListPartsResult": _parts,
    "ListVersionsResult": _versions,
}


def _acl(root: Element) -> Element:
    told = Element("AccessControlPolicy")
    told.children.append(_owner(root.find("Owner")))
    told.add("AccessControlList").add("Grant", _grant(root))
    return told


def _grant(root: Element) -> str:
    """The canned ACL of OSS that gives everybody what the grants of S3 give; what it can't tell is private. An origin
    that is OSS itself says where it is the bucket's."""
    if root.find(DEFAULT_ACL) is not None:
        return "default"
    everybody = set()
    for grants in root.all("AccessControlList"):
        for grant in grants.all("Grant"):
            if grant.told("Grantee", "URI").endswith("/groups/global/AllUsers"):
                everybody.add(grant.told("Permission"))
    if "FULL_CONTROL" in everybody or {"READ", "WRITE"} <= everybody:
        return "public-read-write"
    return "public-read" if "READ" in everybody else "private"


def _owner(owner: Element | None) -> Element:
    identity = owner.told("ID") if owner is not None else ""
    name = owner.told("DisplayName") if owner is not None else ""
    told = Element("Owner")
    told.add("ID", identity)
    told.add("DisplayName", name or identity)
    return told


def _bucket_info(request: OssRequest, root: Element, location: OssLocation, created: str | None) -> Element:
    told = Element("BucketInfo")
    bucket = told.add("Bucket")
    bucket.add("Name", request.target.bucket or "")
    bucket.add("Location", location.region)
    bucket.add("CreationDate", created or _EPOCH)
    bucket.add("ExtranetEndpoint", location.endpoint)
    bucket.add("IntranetEndpoint", location.endpoint)
    bucket.add("StorageClass", "Standard")
    bucket.children.append(_owner(root.find("Owner")))
    bucket.add("AccessControlList").add("Grant", _grant(root))
    return told


def _buckets(request: OssRequest, root: Element, location: OssLocation) -> Element:
    prefix, marker = request.original_target.param("prefix") or "", request.original_target.param("marker") or ""
    asked_for = request.original_target.param("max-keys") or ""
    most = int(asked_for) if re.fullmatch("[1-9][0-9]{0,3}", asked_for) else 100
    found = [bucket for each in root.all("Buckets") for bucket in each.all("Bucket")]
    wanted = [bucket for bucket in found if bucket.told("Name").startswith(prefix) and bucket.told("Name") > marker]
    wanted.sort(key=lambda bucket: bucket.told("Name"))
    told = Element("ListAllMyBucketsResult")
    told.children.append(_owner(root.find("Owner")))
    if prefix or marker or asked_for or len(wanted) > most:
        told.add("Prefix", prefix)
        told.add("Marker", marker)
        told.add("MaxKeys", str(most))
        told.add("IsTruncated", "true" if len(wanted) > most else "false")
        if len(wanted) > most:
            told.add("NextMarker", wanted[most - 1].told("Name"))
    buckets = told.add("Buckets")
    for bucket in wanted[:most]:
        one = buckets.add("Bucket")
        one.add("Name", bucket.told("Name"))
        one.add("Location", location.region)
        one.add("CreationDate", _time(bucket.told("CreationDate")) or _EPOCH)
        one.add("ExtranetEndpoint", location.endpoint)
        one.add("IntranetEndpoint", location.endpoint)
        one.add("StorageClass", "Standard")
    return told


def _time(text: str) -> str:
    found = _TIME.fullmatch(text.strip())
    return f"{found[1]}.000Z" if found is not None else text


def _set(element: Element, name: str, text: str) -> None:
    found = element.find(name)
    if found is None:
        # Before what is listed, as OSS has it.
        element.children.insert(0, Element(name, text))
    else:
        found.text = text

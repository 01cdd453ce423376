"""The documents of S3's responses, in the form that an OSS client reads.

Both sides have the same roots and mostly the same elements. `to_oss_document` adds what OSS's SDKs depend on:

- no namespace (their parsers find nothing under one);
- every time is `YYYY-MM-DDTHH:MM:SS.000Z`;
- a truncated listing names its next position, also where S3 leaves that to the last key;
- an object has a Type, an ETag in upper case and OSS's name of its storage class;
- names are percent-encoded where `encoding-type=url` was asked for, with %20 for a blank, as they are decoded without
  reading a plus as one.

Elements that OSS lacks are left out. Not here: errors (forebay.protocol.oss.oss_errors), and the other direction
(forebay.protocol.oss.oss_origin_documents).

https://www.alibabacloud.com/help/en/oss/developer-reference/listobjectsv2
"""

import re
from collections.abc import Callable
from typing import Final
from urllib.parse import quote, unquote_plus

from forebay.protocol.oss.oss_errors import OssFailure, status_of
from forebay.protocol.oss.oss_headers import STORAGE_CLASSES, object_type_of, oss_etag
from forebay.protocol.oss.oss_request import OssRequest
from forebay.protocol.xml.xml_tree import Element, read_tree, write_tree

MAX_SIZE: Final = 8 << 20
"""Bytes of a document that is translated: 1,000 keys of 1,024 bytes, every byte encoded, and as much again."""
_MAX_ELEMENTS: Final = 200_000
ENCODED_NAMES: Final = frozenset(
    {"Delimiter", "Key", "KeyMarker", "Marker", "NextKeyMarker", "NextMarker", "Prefix", "StartAfter"}
)
"""Elements with percent-encoded text, on both sides, under `encoding-type=url`."""
CONTINUATION_TOKENS: Final = frozenset({"ContinuationToken", "NextContinuationToken"})
"""Elements that OSS encodes then, and S3 never."""
ALL_USERS: Final = "http://acs.amazonaws.com/groups/global/AllUsers"
DEFAULT_ACL: Final = "DefaultAcl"
"""An element of our own beside the grants of an OSS origin's object: its ACL is `default`, the bucket's, which S3
lacks."""

_TIME: Final = re.compile(r"(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(?:\.\d+)?Z")
_TIMES: Final = frozenset({"LastModified", "Initiated", "CreationDate"})
# fmt: off
_ONLY_S3: Final = frozenset(
    {
        "AbortDate", "AbortRuleId", "BucketArn", "BucketRegion", "ChecksumAlgorithm", "ChecksumCRC32",
        "ChecksumCRC32C", "ChecksumCRC64NVME", "ChecksumSHA1", "ChecksumSHA256", "ChecksumType", "Initiator",
        "Location", "RestoreStatus",
    }
)
# fmt: on
_RESULTS: Final = frozenset({"CompleteMultipartUploadResult", "CopyObjectResult", "CopyPartResult"})
_OBJECTS: Final = frozenset({"Contents", "Version"})
_LISTED: Final = (("Contents", "Key"), ("CommonPrefixes", "Prefix"))
_EPOCH: Final = "1970-01-01T00:00:00.000Z"


class OssLocation:
    """The region and the endpoint that documents name."""

    __slots__ = ("endpoint", "region")

    def __init__(self, region: str, endpoint: str) -> None:
        """`region`: the origin's. `endpoint`: the host by which the client reaches Forebay, without a bucket."""
        self.region, self.endpoint = f"oss-{region}", endpoint


CrcOfPart = Callable[[int, str], int | None]
"""The CRC-64 of the part with this number and ETag, where it is known."""


def read_origin_document(body: bytes) -> Element:
    """An origin's document. Raises MalformedXml."""
    return read_tree(body, max_size=MAX_SIZE, max_elements=_MAX_ELEMENTS)


def to_oss_document(
    request: OssRequest,
    root: Element,
    location: OssLocation,
    created: str | None = None,
    crc_of_part: CrcOfPart | None = None,
) -> bytes:
    """Converts S3's document for `request`. `created`: the bucket's date, if it is known (GetBucketInfo).
    `crc_of_part`: for the parts of ListParts.
    """
    match request.name:
        case "GetBucketInfo":
            document = _bucket_info(request, root, location, created)
        case "GetBucketLocation":
            document = Element("LocationConstraint", f"oss-{root.text}" if root.text else location.region)
        case "GetBucketAcl" | "GetObjectAcl":
            document = _acl(root)
        case "GetService (ListBuckets)":
            document = _buckets(request, root, location)
        case _:
            document = _translated(root)
            complete = _COMPLETIONS.get(document.name)
            if complete is not None:
                complete(document)
            if crc_of_part is not None and request.name == "ListParts":
                _add_part_crcs(document, crc_of_part)
            if request.encodes_names:
                _encode(document)
                _set(document, "EncodingType", "url")
    return write_tree(document)


def creation_date_of(root: Element, bucket: str) -> str | None:
    """The date of `bucket` in a list of buckets."""
    return next(
        (_time(each.text_at("CreationDate")) for each in _buckets_of(root) if each.text_at("Name") == bucket), None
    )


def failed_batch_delete(root: Element) -> OssFailure | None:
    """The first error of a batch delete that names no deleted key; None otherwise.

    OSS's document has no place for errors, and a client that asked for a quiet response must hear of them.
    """
    error = root.find("Error")
    if error is None or root.find("Deleted") is not None:
        return None
    code = error.text_at("Code") or "InternalError"
    return OssFailure(status_of(code), code, error.text_at("Message"), (("Key", error.text_at("Key")),))


def result_etag_of(root: Element) -> str:
    """The ETag in the response to a completion or a copy, which OSS repeats in a header; empty if there is none."""
    return root.text_at("ETag") if root.name in _RESULTS else ""


def _translated(root: Element) -> Element:
    decode = root.text_at("EncodingType") == "url"

    def copy(element: Element) -> Element:
        name, text = element.name, element.text
        if name in _TIMES:
            text = _time(text)
        elif name == "ETag":
            text = f'"{oss_etag(text).strip(chr(34))}"' if text else text
        elif name == "StorageClass":
            text = STORAGE_CLASSES.oss_response(text)
        elif name in ENCODED_NAMES and decode:
            text = unquote_plus(text)
        copied = Element(name, text, [copy(child) for child in element.children if child.name not in _ONLY_S3])
        if name in _OBJECTS:
            if copied.find("Type") is None:
                copied.add("Type", object_type_of(copied.text_at("ETag")))
            if copied.find("StorageClass") is None:
                copied.add("StorageClass", "Standard")
        return copied

    document = copy(root)
    document.children = [child for child in document.children if child.name not in {"EncodingType", "Error"}]
    return document


def _encode(element: Element) -> None:
    for child in element.children:
        if child.name in ENCODED_NAMES or child.name in CONTINUATION_TOKENS:
            child.text = quote(child.text, safe="")
        _encode(child)


def _complete_listing(document: Element) -> None:
    truncated = _normalise_truncated(document)
    if truncated and document.find("NextContinuationToken") is None and not document.text_at("NextMarker"):
        # Both kinds are listed in one order, so it goes on after the last name of either.
        names = [document.all(kind)[-1].text_at(key) for kind, key in _LISTED if document.all(kind)]
        _set(document, "NextMarker", max(names, default=""))


def _complete_uploads(document: Element) -> None:
    _normalise_truncated(document)
    for name in ("NextKeyMarker", "NextUploadIdMarker"):
        _set(document, name, document.text_at(name))


def _complete_parts(document: Element) -> None:
    _normalise_truncated(document)
    parts = document.all("Part")
    last = parts[-1].text_at("PartNumber") if parts else document.text_at("PartNumberMarker", default="0")
    _set(document, "NextPartNumberMarker", document.text_at("NextPartNumberMarker") or last)


def _add_part_crcs(document: Element, crc_of_part: CrcOfPart) -> None:
    """Adds the CRC-64 of each part. A client that resumes an upload (alibabacloud-oss-v2) combines them with those of
    its own parts, and compares the result with that of the whole object, which Forebay sends."""
    for part in document.all("Part"):
        number = part.text_at("PartNumber")
        crc = crc_of_part(int(number), part.text_at("ETag")) if number.isascii() and number.isdecimal() else None
        if crc is not None and part.find("HashCrc64ecma") is None:
            part.add("HashCrc64ecma", str(crc))


def _complete_versions(document: Element) -> None:
    needed = ["Prefix", "KeyMarker", "VersionIdMarker", "Delimiter"]  # S3 leaves out what was not asked for
    if _normalise_truncated(document):
        needed += ["NextKeyMarker", "NextVersionIdMarker"]
    for name in needed:
        _set(document, name, document.text_at(name))


def _normalise_truncated(document: Element) -> bool:
    truncated = document.text_at("IsTruncated").lower() == "true"
    _set(document, "IsTruncated", "true" if truncated else "false")
    return truncated


_COMPLETIONS: Final[dict[str, Callable[[Element], None]]] = {
    "ListBucketResult": _complete_listing,
    "ListMultipartUploadsResult": _complete_uploads,
    "ListPartsResult": _complete_parts,
    "ListVersionsResult": _complete_versions,
}


def _acl(root: Element) -> Element:
    document = Element("AccessControlPolicy")
    document.children.append(_owner(root))
    document.add("AccessControlList").add("Grant", _canned_acl(root))
    return document


def _canned_acl(root: Element) -> str:
    """Returns the canned ACL of OSS that grants everybody the same as S3's grants; private if OSS has no such ACL."""
    if root.find(DEFAULT_ACL) is not None:
        return "default"
    everybody = {
        grant.text_at("Permission")
        for grants in root.all("AccessControlList")
        for grant in grants.all("Grant")
        if grant.text_at("Grantee", "URI").endswith("/groups/global/AllUsers")
    }
    if "FULL_CONTROL" in everybody or {"READ", "WRITE"} <= everybody:
        return "public-read-write"
    return "public-read" if "READ" in everybody else "private"


def _owner(root: Element) -> Element:
    identity = root.text_at("Owner", "ID")
    owner = Element("Owner")
    owner.add("ID", identity)
    owner.add("DisplayName", root.text_at("Owner", "DisplayName") or identity)
    return owner


def _add_bucket(parent: Element, name: str, created: str | None, location: OssLocation) -> Element:
    bucket = parent.add("Bucket")
    bucket.add("Name", name)
    bucket.add("Location", location.region)
    bucket.add("CreationDate", created or _EPOCH)
    bucket.add("ExtranetEndpoint", location.endpoint)
    bucket.add("IntranetEndpoint", location.endpoint)
    bucket.add("StorageClass", "Standard")
    return bucket


def _bucket_info(request: OssRequest, root: Element, location: OssLocation, created: str | None) -> Element:
    document = Element("BucketInfo")
    bucket = _add_bucket(document, request.target.bucket or "", created, location)
    bucket.children.append(_owner(root))
    bucket.add("AccessControlList").add("Grant", _canned_acl(root))
    return document


def _buckets_of(root: Element) -> list[Element]:
    return [bucket for each in root.all("Buckets") for bucket in each.all("Bucket")]


def _buckets(request: OssRequest, root: Element, location: OssLocation) -> Element:
    """Returns the requested page of the whole list, which S3 returned."""
    target = request.original_target
    prefix, marker, max_keys = (target.param(name) or "" for name in ("prefix", "marker", "max-keys"))
    limit = int(max_keys) if re.fullmatch("[1-9][0-9]{0,3}", max_keys) else 100
    buckets = [
        bucket
        for bucket in _buckets_of(root)
        if bucket.text_at("Name").startswith(prefix) and bucket.text_at("Name") > marker
    ]
    buckets.sort(key=lambda bucket: bucket.text_at("Name"))
    document = Element("ListAllMyBucketsResult")
    document.children.append(_owner(root))
    if prefix or marker or max_keys or len(buckets) > limit:
        document.add("Prefix", prefix)
        document.add("Marker", marker)
        document.add("MaxKeys", str(limit))
        document.add("IsTruncated", "true" if len(buckets) > limit else "false")
        if len(buckets) > limit:
            document.add("NextMarker", buckets[limit - 1].text_at("Name"))
    listed = document.add("Buckets")
    for bucket in buckets[:limit]:
        _add_bucket(listed, bucket.text_at("Name"), _time(bucket.text_at("CreationDate")), location)
    return document


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

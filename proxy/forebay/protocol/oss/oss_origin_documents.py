"""The documents of an OSS origin's responses, in S3's terms.

Names arrive percent-encoded, since OSS is always asked for them so, and leave as the client asked: encoded, or plain.
The other direction, S3's documents for an OSS client: forebay.protocol.oss.oss_documents.
"""

from types import MappingProxyType
from typing import Final
from urllib.parse import quote, unquote

from forebay.core.errors import MalformedOssDocument, MalformedXml
from forebay.protocol.oss.oss_documents import (
    ALL_USERS,
    CONTINUATION_TOKENS,
    DEFAULT_ACL,
    ENCODED_NAMES,
    read_origin_document,
)
from forebay.protocol.oss.oss_headers import STORAGE_CLASSES
from forebay.protocol.oss.oss_request_documents import branch
from forebay.protocol.xml.xml_tree import S3_NAMESPACE, Element, write_tree

_ENCODED_ROOTS: Final = frozenset(
    {"ListBucketResult", "ListMultipartUploadsResult", "ListPartsResult", "ListVersionsResult"}
)
# OSS writes empty ones, which S3 leaves out.
_NOT_EMPTY: Final = frozenset({"ContinuationToken", "NextContinuationToken", "NextMarker", "StartAfter"})
_ENTRIES: Final = frozenset({"CommonPrefixes", "Contents", "DeleteMarker", "Part", "Upload", "Version"})
_NEXT: Final = frozenset(
    {"NextContinuationToken", "NextKeyMarker", "NextMarker", "NextUploadIdMarker", "NextVersionIdMarker"}
)
_OF_EMPTY_PAGE: Final = MappingProxyType(
    {
        **dict.fromkeys(("KeyCount", "MaxKeys", "MaxParts", "MaxUploads", "NextPartNumberMarker"), "0"),
        "IsTruncated": "false",
    }
)
_PERMISSIONS: Final = MappingProxyType({"public-read": ("READ",), "public-read-write": ("READ", "WRITE")})


def s3_document(operation: str, body: bytes, *, encoded: bool, is_empty: bool = False) -> bytes:
    """The document of a success. `encoded`: the client asked for percent-encoded names; `is_empty`: for a page without
    entries, which OSS does not have. Raises MalformedOssDocument."""
    if operation == "DeleteObjects" and not body.strip():
        return write_tree(branch("DeleteResult"), S3_NAMESPACE)  # it was asked to be quiet
    try:
        tree = read_origin_document(body)
    except MalformedXml as unreadable:
        raise MalformedOssDocument(str(unreadable)) from unreadable
    if tree.name == "AccessControlPolicy":
        tree = _grants(tree)
    elif tree.name == "LocationConstraint":
        tree.text = tree.text.strip().removeprefix("oss-")
    elif tree.name == "ListAllMyBucketsResult":
        tree = _buckets(tree)
    else:
        if is_empty:
            _empty_page(tree)
        _translate(tree, encoded=encoded and tree.name != "DeleteResult")
    return write_tree(tree, S3_NAMESPACE)


def _empty_page(tree: Element) -> None:
    """Removes the entries of a page, and the fields from which a client would request the next page."""
    tree.children = [child for child in tree.children if child.name not in _ENTRIES and child.name not in _NEXT]
    for child in tree.children:
        child.text = _OF_EMPTY_PAGE.get(child.name, child.text)


def _translate(tree: Element, *, encoded: bool) -> None:
    arrived_encoded = tree.text_at("EncodingType") == "url"
    tree.children = [child for child in tree.children if child.name != "EncodingType"]
    if encoded and tree.name in _ENCODED_ROOTS:
        tree.children.append(Element("EncodingType", "url"))
    _translate_names(tree, arrived_encoded=arrived_encoded, encoded=encoded)
    tree.children = [child for child in tree.children if child.text or child.children or child.name not in _NOT_EMPTY]
    if tree.name == "ListBucketResult" and tree.find("KeyCount") is None and tree.find("Marker") is None:
        count = sum(child.name in {"Contents", "CommonPrefixes"} for child in tree.children)
        tree.children.append(Element("KeyCount", str(count)))


def _translate_names(element: Element, *, arrived_encoded: bool, encoded: bool) -> None:
    for child in element.children:
        if child.children:
            _translate_names(child, arrived_encoded=arrived_encoded, encoded=encoded)
        elif child.name in ENCODED_NAMES or child.name in CONTINUATION_TOKENS:
            if arrived_encoded:
                child.text = unquote(child.text)
            # A token is opaque to a client of S3, which hands it back as it came, whatever the encoding.
            if encoded and child.name not in CONTINUATION_TOKENS:
                child.text = quote(child.text, safe="/")
        elif child.name == "StorageClass":
            child.text = STORAGE_CLASSES.s3_response(child.text)


def _grants(tree: Element) -> Element:
    """Returns the grants of a canned ACL of OSS."""
    canned = tree.text_at("AccessControlList", "Grant")
    owner = Element("ID", tree.text_at("Owner", "ID")), Element("DisplayName", tree.text_at("Owner", "DisplayName"))
    grants = [branch("Grant", _grantee("CanonicalUser", *owner), Element("Permission", "FULL_CONTROL"))]
    grants += [
        branch("Grant", _grantee("Group", Element("URI", ALL_USERS)), Element("Permission", permission))
        for permission in _PERMISSIONS.get(canned, ())
    ]
    policy = branch("AccessControlPolicy", branch("Owner", *owner), branch("AccessControlList", *grants))
    if canned == "default":
        policy.add(DEFAULT_ACL)
    return policy


def _grantee(kind: str, *children: Element) -> Element:
    schema = "http://www.w3.org/2001/XMLSchema-instance"
    return Element("Grantee", "", list(children), f'xmlns:xsi="{schema}" xsi:type="{kind}"')


def _buckets(tree: Element) -> Element:
    buckets = [
        branch("Bucket", *(Element(name, each.text_at(name)) for name in ("Name", "CreationDate")))
        for parent in tree.all("Buckets")
        for each in parent.all("Bucket")
    ]
    owner = branch("Owner", *(Element(name, tree.text_at("Owner", name)) for name in ("ID", "DisplayName")))
    listed = branch("ListAllMyBucketsResult", owner, branch("Buckets", *buckets))
    if tree.text_at("IsTruncated") == "true":
        listed.add("ContinuationToken", tree.text_at("NextMarker"))
    return listed

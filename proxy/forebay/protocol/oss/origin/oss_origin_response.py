"""An answer of OSS, in S3's terms: its headers, its errors, its documents.

Names in documents come percent-encoded, as they are always asked for so, and are told as the client asked: encoded, or
plain. An error keeps OSS's code where S3 has the same; its own fields (EC, which the vendor's support asks for) stay.
HEAD has no body, so OSS puts the error of one into a header (`x-oss-err`), base64: the status says all that S3 says.

https://www.alibabacloud.com/help/en/oss/support/http-status-code-1
"""

from collections.abc import Iterable
from types import MappingProxyType
from typing import Final
from urllib.parse import quote, unquote

from forebay.core.heads import HeaderPairs
from forebay.protocol.oss.origin.oss_origin_documents import LIMIT, MOST, branch
from forebay.protocol.oss.origin.oss_origin_headers import s3_class, s3_response_header
from forebay.protocol.oss.oss_vocabulary import DEFAULT_ACL
from forebay.protocol.xml.strict_parser import XMLRefused
from forebay.protocol.xml.xml_tree import S3_NAMESPACE, Element, read_tree, write_tree

# OSS's code -> S3's, and its status where that is another one.
_CODES: Final = MappingProxyType(
    {
        "FileAlreadyExists": ("PreconditionFailed", 412),
        "FilePartNotExist": ("InvalidPart", 400),
        "InvalidObjectName": ("InvalidArgument", 400),
        "InvalidSecurityToken": ("InvalidToken", 400),
        "SecurityTokenExpired": ("ExpiredToken", 400),
        "ServerBusy": ("SlowDown", 503),
        "QpsLimitExceeded": ("SlowDown", 503),
        "DownloadTrafficRateLimitExceeded": ("SlowDown", 503),
        "UploadTrafficRateLimitExceeded": ("SlowDown", 503),
        "TotalQpsLimitExceeded": ("SlowDown", 503),
    }
)
_NAMES: Final = frozenset(
    {
        "ContinuationToken",
        "Delimiter",
        "Key",
        "KeyMarker",
        "Marker",
        "NextContinuationToken",
        "NextKeyMarker",
        "NextMarker",
        "Prefix",
        "StartAfter",
    }
)
# Opaque to a client of S3, which hands it back as it came, whatever the encoding.
_TOKENS: Final = frozenset({"ContinuationToken", "NextContinuationToken"})
_ENCODED_ROOTS: Final = frozenset(
    {"DeleteResult", "ListBucketResult", "ListMultipartUploadsResult", "ListPartsResult", "ListVersionsResult"}
)
# OSS writes empty ones, which S3 leaves out.
_NOT_EMPTY: Final = frozenset({"ContinuationToken", "NextContinuationToken", "NextMarker", "StartAfter"})
_ALL_USERS: Final = "http://acs.amazonaws.com/groups/global/AllUsers"
_GRANTED: Final = MappingProxyType({"public-read": ("READ",), "public-read-write": ("READ", "WRITE")})


class NotOssDocument(Exception):  # named for what happened, as all errors here
    """A document that can't be one of OSS's answers to what was asked."""


def s3_response_headers(headers: Iterable[tuple[str, str]]) -> HeaderPairs:
    """The headers of an answer: the transport's and the object's as they are, OSS's own translated or left out."""
    told = []
    for name, value in headers:
        lower = name.lower()
        if lower == "server":
            continue
        if not lower.startswith("x-oss-"):
            told.append((name, value))
        elif (translated := s3_response_header(lower, value)) is not None:
            told.append(translated)
    return tuple(told)


def s3_error(status: int, body: bytes, *, copies: bool) -> tuple[int, bytes]:
    """The status and the document of a refusal. A body that can't be read goes as none. `copies`: the source's
    conditions, of which S3 tells 412 where OSS tells 304."""
    if copies and status == 304:
        condition = Element("Message", "A condition on the source does not hold.")
        return 412, write_tree(branch("Error", Element("Code", "PreconditionFailed"), condition))
    try:
        tree = read_tree(body, max_size=LIMIT, max_elements=MOST)
    except XMLRefused:
        return status, b""
    if tree.name != "Error":
        return status, b""
    code, status = _CODES.get(tree.told("Code"), (tree.told("Code"), status))
    for child in tree.children:
        if child.name == "Code":
            child.text = code
    tree.children = [child for child in tree.children if child.name not in {"HostId", "RecommendDoc"}]
    return status, write_tree(tree)


def s3_document(operation: str, body: bytes, *, encoded: bool) -> bytes:
    """The document of a success. `encoded`: the client asked for names in percent-encoding. Raises Untold."""
    if operation == "DeleteObjects" and not body.strip():
        return write_tree(branch("DeleteResult"), S3_NAMESPACE)  # asked to be quiet
    try:
        tree = read_tree(body, max_size=LIMIT, max_elements=MOST)
    except XMLRefused as unreadable:
        raise NotOssDocument(str(unreadable)) from unreadable
    if tree.name == "AccessControlPolicy":
        tree = _policy(tree)
    elif tree.name == "LocationConstraint":
        tree.text = tree.text.strip().removeprefix("oss-")
    elif tree.name == "ListAllMyBucketsResult":
        tree = _buckets(tree)
    else:
        _translate(tree, encoded=encoded)
    return write_tree(tree, S3_NAMESPACE)


def _translate(tree: Element, *, encoded: bool) -> None:
    told_encoded = tree.told("EncodingType") == "url"
    tree.children = [child for child in tree.children if child.name != "EncodingType"]
    if encoded and tree.name in _ENCODED_ROOTS - {"DeleteResult"}:
        tree.children.append(Element("EncodingType", "url"))
    encoded = encoded and tree.name != "DeleteResult"
    _translate_names(tree, told_encoded=told_encoded, encoded=encoded)
    tree.children = [child for child in tree.children if child.text or child.children or child.name not in _NOT_EMPTY]
    if tree.name == "ListBucketResult" and tree.find("KeyCount") is None and tree.find("Marker") is None:
        count = sum(child.name in {"Contents", "CommonPrefixes"} for child in tree.children)
        tree.children.append(Element("KeyCount", str(count)))


def _translate_names(element: Element, *, told_encoded: bool, encoded: bool) -> None:
    for child in element.children:
        if child.children:
            _translate_names(child, told_encoded=told_encoded, encoded=encoded)
        elif child.name in _NAMES:
            if told_encoded:
                child.text = unquote(child.text)
            if encoded and child.name not in _TOKENS:
                child.text = quote(child.text, safe="/")
        elif child.name == "StorageClass":
            child.text = s3_class(child.text)


def _policy(tree: Element) -> Element:
    """OSS's one grant as the grants that it means."""
    owner = Element("ID", tree.told("Owner", "ID")), Element("DisplayName", tree.told("Owner", "DisplayName"))
    grants = [branch("Grant", _grantee("CanonicalUser", *owner), Element("Permission", "FULL_CONTROL"))]
    grants += [
        branch("Grant", _grantee("Group", Element("URI", _ALL_USERS)), Element("Permission", permission))
        for permission in _GRANTED.get(tree.told("AccessControlList", "Grant"), ())
    ]
    told = branch("AccessControlPolicy", branch("Owner", *owner), branch("AccessControlList", *grants))
    if tree.told("AccessControlList", "Grant") == "default":
        told.add(DEFAULT_ACL)
    return told


def _grantee(kind: str, *children: Element) -> Element:
    schema = "http://www.w3.org/2001/XMLSchema-instance"
    return Element("Grantee", "", list(children), f'xmlns:xsi="{schema}" xsi:type="{kind}"')


def _buckets(tree: Element) -> Element:
    buckets = [
        branch("Bucket", *(Element(name, each.told(name)) for name in ("Name", "CreationDate")))
        for parent in tree.all("Buckets")
        for each in parent.all("Bucket")
    ]
    owner = branch("Owner", *(Element(name, tree.told("Owner", name)) for name in ("ID", "DisplayName")))
    told = branch("ListAllMyBucketsResult", owner, branch("Buckets", *buckets))
    if tree.told("IsTruncated") == "true":
        told.children.append(Element("ContinuationToken", tree.told("NextMarker")))
    return told

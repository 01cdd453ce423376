"""A request of S3, translated for an OSS origin.

    PUT /key  x-amz-meta-a: 1  If-None-Match: *        ->   PUT /key  x-oss-meta-a: 1  x-oss-forbid-overwrite: true
    GET /key  Range: bytes=0-9                         ->   the same, and x-oss-range-behavior: standard
    HEAD /                                             ->   GET /?list-type=2&max-keys=1

An allow-list: a header or parameter that OSS lacks is refused (NotImplemented), because leaving it out would look like
success. Only S3's checksums, which were verified when the body was read, and requests for more detail are left out.

Ranges: without `x-oss-range-behavior: standard` OSS answers a range that is not completely inside the object with 200
and the whole object, so this header is added to every range. Invalid and multiple ranges, and ranges under If-Range,
which OSS lacks, are left out: the whole object is always a correct answer.

https://www.alibabacloud.com/help/en/oss/developer-reference/getobject
"""

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import md5
from typing import Final

from forebay.core.cooperative import CooperativeWork
from forebay.core.errors import S3Error
from forebay.core.heads import HeaderPairs
from forebay.protocol.oss.oss_headers import check_canned_acl, oss_origin_header
from forebay.protocol.oss.oss_operation_table import LISTINGS, check_carried
from forebay.protocol.oss.oss_request_documents import oss_request_document
from forebay.protocol.range_header import WHOLE, parse_range

Query = tuple[tuple[str, str], ...]

STREAMED: Final = frozenset({"PutObject", "PostObject", "UploadPart"})
"""Operations whose body is an object's bytes, which pass unchanged."""
READS: Final = frozenset({"GetObject", "HeadObject"})
MAX_KEYS: Final = 1000
PAGE_SIZES: Final = frozenset({"max-keys", "max-parts", "max-uploads"})

_OVERWRITING: Final = frozenset({"PutObject", "PostObject", "CopyObject", "CompleteMultipartUpload"})
# Their responses have names, in which XML may lack characters.
_ENCODED: Final = LISTINGS | {"DeleteObjects", "ListParts"}
_CONDITIONS: Final = frozenset({"if-match", "if-none-match", "if-modified-since", "if-unmodified-since"})
_LEFT_OUT: Final = frozenset(
    {
        "x-amz-optional-object-attributes",
        "x-amz-sdk-checksum-algorithm",
        "x-amz-user-agent",
    }
)
_CHECKSUM: Final = "x-amz-checksum-"


@dataclass(frozen=True, slots=True)
class OssOriginRequest:
    """A request in OSS's terms."""

    method: str
    query: Query
    headers: HeaderPairs
    body: bytes | None
    """The document; None: the body is streamed, or empty."""
    has_range: bool = False


def to_oss_request(
    operation: str, method: str, query: Query, headers: HeaderPairs, body: bytes, region: str, *, on_bucket: bool
) -> CooperativeWork[OssOriginRequest]:
    """Translates a request, as cooperative work.

    `operation`: as in forebay.protocol.operation_table. `body`: the document, unless the operation is STREAMED.
    `region`: the origin's. Raises S3Error NotImplemented, InvalidArgument, MalformedXML.
    """
    check_carried(operation)
    sent_query = Query(_query(operation, query))
    sent = list(_headers(operation, headers, on_bucket=on_bucket))
    ranged = False
    if operation == "GetObject":
        lower = {name.lower(): value for name, value in headers}
        value = lower.get("range", "").strip()
        ranged = "if-range" not in lower and parse_range(value) is not WHOLE
        if ranged:
            sent += [("Range", "".join(value.split())), ("x-oss-range-behavior", "standard")]
    if operation in STREAMED:
        return OssOriginRequest(method, sent_query, tuple(sent), None, ranged)
    if operation == "HeadBucket":
        method, sent_query = "GET", (("list-type", "2"), ("max-keys", "1"))
    document = yield from oss_request_document(operation, body, region)
    if document:
        digest = b64encode(md5(document, usedforsecurity=False).digest()).decode()
        sent += [("Content-Type", "application/xml"), ("Content-MD5", digest)]
    return OssOriginRequest(method, sent_query, tuple(sent), document, ranged)


def _query(operation: str, query: Query) -> Iterator[tuple[str, str]]:
    for name, value in query:
        if name in {"x-id", "encoding-type"} or name.lower().startswith("x-amz-"):
            continue
        if operation in READS and name == "partNumber":
            raise S3Error("NotImplemented", "OSS has no reads by part number.", ArgumentName=name)
        if operation in LISTINGS and not value and name not in {"versions", "uploads"}:
            continue
        if name in PAGE_SIZES:
            yield name, _page_size(value)
        elif operation == "ListBuckets":
            yield from _bucket_query(name, value)
        else:
            yield name, value
    if operation in _ENCODED:
        yield "encoding-type", "url"
    if operation in {"ListObjects", "ListObjectsV2"} and not any(name == "max-keys" for name, _ in query):
        yield "max-keys", str(MAX_KEYS)  # OSS's own default is 100
    if operation == "ListBuckets" and not any(name == "max-buckets" for name, _ in query):
        yield "max-keys", str(MAX_KEYS)


def is_empty_page(query: Query) -> bool:
    """Whether a query of S3 requests a page without entries, to which OSS is sent one of 1."""
    return any(name in PAGE_SIZES and _is_number(value) and int(value) == 0 for name, value in query)


def _page_size(value: str) -> str:
    """Returns the page size to send to OSS. `value`: that of S3, which may be 0 or above the largest page."""
    return str(min(max(int(value), 1), MAX_KEYS)) if _is_number(value) else value


def _is_number(value: str) -> bool:
    return value.isascii() and value.isdecimal() and len(value) < 10


def _bucket_query(name: str, value: str) -> Iterator[tuple[str, str]]:
    match name:
        case "prefix":
            yield name, value
        case "continuation-token":
            yield "marker", value
        case "max-buckets":
            yield "max-keys", str(min(int(value), MAX_KEYS)) if _is_number(value) else value
        case _:
            raise S3Error("NotImplemented", f"OSS lists no buckets by {name}.", ArgumentName=name)


def _headers(operation: str, headers: HeaderPairs, *, on_bucket: bool) -> Iterator[tuple[str, str]]:
    for name, value in headers:
        lower = name.lower()
        if lower.startswith("x-amz-"):
            yield from _s3_header(lower, value.strip(), on_bucket=on_bucket)
        elif lower in _CONDITIONS:
            yield from _condition(operation, lower, value.strip())
        elif lower in {"range", "if-range"}:
            continue
        elif lower in {"content-type", "content-md5"} and operation not in STREAMED and operation not in _KEEPS_TYPE:
            continue  # of a document, which is written anew
        else:
            yield name, value


_KEEPS_TYPE: Final = frozenset({"CopyObject", "CreateMultipartUpload"})


def _s3_header(lower: str, value: str, *, on_bucket: bool) -> Iterator[tuple[str, str]]:
    if lower in _LEFT_OUT or lower.startswith(_CHECKSUM):
        return
    if lower == "x-amz-acl":
        yield ("x-oss-acl" if on_bucket else "x-oss-object-acl"), check_canned_acl(value)
        return
    if lower == "x-amz-copy-source":
        yield "x-oss-copy-source", f"/{value}"
        return
    translated = oss_origin_header(lower, value)
    if translated is None:
        raise S3Error("NotImplemented", f"OSS has nothing like {lower}.", ArgumentName=lower)
    yield translated


def _condition(operation: str, lower: str, value: str) -> Iterator[tuple[str, str]]:
    if operation in READS:
        yield lower, value
    elif operation in _OVERWRITING and lower == "if-none-match" and value == "*":
        yield "x-oss-forbid-overwrite", "true"
    elif lower in {"if-match", "if-none-match"}:
        raise S3Error("NotImplemented", f"OSS has no {lower} of this request.", ArgumentName=lower)
    # S3 ignores the other two where they mean nothing, as is done here.

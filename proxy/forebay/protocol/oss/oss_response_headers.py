"""The headers of responses: S3's for an OSS client, an OSS origin's for S3.

Besides S3's headers of an object, an OSS client gets its type, its storage class, and its CRC-64 if it is known for
exactly this version. Both lanes use this module, so they answer alike.

https://www.alibabacloud.com/help/en/oss/developer-reference/common-http-headers
"""

from collections.abc import Iterable
from typing import Final

from forebay.core.heads import DURABLE, HeaderPairs
from forebay.protocol.oss.oss_headers import (
    CRC64,
    OBJECT_TYPE,
    object_type_of,
    oss_etag,
    oss_response_header,
    s3_response_header,
)
from forebay.protocol.oss.oss_request import OssRequest

_READS: Final = frozenset({"GetObject", "HeadObject", "GetObjectMeta"})
_FOREBAY: Final = "x-forebay-"
_DEFAULT_CLASS: Final = ("x-amz-storage-class", "STANDARD")  # which S3 never says, and the journal doesn't
# All that GetObjectMeta answers of an object.
_META_HEADERS: Final = frozenset({"content-length", "etag", "last-modified", CRC64, "x-oss-version-id", DURABLE})
REQUEST_ID: Final = "x-oss-request-id"
_OF_THE_ORIGIN: Final = frozenset({REQUEST_ID, "x-oss-server-time"})  # they describe the origin's own exchange


def oss_response_headers(request: OssRequest | None, status: int, headers: HeaderPairs, request_id: str) -> HeaderPairs:
    """Returns the headers of a response to an OSS client. `request` None: it could not be parsed."""
    ours = tuple(pair for pair in headers if _is_ours(pair[0].lower()))
    return (*oss_object_headers(request, status, headers), (REQUEST_ID, request_id), *ours)


def oss_object_headers(request: OssRequest | None, status: int, headers: HeaderPairs) -> HeaderPairs:
    """The headers of `oss_response_headers` that are about the object, not the request."""
    translated = list(_translated(headers))
    if request is None or request.name not in _READS or status not in {200, 206}:
        return tuple(translated)
    if request.name == "GetObjectMeta":
        return tuple(pair for pair in translated if pair[0].lower() in _META_HEADERS)
    names = {name.lower() for name, _ in translated}
    added = []
    if OBJECT_TYPE not in names:
        etag = next((value for name, value in translated if name.lower() == "etag"), "")
        added.append((OBJECT_TYPE, object_type_of(etag)))
    if "x-oss-storage-class" not in names:
        added.append(("x-oss-storage-class", "Standard"))
    return (*added, *translated)


def _translated(headers: HeaderPairs) -> Iterable[tuple[str, str]]:
    for name, value in headers:
        lower = name.lower()
        if lower.startswith("x-amz-"):
            translated = oss_response_header(lower, value)
            if translated is not None:
                yield translated
        elif lower == "etag":
            yield name, oss_etag(value)  # in front of OSS, too: the journal has digests of its own
        elif lower not in _OF_THE_ORIGIN and not _is_ours(lower):
            yield name, value


def _is_ours(lower: str) -> bool:
    """Whether a header is Forebay's, and about the request."""
    return lower.startswith(_FOREBAY) and lower != DURABLE  # this one is about the object, as a head has it


def s3_response_headers(headers: Iterable[tuple[str, str]]) -> HeaderPairs:
    """The headers of an OSS origin's response in S3's terms: the transport's and the object's as they are, OSS's own
    translated or left out."""
    translated = []
    for name, value in headers:
        lower = name.lower()
        if lower == "server":
            continue
        if not lower.startswith("x-oss-"):
            translated.append((name, value))
        elif (pair := s3_response_header(lower, value)) is not None and pair != _DEFAULT_CLASS:
            translated.append(pair)
    return tuple(translated)

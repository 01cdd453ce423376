"""The headers of answers, in OSS's terms: what S3's say, under OSS's names, and what OSS says besides.

Shown of an object, beside what S3 tells: its type, its storage class, and its CRC64 where that is known of exactly this
version. Both lanes use this, so that they answer alike.

https://www.alibabacloud.com/help/en/oss/developer-reference/common-http-headers
"""

from collections.abc import Iterable
from typing import Final

from forebay.core.heads import HeaderPairs
from forebay.protocol.oss.oss_headers import oss_etag, oss_response_header, type_of
from forebay.protocol.oss.oss_request import OssRequest
from forebay.protocol.oss.oss_vocabulary import CRC64, OBJECT_TYPE

_READS: Final = frozenset({"GetObject", "HeadObject", "GetObjectMeta"})
# GetObjectMeta tells no more than this of an object.
_META_TELLS: Final = frozenset({"content-length", "etag", "last-modified", CRC64, "x-oss-version-id"})
_OURS: Final = "x-forebay-"
REQUEST_ID: Final = "x-oss-request-id"
_ANEW: Final = frozenset({REQUEST_ID, "x-oss-server-time"})


def oss_response_headers(request: OssRequest | None, status: int, headers: HeaderPairs, request_id: str) -> HeaderPairs:
    """The headers of an answer. `asked` None: it was not understood."""
    ours = tuple(pair for pair in headers if pair[0].lower().startswith(_OURS))
    return (*oss_object_headers(request, status, headers), (REQUEST_ID, request_id), *ours)


def oss_object_headers(request: OssRequest | None, status: int, headers: HeaderPairs) -> HeaderPairs:
    """Those that are not about the request."""
    told = list(_told(headers, own_etags=request is not None and request.from_oss_origin))
    if request is None or request.name not in _READS or status not in {200, 206}:
        return tuple(told)
    if request.name == "GetObjectMeta":
        return tuple(pair for pair in told if pair[0].lower() in _META_TELLS)
    names = {name.lower() for name, _ in told}
    besides = []
    if OBJECT_TYPE not in names:
        etag = next((value for name, value in told if name.lower() == "etag"), "")
        besides.append((OBJECT_TYPE, type_of(etag)))
    if "x-oss-storage-class" not in names:
        besides.append(("x-oss-storage-class", "Standard"))
    return (*besides, *told)


def _told(headers: HeaderPairs, *, own_etags: bool) -> Iterable[tuple[str, str]]:
    for name, value in headers:
        lower = name.lower()
        if lower.startswith("x-amz-"):
            translated = oss_response_header(lower, value)
            if translated is not None:
                yield translated
        elif lower == "etag":
            yield name, value if own_etags else oss_etag(value)
        elif lower not in _ANEW and not lower.startswith(_OURS):
            yield name, value

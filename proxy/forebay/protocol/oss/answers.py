"""The headers of answers, in OSS's terms: what S3's say, under OSS's names, and what OSS says besides.

Shown of an object, beside what S3 tells: its type, its storage class, and its CRC64 where that is known of exactly this
version. Both lanes use this, so that they answer alike.

https://www.alibabacloud.com/help/en/oss/developer-reference/common-http-headers
"""

from collections.abc import Iterable
from typing import Final

from forebay.protocol.oss.asked import Asked
from forebay.protocol.oss.fields import CRC64, OBJECT_TYPE, answer_header, oss_etag, type_of
from forebay.words.heads import HeaderPairs

_READS: Final = frozenset({"GetObject", "HeadObject", "GetObjectMeta"})
# GetObjectMeta tells no more than this of an object.
_META_TELLS: Final = frozenset({"content-length", "etag", "last-modified", CRC64, "x-oss-version-id"})
_OURS: Final = "x-forebay-"
_ANEW: Final = frozenset({"x-oss-request-id", "x-oss-server-time"})


def answer_headers(asked: Asked | None, status: int, headers: HeaderPairs, request_id: str) -> HeaderPairs:
    """The headers of an answer that is no error. `asked` None: it was not understood. Content-Length is left to whoever
    knows the body."""
    read = asked is not None and asked.name in _READS and status in {200, 206}
    told = list(_told(headers, own_etags=asked is not None and asked.own_etags))
    if read:
        names = {name.lower() for name, _ in told}
        if OBJECT_TYPE not in names:
            told.append((OBJECT_TYPE, type_of(next((value for name, value in told if name.lower() == "etag"), ""))))
        if "x-oss-storage-class" not in names:
            told.append(("x-oss-storage-class", "Standard"))
        if asked is not None and asked.name == "GetObjectMeta":
            told = [pair for pair in told if pair[0].lower() in _META_TELLS or pair[0].lower().startswith(_OURS)]
    return (*told, ("x-oss-request-id", request_id))


def _told(headers: HeaderPairs, *, own_etags: bool) -> Iterable[tuple[str, str]]:
    for name, value in headers:
        lower = name.lower()
        if lower.startswith("x-amz-"):
            translated = answer_header(lower, value)
            if translated is not None:
                yield translated
        elif lower == "etag":
            yield name, value if own_etags else oss_etag(value)
        elif lower not in _ANEW:
            yield name, value

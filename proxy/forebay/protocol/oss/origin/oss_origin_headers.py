"""Names and values of headers on the way to an OSS origin and back: S3's and OSS's.

Most are the same after their prefix. What OSS has under a name of its own that S3 lacks stays under it: the CRC-64 and
the type of an object (see CRC64, OBJECT_TYPE), and storage classes that S3 has none like.

https://www.alibabacloud.com/help/en/oss/developer-reference/common-http-headers
"""

import re
from types import MappingProxyType
from typing import Final

from forebay.core.errors import S3Error
from forebay.protocol.header_map import Headers
from forebay.protocol.oss.oss_vocabulary import (
    CLASSES,
    CLASSES_BACK,
    COLDEST,
    CRC64,
    ENCRYPTION,
    ENCRYPTION_BACK,
    OBJECT_TYPE,
    lookup_value,
)

_NUMBER: Final = re.compile(r"[0-9]{1,20}")


# After the prefix, the same on both sides.
_ALIKE: Final = frozenset(
    {
        "copy-source-if-match",
        "copy-source-if-modified-since",
        "copy-source-if-none-match",
        "copy-source-if-unmodified-since",
        "copy-source-range",
        "copy-source-version-id",
        "delete-marker",
        "expiration",
        "metadata-directive",
        "request-charged",
        "request-id",
        "request-payer",
        "restore",
        "server-side-encryption",
        "storage-class",
        "tagging",
        "tagging-count",
        "tagging-directive",
        "version-id",
    }
)
_RENAMED: Final = MappingProxyType({"server-side-encryption-aws-kms-key-id": "server-side-encryption-key-id"})
_RENAMED_BACK: Final = MappingProxyType({oss: s3 for s3, oss in _RENAMED.items()})
_META: Final = "meta-"

# `default`, of objects: as the bucket's. S3 has no such thing, so only a client of OSS says it.
_CANNED: Final = frozenset({"default", "private", "public-read", "public-read-write"})


def oss_origin_header(lower: str, value: str) -> tuple[str, str] | None:
    """A header `x-amz-*` of a request in OSS's terms; None: OSS has none like it. Raises S3Error NotImplemented for a
    value that OSS has none like."""
    name = lower.removeprefix("x-amz-")
    if name.startswith(_META):
        return f"x-oss-{name}", value
    renamed = _RENAMED.get(name, name if name in _ALIKE else None)
    if renamed is None:
        return None
    match name:
        case "storage-class":
            value = oss_class(value)
        case "server-side-encryption":
            value = lookup_value(ENCRYPTION, lower, value, "OSS")
        case "tagging-directive":
            value = value.capitalize()
        case _:
            pass
    return f"x-oss-{renamed}", value


def s3_response_header(lower: str, value: str) -> tuple[str, str] | None:
    """A header `x-oss-*` of an answer in S3's terms, or under its own name; None: nothing to a client."""
    if lower in {CRC64, OBJECT_TYPE}:
        return lower, value
    name = lower.removeprefix("x-oss-")
    if name.startswith(_META):
        return f"x-amz-{name}", value
    renamed = _RENAMED_BACK.get(name, name if name in _ALIKE else None)
    if renamed is None:
        return None
    if name == "storage-class":
        value = s3_class(value)
    elif name == "server-side-encryption":
        value = ENCRYPTION_BACK.get(value, value)
    return f"x-amz-{renamed}", value


def oss_class(s3: str) -> str:
    """Raises S3Error NotImplemented."""
    return s3 if s3 == COLDEST else lookup_value(CLASSES, "x-amz-storage-class", s3, "OSS")


def s3_class(oss: str) -> str:
    return CLASSES_BACK.get(oss, oss)


def check_canned_acl(value: str) -> str:
    """A canned ACL that both have. Raises S3Error NotImplemented."""
    if value not in _CANNED:
        raise S3Error("NotImplemented", f"OSS has no canned ACL {value}.")
    return value


def crc64_of(headers: Headers) -> int | None:
    """The CRC-64 that headers tell of a whole object or part; None if they tell none."""
    told = headers.get(CRC64, "").strip()
    return int(told) if _NUMBER.fullmatch(told) else None

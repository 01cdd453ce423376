"""How headers and values are called on either side: OSS's names and S3's, and what stands in them.

Most are the same after their prefix. Where a value means the same under another name (storage classes, encryption,
directives), it is translated too; where S3 has nothing of the kind, it is refused rather than dropped, so that nobody
believes to have been obeyed.

https://www.alibabacloud.com/help/en/oss/developer-reference/common-http-headers
"""

import re
from types import MappingProxyType
from typing import Final

from forebay.protocol.etags import comparable, is_digest
from forebay.protocol.oss.oss_vocabulary import (
    CLASSES,
    CLASSES_BACK,
    COLDEST,
    ENCRYPTION,
    ENCRYPTION_BACK,
    lookup_value,
)

META: Final = "x-oss-meta-"
S3_META: Final = "x-amz-meta-"

# A member of a list of entity tags, with quotes or without.
_TAG: Final = re.compile(r'(W/)?"?([^",\s]*)"?')

# S3 has one class below Glacier where OSS has two, and OSS one where S3 has several.
_CLASSES_TO_S3: Final = MappingProxyType({**CLASSES_BACK, COLDEST: "DEEP_ARCHIVE"})
_CLASSES_TO_OSS: Final = MappingProxyType(
    {
        **CLASSES,
        "ONEZONE_IA": "IA",
        "INTELLIGENT_TIERING": "Standard",
        "REDUCED_REDUNDANCY": "Standard",
        "GLACIER_IR": "IA",
    }
)
# To an origin that is OSS itself, under the names of forebay.protocol.oss.origin.oss_origin_headers.
_AS_SAID: Final = frozenset({("x-oss-storage-class", COLDEST), ("x-oss-object-acl", "default")})

REQUEST_HEADERS: Final = MappingProxyType(
    {
        "x-oss-acl": "x-amz-acl",
        "x-oss-object-acl": "x-amz-acl",
        "x-oss-copy-source": "x-amz-copy-source",
        "x-oss-copy-source-if-match": "x-amz-copy-source-if-match",
        "x-oss-copy-source-if-modified-since": "x-amz-copy-source-if-modified-since",
        "x-oss-copy-source-if-none-match": "x-amz-copy-source-if-none-match",
        "x-oss-copy-source-if-unmodified-since": "x-amz-copy-source-if-unmodified-since",
        "x-oss-copy-source-range": "x-amz-copy-source-range",
        "x-oss-metadata-directive": "x-amz-metadata-directive",
        "x-oss-request-payer": "x-amz-request-payer",
        "x-oss-server-side-encryption": "x-amz-server-side-encryption",
        "x-oss-server-side-encryption-key-id": "x-amz-server-side-encryption-aws-kms-key-id",
        "x-oss-storage-class": "x-amz-storage-class",
        "x-oss-tagging": "x-amz-tagging",
        "x-oss-tagging-directive": "x-amz-tagging-directive",
    }
)
"""What becomes a header of S3's. The value: `request_value`."""
IGNORED: Final = frozenset(
    {
        "x-oss-content-sha256",
        "x-oss-date",
        "x-oss-forbid-overwrite",
        "x-oss-hash-crc64ecma",
        "x-oss-range-behavior",
        "x-oss-security-token",
        "x-oss-traffic-limit",
        "x-oss-user-agent",
    }
)
"""What is the signature's, is obeyed by Forebay itself, or only asks to be slower."""

_ANSWER_HEADERS: Final = MappingProxyType(
    {
        "x-amz-copy-source-version-id": "x-oss-copy-source-version-id",
        "x-amz-delete-marker": "x-oss-delete-marker",
        "x-amz-expiration": "x-oss-expiration",
        "x-amz-request-charged": "x-oss-request-charged",
        "x-amz-restore": "x-oss-restore",
        "x-amz-server-side-encryption": "x-oss-server-side-encryption",
        "x-amz-server-side-encryption-aws-kms-key-id": "x-oss-server-side-encryption-key-id",
        "x-amz-storage-class": "x-oss-storage-class",
        "x-amz-tagging-count": "x-oss-tagging-count",
        "x-amz-version-id": "x-oss-version-id",
    }
)
_ENCRYPTION_TO_OSS: Final = MappingProxyType({**ENCRYPTION, "aws:kms:dsse": "KMS"})


def request_value(name: str, value: str, *, from_oss_origin: bool = False) -> str | None:
    """The value that the header `name` (OSS's, lower case) has in S3's terms; None: it goes without. Raises S3Error.

    `own`: the origin is OSS itself, which is told what S3 has no word for as it was said.
    """
    if from_oss_origin and (name, value) in _AS_SAID:
        return value
    match name:
        case "x-oss-acl" | "x-oss-object-acl":
            return None if value == "default" else value
        case "x-oss-storage-class":
            return lookup_value(_CLASSES_TO_S3, name, value, "S3")
        case "x-oss-server-side-encryption":
            return lookup_value(ENCRYPTION_BACK, name, value, "S3")
        case "x-oss-metadata-directive" | "x-oss-tagging-directive":
            return value.upper()
        case "x-oss-copy-source-if-match" | "x-oss-copy-source-if-none-match":
            return value if from_oss_origin else s3_etags(value)
        case _:
            return value


def oss_response_header(lower: str, value: str) -> tuple[str, str] | None:
    """An `x-amz-` header of an answer (name in lower case) in OSS's terms; None: OSS has none like it."""
    if lower.startswith(S3_META):
        return META + lower.removeprefix(S3_META), value
    name = _ANSWER_HEADERS.get(lower)
    if name is None:
        return None
    if name == "x-oss-storage-class":
        value = storage_class(value)
    elif name == "x-oss-server-side-encryption":
        value = _ENCRYPTION_TO_OSS.get(value, value)
    return name, value


def storage_class(s3: str) -> str:
    """OSS's name of a storage class; one of another origin's own stays as it is."""
    return _CLASSES_TO_OSS.get(s3, s3)


def oss_etag(etag: str) -> str:
    """As OSS writes a digest: in upper case. What is none names something else, and stays as it is."""
    return etag.upper() if is_digest(etag) else etag


def s3_etags(value: str) -> str:
    """A list of entity tags as S3 writes them: digests in lower case, each tag in quotes."""
    if value.strip() == "*":
        return "*"
    tags = []
    for found in (_TAG.fullmatch(tag.strip()) for tag in value.split(",")):
        if found is None:
            return value  # no list of tags: what it is is for the origin to say
        weak, tag = found[1] or "", found[2]
        tags.append(f'{weak}"{comparable(tag)}"')
    return ", ".join(tags)


def type_of(etag: str) -> str:
    """The type that an object of S3 has in OSS's eyes, by its ETag."""
    return "Multipart" if is_digest(etag) and "-" in etag else "Normal"

"""Header names and values that S3 and OSS have for the same thing: one set of tables, read in both directions.

    an OSS client's request        -> S3      REQUEST_HEADERS, s3_request_value
    the response to that client    -> OSS     oss_response_header
    a request to an OSS origin     -> OSS     oss_origin_header
    the response of that origin    -> S3      s3_response_header

Most names are the same after their prefix. A value that one side lacks is refused in a request, because ignoring it
would look like success; in a response the nearest value replaces it. To and from an OSS origin, headers and values that
S3 lacks keep OSS's name: the CRC-64, the type of an object, the coldest storage class, the ACL `default`.

https://www.alibabacloud.com/help/en/oss/developer-reference/common-http-headers
"""

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from forebay.core.errors import S3Error
from forebay.protocol.conditions import is_digest, normalized_etag
from forebay.protocol.header_map import Headers

CRC64: Final = "x-oss-hash-crc64ecma"
OBJECT_TYPE: Final = "x-oss-object-type"
OSS_META: Final = "x-oss-meta-"
S3_META: Final = "x-amz-meta-"

_CRC64_VALUE: Final = re.compile(r"[0-9]{1,20}")
# A member of a list of entity tags, with quotes or without.
_TAG: Final = re.compile(r'(W/)?"?([^",\s]*)"?')


class ValueTable:
    """The values of one header on both sides."""

    __slots__ = ("_name", "_nearest_oss", "_nearest_s3", "_oss", "_s3")

    def __init__(
        self, name: str, same: Mapping[str, str], nearest_oss: Mapping[str, str], nearest_s3: Mapping[str, str]
    ) -> None:
        """`name`: the header's, after its prefix. `same`: S3's values to OSS's. `nearest_oss`: what an OSS client is
        shown for a value that OSS lacks. `nearest_s3`: what S3 is asked for a value that S3 lacks."""
        self._name = name
        self._oss = dict(same)
        self._s3 = {oss: s3 for s3, oss in same.items()}
        self._nearest_oss, self._nearest_s3 = dict(nearest_oss), dict(nearest_s3)

    def s3_request(self, oss: str) -> str:
        """The value in an OSS client's request, as S3 has it. Raises S3Error NotImplemented."""
        found = self._s3.get(oss) or self._nearest_s3.get(oss)
        return found if found is not None else self._refuse("S3", "x-oss-", oss)

    def oss_response(self, s3: str) -> str:
        """The value shown to an OSS client; an unknown one stays as it is."""
        return self._oss.get(s3) or self._nearest_oss.get(s3, s3)

    def oss_request(self, s3: str) -> str:
        """The value in a request to an OSS origin. Raises S3Error NotImplemented."""
        if s3 in self._nearest_s3:
            return s3  # OSS's own name, which an OSS client gave
        found = self._oss.get(s3)
        return found if found is not None else self._refuse("OSS", "x-amz-", s3)

    def s3_response(self, oss: str) -> str:
        """The value in an OSS origin's response, as S3 has it; an unknown one stays as it is."""
        return self._s3.get(oss, oss)

    def _refuse(self, side: str, prefix: str, value: str) -> str:
        raise S3Error("NotImplemented", f"{side} has nothing like {prefix}{self._name}: {value}.")


STORAGE_CLASSES: Final = ValueTable(
    "storage-class",
    {"STANDARD": "Standard", "STANDARD_IA": "IA", "GLACIER": "Archive", "DEEP_ARCHIVE": "ColdArchive"},
    # S3 has several classes where OSS has one, and one below Glacier where OSS has two.
    {"ONEZONE_IA": "IA", "INTELLIGENT_TIERING": "Standard", "REDUCED_REDUNDANCY": "Standard", "GLACIER_IR": "IA"},
    {"DeepColdArchive": "DEEP_ARCHIVE"},
)
_VALUES: Final = MappingProxyType(
    {
        "storage-class": STORAGE_CLASSES,
        "server-side-encryption": ValueTable(
            "server-side-encryption", {"AES256": "AES256", "aws:kms": "KMS"}, {"aws:kms:dsse": "KMS"}, {}
        ),
    }
)
# To an OSS origin under OSS's names, as S3 has none.
_ONLY_OSS: Final = frozenset({("x-oss-storage-class", "DeepColdArchive"), ("x-oss-object-acl", "default")})
_CANNED_ACLS: Final = frozenset({"default", "private", "public-read", "public-read-write"})

_RENAMED: Final = {"server-side-encryption-key-id": "server-side-encryption-aws-kms-key-id"}
# fmt: off
_IN_REQUESTS: Final = (
    "copy-source-if-match", "copy-source-if-modified-since", "copy-source-if-none-match",
    "copy-source-if-unmodified-since", "copy-source-range", "metadata-directive", "request-payer",
    "server-side-encryption", "server-side-encryption-key-id", "storage-class", "tagging", "tagging-directive",
)
_IN_RESPONSES: Final = (
    "copy-source-version-id", "delete-marker", "expiration", "request-charged", "restore",
    "server-side-encryption", "server-side-encryption-key-id", "storage-class", "tagging-count", "version-id",
)
# fmt: on


def _names(suffixes: Iterable[str]) -> Mapping[str, str]:
    """OSS's header names to S3's."""
    return MappingProxyType({f"x-oss-{name}": f"x-amz-{_RENAMED.get(name, name)}" for name in suffixes})


def _reversed(names: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType({s3: oss for oss, s3 in names.items()})


REQUEST_HEADERS: Final = MappingProxyType(
    {
        **_names(_IN_REQUESTS),
        "x-oss-acl": "x-amz-acl",
        "x-oss-object-acl": "x-amz-acl",
        "x-oss-copy-source": "x-amz-copy-source",
    }
)
"""OSS's request headers that become one of S3's. Their values: `s3_request_value`."""
# fmt: off
IGNORED: Final = frozenset(
    {
        "x-oss-content-sha256", "x-oss-date", "x-oss-forbid-overwrite", "x-oss-hash-crc64ecma",
        "x-oss-range-behavior", "x-oss-security-token", "x-oss-traffic-limit", "x-oss-user-agent",
    }
)
# fmt: on
"""OSS's request headers that belong to the signature, that Forebay obeys itself, or that only ask to be slower."""

_RESPONSE_HEADERS: Final = _reversed(_names(_IN_RESPONSES))
_FROM_ORIGIN: Final = _names({*_IN_REQUESTS, *_IN_RESPONSES, "request-id"})
_TO_ORIGIN: Final = _reversed(_FROM_ORIGIN)


def s3_request_value(name: str, value: str, *, origin_is_oss: bool = False) -> str | None:
    """The value of an OSS client's header `name` (lower case) in S3's terms; None: the header is left out.

    `origin_is_oss`: what S3 has no word for is passed on under OSS's name. Raises S3Error NotImplemented.
    """
    if origin_is_oss and (name, value) in _ONLY_OSS:
        return value
    match name:
        case "x-oss-acl" | "x-oss-object-acl":
            return None if value == "default" else value
        case "x-oss-metadata-directive" | "x-oss-tagging-directive":
            return value.upper()
        case "x-oss-copy-source-if-match" | "x-oss-copy-source-if-none-match":
            return value if origin_is_oss else s3_etags(value)
        case _:
            values = _VALUES.get(name.removeprefix("x-oss-"))
            return values.s3_request(value) if values is not None else value


def oss_response_header(lower: str, value: str) -> tuple[str, str] | None:
    """An `x-amz-*` header of a response (name in lower case) for an OSS client; None: OSS has none like it."""
    return _translated(lower, value, _RESPONSE_HEADERS, ValueTable.oss_response)


def oss_origin_header(lower: str, value: str) -> tuple[str, str] | None:
    """An `x-amz-*` header of a request (name in lower case) for an OSS origin; None: OSS has none like it.

    Raises S3Error NotImplemented for a value that OSS has none like.
    """
    if lower == "x-amz-tagging-directive":
        value = value.capitalize()
    return _translated(lower, value, _TO_ORIGIN, ValueTable.oss_request)


def s3_response_header(lower: str, value: str) -> tuple[str, str] | None:
    """An `x-oss-*` header of an OSS origin's response (name in lower case), in S3's terms or, where S3 has none,
    under its own name; None: it means nothing to a client."""
    if lower in {CRC64, OBJECT_TYPE}:
        return lower, value
    return _translated(lower, value, _FROM_ORIGIN, ValueTable.s3_response)


def _translated(
    lower: str, value: str, names: Mapping[str, str], convert: Callable[[ValueTable, str], str]
) -> tuple[str, str] | None:
    suffix = lower[len("x-amz-") :]  # as long as x-oss-
    if suffix.startswith("meta-"):
        return f"{'x-oss-' if lower.startswith(S3_META) else 'x-amz-'}{suffix}", value
    name, values = names.get(lower), _VALUES.get(suffix)
    if name is None:
        return None
    return name, convert(values, value) if values is not None else value


def check_canned_acl(value: str) -> str:
    """`value`, if it is a canned ACL that OSS has. Raises S3Error NotImplemented."""
    if value not in _CANNED_ACLS:
        raise S3Error("NotImplemented", f"OSS has no canned ACL {value}.")
    return value


def crc64_of(headers: Headers) -> int | None:
    """The CRC-64 of a whole object or part in a response's headers; None if they have none."""
    value = headers.get(CRC64, "").strip()
    return int(value) if _CRC64_VALUE.fullmatch(value) else None


def oss_etag(etag: str) -> str:
    """Returns `etag` as OSS writes it: a digest in upper case, anything else unchanged."""
    return etag.upper() if is_digest(etag) else etag


def s3_etags(value: str) -> str:
    """A list of entity tags as S3 writes them: digests in lower case, each tag in quotes."""
    if value.strip() == "*":
        return "*"
    tags = []
    for found in (_TAG.fullmatch(tag.strip()) for tag in value.split(",")):
        if found is None:
            return value  # not a list of tags: the origin judges it
        weak, tag = found[1] or "", found[2]
        tags.append(f'{weak}"{normalized_etag(tag)}"')
    return ", ".join(tags)


def object_type_of(etag: str) -> str:
    """The OSS type of an object of S3, by its ETag: `Multipart` or `Normal`."""
    return "Multipart" if is_digest(etag) and "-" in etag else "Normal"

"""Variants of a plain read that a cache can answer: a version by its id, and overridden response headers.

    ?versionId=...       that version. Its bytes never change, so it is cached by itself, without expiry
    ?response-*=...      replaces a header in the response, of a hit as of a miss; the override is not cached

Forwarded to the origin instead, because a cache can't know the response: the version `null`, which the next write
replaces; `partNumber`, because the part boundaries of an object that was read whole are unknown; values outside ASCII.
An override that is not a valid header value is refused, as S3 does.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html
"""

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from forebay.core.errors import S3Error
from forebay.core.heads import HeaderPairs

OVERRIDES: Final = MappingProxyType(
    {
        f"response-{name.lower()}": name
        for name in (
            "Cache-Control",
            "Content-Disposition",
            "Content-Encoding",
            "Content-Language",
            "Content-Type",
            "Expires",
        )
    }
)
"""The header that each query name overrides."""
VERSION: Final = "versionId"

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_VERSION_ID: Final = re.compile(r"[!-~]{1,1024}")


@dataclass(frozen=True, slots=True)
class ReadVariant:
    """The parameters of a read besides the object and the range."""

    version_id: str | None = None
    """None: the current version."""
    overrides: HeaderPairs = ()
    """Headers that replace the object's in the response."""

    def overridden(self, fields: HeaderPairs) -> HeaderPairs:
        """Returns `fields`, the headers of a response with the object's bytes, with this variant's overrides."""
        if not self.overrides:
            return fields
        replaced = {name.lower() for name, _ in self.overrides}
        return (*(pair for pair in fields if pair[0].lower() not in replaced), *self.overrides)


PLAIN: Final = ReadVariant()


def read_variant(query: tuple[tuple[str, str], ...]) -> ReadVariant | None:
    """Parses a query of only `versionId` and `response-*`; None if only the origin can answer the request.

    Raises S3Error InvalidArgument for an override that is not a valid header value.
    """
    version_id, overrides = None, []
    for name, value in query:
        header = OVERRIDES.get(name)
        if header is not None:
            if not _is_repeatable(name, value):
                return None
            overrides.append((header, value))
        elif name == VERSION:
            if value == "null" or not _VERSION_ID.fullmatch(value):
                return None
            version_id = value
    return ReadVariant(version_id, tuple(overrides))


def _is_repeatable(name: str, value: str) -> bool:
    """Whether Forebay can repeat an override unchanged. Raises S3Error InvalidArgument for an invalid header value."""
    try:
        value.encode("latin-1")
    except UnicodeEncodeError:
        message = "Header value cannot be represented using ISO-8859-1."
        raise S3Error("InvalidArgument", message, ArgumentName=name) from None
    if _CONTROL.search(value):
        raise S3Error("InvalidArgument", "A header value can't hold control characters.", ArgumentName=name)
    return value.isascii() and bool(value) and value == value.strip()

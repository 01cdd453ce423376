"""Variants of a plain read that a cache can answer: of a version by its id, and with headers overridden.

    ?versionId=...       that version. Its bytes never change, so it is kept apart from the current one and for ever
    ?response-*=...      the object's header replaced in the answer, of a hit as of a miss; nothing of it is kept

Passed on to the origin instead, because the answer can't be told here: the version `null`, which is replaced by the
next write; `partNumber`, as which bytes a part has is not known of an object that was read whole; values outside ASCII.
A value that can't stand in a header is refused, as S3 does.

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
"""Query name to the header that it replaces."""
VERSION: Final = "versionId"

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_VERSION_ID: Final = re.compile(r"[!-~]{1,1024}")


@dataclass(frozen=True, slots=True)
class ReadVariant:
    """What is asked of a read beyond the object and the range."""

    version_id: str | None = None
    """None: the current version."""
    overrides: HeaderPairs = ()
    """Headers of the answer, in place of the object's."""

    def overridden(self, fields: HeaderPairs) -> HeaderPairs:
        """The headers of an answer with the object's bytes, as this variant wants them."""
        if not self.overrides:
            return fields
        replaced = {name.lower() for name, _ in self.overrides}
        return (*(pair for pair in fields if pair[0].lower() not in replaced), *self.overrides)


PLAIN: Final = ReadVariant()


def read_variant(query: tuple[tuple[str, str], ...]) -> ReadVariant | None:
    """The variant that a query of nothing but `versionId` and `response-*` asks for; None: only the origin can answer.

    Raises S3Error InvalidArgument for a value that can't be a header's.
    """
    version_id, overrides = None, []
    for name, value in query:
        header = OVERRIDES.get(name)
        if header is not None:
            if not _fits(name, value):
                return None
            overrides.append((header, value))
        elif name == VERSION:
            if value == "null" or not _VERSION_ID.fullmatch(value):
                return None
            version_id = value
    return ReadVariant(version_id, tuple(overrides))


def _fits(name: str, value: str) -> bool:
    """Whether an override can be repeated as it is."""
    try:
        value.encode("latin-1")
    except UnicodeEncodeError:
        message = "Header value cannot be represented using ISO-8859-1."
        raise S3Error("InvalidArgument", message, ArgumentName=name) from None
    if _CONTROL.search(value):
        raise S3Error("InvalidArgument", "A header value can't hold control characters.", ArgumentName=name)
    return value.isascii() and bool(value) and value == value.strip()

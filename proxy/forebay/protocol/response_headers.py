"""The headers of an object: those of responses to clients, and the facts that an origin's response contains.

`facts_from` reads the headers that belong to the object itself, by an allow-list; headers of the connection, the
request or the current state are never cached. `*_headers` write them into a response. Not here: bodies, and the reasons
against caching that are not in the response.

OSS's own headers (`x-oss-*`: type, CRC64) are cached under their names, and sent only to clients that speak OSS.

Checksums (`x-amz-checksum-*`) are of the whole object, and make SDKs fail on any other bytes. So they are read only
from a response with the whole object, and sent only with the whole object and on request. A range that covers the
whole object counts as such only for an object that was not uploaded in parts: S3 may send the checksum of the part
instead.

Never cached: state that changes while the version stays (replication), `Set-Cookie`, and unknown headers. An object
that is archived, restored or encrypted with the customer's key has no facts, nor has an appendable object or a symlink
of OSS: only the origin knows, at each request, what it is and whether it is readable.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html, RFC 9110 sections 8.8.3, 14.4 and 15.4.5
"""

import re
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from forebay.core.byte_ranges import Span
from forebay.core.heads import HeaderPairs, ObjectFacts
from forebay.core.names import Version
from forebay.protocol.header_map import Headers

# More digits than any object's size; Python refuses to parse very long numbers.
_SIZE: Final = re.compile(r"[0-9]{1,18}")
_CONTENT_RANGE: Final = re.compile(r"bytes[ \t]+([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})", re.IGNORECASE)
_STRONG_ETAG: Final = re.compile(r'"[!#-~\x80-\xff]+"')

_KEPT: Final = frozenset(
    {
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-type",
        "expires",
        "x-oss-hash-crc64ecma",
        "x-oss-object-type",
        "x-robots-tag",  # Swift's
    }
)
# The x-amz-* headers that belong to the request, the connection or the current state, not to the object.
_NOT_KEPT: Final = frozenset(
    {
        "x-amz-access-point-alias",
        "x-amz-bucket-region",
        "x-amz-cf-id",
        "x-amz-cf-pop",
        "x-amz-delete-marker",
        "x-amz-id-2",
        "x-amz-mp-parts-count",
        "x-amz-replication-status",
        "x-amz-request-charged",
        "x-amz-request-id",
        "x-amz-version-id",  # a field of Version
    }
)
_CHECKSUM: Final = "x-amz-checksum-"
_OSS: Final = "x-oss-"
# Only the origin can say, for each request, whether such an object is readable.
_NOT_CACHEABLE: Final = frozenset(
    {
        "x-amz-archive-status",
        "x-amz-restore",
        "x-amz-server-side-encryption-customer-algorithm",
    }
)
_ARCHIVED: Final = frozenset({"GLACIER", "DEEP_ARCHIVE", "DeepColdArchive"})
# The object types of OSS whose bytes are determined by their ETag. An appendable object grows, and a symlink's ETag is
# not that of its target's bytes: only the origin can answer for these two.
_IMMUTABLE_TYPES: Final = frozenset({"Normal", "Multipart"})
_NOT_MODIFIED: Final = frozenset({"cache-control", "expires"})
_USER_METADATA: Final = "x-amz-meta-"
_VERSION_ID: Final = "x-amz-version-id"

ISOLATION_HEADERS: Final = (
    ("Content-Security-Policy", "default-src 'none'; sandbox"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("X-Content-Type-Options", "nosniff"),
)
"""Headers that keep a browser from running an object as a page or a script: https://www.w3.org/TR/CSP3/#directive-sandbox,
https://fetch.spec.whatwg.org/#x-content-type-options-header"""


def requests_checksums(headers: Headers) -> bool:
    """Whether a read requests the object's checksums (x-amz-checksum-mode)."""
    mode = headers.get("x-amz-checksum-mode")
    return mode is not None and mode.strip().upper() == "ENABLED"


def checksums_missing(facts: ObjectFacts) -> bool:
    """Whether the origin may have checksums of the object that the facts lack."""
    return not facts.checksums_known and not checksum_headers(facts)


def checksum_headers(facts: ObjectFacts) -> HeaderPairs:
    """Returns the checksums among an object's headers, and their type."""
    return tuple([pair for pair in facts.headers if _is_checksum(pair[0])])


_HIDDEN: Final = {
    (checksums, oss): tuple(prefix for prefix, shown in ((_CHECKSUM, checksums), (_OSS, oss)) if not shown)
    for checksums in (False, True)
    for oss in (False, True)
}
"""Prefixes of object headers that a response leaves out, by whether it shows checksums and OSS's headers."""


def whole_headers(facts: ObjectFacts, *, checksums: bool = False, oss: bool = False) -> HeaderPairs:
    """Returns the headers of 200 with the whole object, and of HEAD without a range.

    `checksums`: the client requested them. `oss`: the client speaks OSS.
    """
    hidden = _HIDDEN[checksums, oss]
    return (*_without_prefixes(facts.headers, hidden), *_validators(facts), ("Content-Length", str(facts.size)))


def partial_headers(facts: ObjectFacts, span: Span, *, oss: bool = False) -> HeaderPairs:
    """Returns the headers of 206 with `span`, and of HEAD with a range. The span is not empty and lies in the object.

    OSS sends the CRC64 of the whole object here, too.
    """
    return (
        *_without_prefixes(facts.headers, (_CHECKSUM,) if oss else (_CHECKSUM, _OSS)),
        *_validators(facts),
        ("Content-Range", f"bytes {span.start}-{span.stop - 1}/{facts.size}"),
        ("Content-Length", str(span.length)),
    )


def not_modified_headers(facts: ObjectFacts) -> HeaderPairs:
    """Returns the headers of 304: those of a 200 that name the version or guide caches (RFC 9110 section 15.4.5)."""
    kept = (pair for pair in facts.headers if pair[0].lower() in _NOT_MODIFIED)
    return (*kept, *_validators(facts))


def unsatisfiable_headers(size: int) -> HeaderPairs:
    """Returns the headers of 416 for an object of `size` bytes, without those of the error document."""
    return (("Content-Range", f"bytes */{size}"), ("Accept-Ranges", "bytes"))


def facts_from(status: int, headers: Headers) -> ObjectFacts | None:
    """Reads the facts of an object from a 200 or 206 to a plain GET or HEAD.

    None if the headers are inconsistent or the object must not be cached. Such a response can be forwarded still.
    """
    pairs = tuple(headers.items())
    roles = field_roles(tuple([name for name, _ in pairs]))
    if roles is None:
        return None
    etag, length = pairs[roles.etag][1].strip(), pairs[roles.length][1].strip()
    size = _object_size(status, headers, length, pairs[roles.range][1].strip() if roles.range >= 0 else None)
    if size is None or not _STRONG_ETAG.fullmatch(etag):
        return None
    if roles.is_restricted:
        if headers.get("x-amz-storage-class") in _ARCHIVED:
            return None
        if headers.get("x-oss-object-type", "Normal") not in _IMMUTABLE_TYPES:
            return None
    checksums_known = status == 200 or (length == str(size) and "-" not in etag)
    kept = roles.kept_with_checksums if checksums_known else roles.kept
    version = Version(etag, pairs[roles.version_id][1] if roles.version_id >= 0 else None)
    last_modified = pairs[roles.last_modified][1] if roles.last_modified >= 0 else ""
    return ObjectFacts(version, size, last_modified, tuple([pairs[at] for at in kept]), checksums_known)


def repeated_facts(headers: Headers) -> HeaderPairs:
    """Returns the facts of an object that a 304 repeats, names in small letters: those that RFC 9110, 15.4.5 asks for,
    the version id and user metadata. Its other headers may be of the response rather than of the object."""
    lowered = [(name.lower(), value) for name, value in headers.items()]
    return tuple(
        [pair for pair in lowered if pair[0] in _NOT_MODIFIED or pair[0].startswith((_USER_METADATA, _VERSION_ID))]
    )


def agrees(facts: ObjectFacts, repeated: HeaderPairs) -> bool:
    """Whether all facts that a 304 repeats are as they are known."""
    known = {name.lower(): value for name, value in facts.headers}
    return all(
        (facts.version.version_id if name == _VERSION_ID else known.get(name)) == value for name, value in repeated
    )


@lru_cache(maxsize=256)  # parsed twice for each response, and the same for small objects
def parse_content_range(value: str) -> tuple[Span, int] | None:
    """Parses `bytes 0-9/100` to (Span(0, 10), 100); None for any other value, also for one without the size."""
    found = _CONTENT_RANGE.fullmatch(value.strip())
    if found is None:
        return None
    first, last, total = (int(number) for number in found.groups())
    return (Span(first, last + 1), total) if first <= last < total else None


def _validators(facts: ObjectFacts) -> HeaderPairs:
    pairs: list[tuple[str, str]] = [("ETag", facts.version.etag)]
    if facts.last_modified:
        pairs.append(("Last-Modified", facts.last_modified))
    if facts.version.version_id is not None:
        pairs.append(("x-amz-version-id", facts.version.version_id))
    pairs.append(("Accept-Ranges", "bytes"))
    return tuple(pairs)


def _object_size(status: int, headers: Headers, length: str, content_range: str | None) -> int | None:
    """Returns the size of the whole object; None if it is missing or the headers disagree."""
    if not _SIZE.fullmatch(length):
        return None
    if status == 200:
        return None if content_range is not None else int(length)
    if status != 206 or headers.get("Content-Type", "").strip().lower().startswith("multipart/byteranges"):
        return None
    parsed = parse_content_range(content_range) if content_range is not None else None
    if parsed is None or parsed[0].length != int(length):
        return None
    return parsed[1]


def _is_checksum(name: str) -> bool:
    return name[: len(_CHECKSUM)].lower() == _CHECKSUM


@lru_cache(maxsize=256)  # many objects have the same ones
def _without_prefixes(headers: HeaderPairs, hidden: tuple[str, ...]) -> HeaderPairs:
    return tuple([pair for pair in headers if not pair[0].lower().startswith(hidden)])


def _role(name: str) -> Literal["kept", "checksum", "uncacheable", "dropped"]:
    """The role of a header for the facts of an object: a field of the object, a checksum, or a reason not to cache
    it."""
    lower = name.lower()
    if lower in _NOT_CACHEABLE:
        return "uncacheable"
    if lower.startswith(_CHECKSUM):
        return "checksum"
    if lower.startswith("x-amz-"):
        return "dropped" if lower in _NOT_KEPT else "kept"
    return "kept" if lower in _KEPT else "dropped"


class FieldRoles(NamedTuple):
    """The positions of an object's facts among the fields of a response; -1: absent."""

    etag: int
    length: int
    range: int
    last_modified: int
    version_id: int
    kept: tuple[int, ...]
    """The positions of headers that belong to the object itself, without its checksums."""
    kept_with_checksums: tuple[int, ...]
    is_restricted: bool
    """Whether there is a field that may say that only the origin can answer for the object."""


@lru_cache(maxsize=1024)  # an origin's responses have the same fields each time
def field_roles(names: tuple[str, ...]) -> FieldRoles | None:
    """Returns the roles of the fields of a response for the facts of an object; None: with these names, the response
    can't have facts."""
    lowered, roles = [name.lower() for name in names], [_role(name) for name in names]
    is_ambiguous = any(lowered.count(name) > 1 for name in ("etag", "content-length", "content-range"))
    if is_ambiguous or "transfer-encoding" in lowered or "uncacheable" in roles:
        return None
    if "etag" not in lowered or "content-length" not in lowered:
        return None

    def position(name: str) -> int:
        return lowered.index(name) if name in lowered else -1

    return FieldRoles(
        lowered.index("etag"),
        lowered.index("content-length"),
        position("content-range"),
        position("last-modified"),
        position("x-amz-version-id"),
        tuple([at for at, role in enumerate(roles) if role == "kept"]),
        tuple([at for at, role in enumerate(roles) if role in {"kept", "checksum"}]),
        any(name in {"x-amz-storage-class", "x-oss-object-type"} for name in lowered),
    )

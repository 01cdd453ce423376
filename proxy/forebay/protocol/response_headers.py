"""The headers of answers: what a hit says of an object, and what an origin's answer lets us believe of it.

`facts_from` takes the headers that belong to the object itself, by an allow-list; nothing of the connection, the
request or the moment gets into the cache. `*_headers` write them again for the answer to be given. Not here: bodies,
and whether an answer may be cached for other reasons than what it says itself.

What only OSS tells (`x-oss-*`: type, CRC64) is kept under its own names, and shown to those who speak OSS.

Checksums (`x-amz-checksum-*`) are of the whole object, and would make SDKs fail on anything else. So they are believed
only of an answer with all of it, and given only with all of it and when asked for. An answer to a range that covers
everything is believed only of an object that was not uploaded in parts: S3 may give the checksum of the part instead.

Never kept, and why: the state that changes while the version stays (replication); `Set-Cookie` and
anything unknown. An object that is archived, restored or encrypted with the customer's key gives no facts, nor does one
of OSS that can be appended to, or a symlink: what it is and whether it can be read is for the origin to say each time.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html, RFC 9110 sections 8.8.3, 14.4 and 15.4.5
"""

import re
from functools import lru_cache
from typing import Final

from forebay.core.byte_ranges import Span
from forebay.core.heads import HeaderPairs, ObjectFacts
from forebay.core.names import Version
from forebay.protocol.header_map import Headers

# Numbers of more digits are no sizes, and Python refuses to read very long ones.
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
# Of the x-amz-* headers, those that are of the request, the connection or the moment.
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
        "x-amz-version-id",  # stands in Version
    }
)
_CHECKSUM: Final = "x-amz-checksum-"
_OSS: Final = "x-oss-"
# Whether the bytes of such an object can be read is decided anew each time.
_NO_FACTS: Final = frozenset(
    {
        "x-amz-archive-status",
        "x-amz-restore",
        "x-amz-server-side-encryption-customer-algorithm",
    }
)
_ARCHIVED: Final = frozenset({"GLACIER", "DEEP_ARCHIVE", "DeepColdArchive"})
# Types of objects of OSS whose bytes stay the same under their ETag. An appendable object grows, and a symlink's ETag
# is not that of the bytes it leads to: both are the origin's to answer.
_LASTING: Final = frozenset({"Normal", "Multipart"})
_NOT_MODIFIED: Final = frozenset({"cache-control", "expires"})


def requests_checksums(headers: Headers) -> bool:
    """Whether a read asks for the object's checksums."""
    return headers.get("x-amz-checksum-mode", "").strip().upper() == "ENABLED"


def checksums_missing(facts: ObjectFacts) -> bool:
    """Whether the object may have checksums at the origin that are not among its facts."""
    return not facts.checksums_known and not any(_is_checksum(name) for name, _ in facts.headers)


def whole_headers(facts: ObjectFacts, *, checksums: bool = False, oss: bool = False) -> HeaderPairs:
    """The headers of 200 with the whole object, and of HEAD without a range. `checksums`: the client asked for them;
    `oss`: it speaks OSS."""
    hidden = tuple(prefix for prefix, shown in ((_CHECKSUM, checksums), (_OSS, oss)) if not shown)
    return (*_shown(facts, hidden), *_validators(facts), ("Content-Length", str(facts.size)))


def partial_headers(facts: ObjectFacts, span: Span, *, oss: bool = False) -> HeaderPairs:
    """The headers of 206 with `span`, and of HEAD with a range. The span is not empty and lies in the object. OSS tells
    the CRC64 of the whole object here too."""
    return (
        *_shown(facts, (_CHECKSUM,) if oss else (_CHECKSUM, _OSS)),
        *_validators(facts),
        ("Content-Range", f"bytes {span.start}-{span.stop - 1}/{facts.size}"),
        ("Content-Length", str(span.length)),
    )


def not_modified_headers(facts: ObjectFacts) -> HeaderPairs:
    """The headers of 304: those of a 200 that guide caches, and no other of the object's (RFC 9110 section 15.4.5)."""
    kept = (pair for pair in facts.headers if pair[0].lower() in _NOT_MODIFIED)
    return (*kept, ("ETag", facts.version.etag), ("Accept-Ranges", "bytes"))


def unsatisfiable_headers(size: int) -> HeaderPairs:
    """The headers of 416 that are not those of its error document."""
    return (("Content-Range", f"bytes */{size}"), ("Accept-Ranges", "bytes"))


def facts_from(status: int, headers: Headers) -> ObjectFacts | None:
    """What a 200 or 206 to a plain GET or HEAD says of the object; None if it can't be believed or must not be kept.

    An answer without facts may still be passed on; it is never cached.
    """
    size = _object_size(status, headers)
    etag = _only(headers, "ETag")
    if size is None or etag is None or not _STRONG_ETAG.fullmatch(etag):
        return None
    lower = [name.lower() for name in headers]
    if not _NO_FACTS.isdisjoint(lower) or headers.get("x-amz-storage-class") in _ARCHIVED:
        return None
    if headers.get("x-oss-object-type", "Normal") not in _LASTING:
        return None
    version = Version(etag, headers.get("x-amz-version-id"))
    told = status == 200 or (headers.get("Content-Length") == str(size) and "-" not in etag)
    kept = tuple(
        (name, value)
        for (name, value), lowered in zip(headers.items(), lower, strict=True)
        if _is_of_the_object(lowered) and (told or not lowered.startswith(_CHECKSUM))
    )
    return ObjectFacts(version, size, headers.get("Last-Modified", ""), kept, told)


@lru_cache(maxsize=256)  # each answer's is looked at twice, and those of small objects are alike
def parse_content_range(value: str) -> tuple[Span, int] | None:
    """`bytes 0-9/100` as (Span(0, 10), 100); None for anything else, also where the size is not given."""
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


def _object_size(status: int, headers: Headers) -> int | None:
    """The size of the whole object, if everything that is said of it agrees."""
    length = _only(headers, "Content-Length")
    if length is None or not _SIZE.fullmatch(length) or "Transfer-Encoding" in headers:
        return None
    if status == 200:
        return None if "Content-Range" in headers else int(length)
    if status != 206 or headers.get("Content-Type", "").strip().lower().startswith("multipart/byteranges"):
        return None
    given = _only(headers, "Content-Range")
    parsed = parse_content_range(given) if given is not None else None
    if parsed is None or parsed[0].length != int(length):
        return None
    return parsed[1]


def _is_checksum(name: str) -> bool:
    return name[: len(_CHECKSUM)].lower() == _CHECKSUM


def _shown(facts: ObjectFacts, hidden: tuple[str, ...]) -> HeaderPairs:
    return tuple([pair for pair in facts.headers if not pair[0].lower().startswith(hidden)])


def _is_of_the_object(name: str) -> bool:
    if name.startswith("x-amz-"):
        return name not in _NOT_KEPT
    return name in _KEPT


def _only(headers: Headers, name: str) -> str | None:
    """The value of a header that is there exactly once."""
    values = headers.getall(name, [])
    return values[0].strip() if len(values) == 1 else None

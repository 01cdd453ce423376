"""Conditional requests and entity tags: evaluates the conditions of a GET or HEAD against the current version.

The order of RFC 9110 section 13.2.2:

    If-Match            present: false is 412; true skips If-Unmodified-Since and continues with If-None-Match
    If-Unmodified-Since only without If-Match: false is 412
    If-None-Match       present: false is 304; true proceeds, and skips If-Modified-Since
    If-Modified-Since   only without If-None-Match: false is 304
    If-Range            last; decides only whether the Range header applies

This includes the two combinations that Amazon documents for GetObject: If-Match true with If-Unmodified-Since false
is 200, If-None-Match false with If-Modified-Since true is 304.

If-Match and If-Range use strong comparison (a weak tag matches nothing), If-None-Match uses weak comparison. Clients
need two extensions of the RFC: a tag may come without quotes, and the case of a hexadecimal digest is ignored (OSS and
its clients write upper case, other origins lower case). An invalid date and an empty value are ignored.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from forebay.protocol.dates import parse_http_date
from forebay.protocol.header_map import Headers


@dataclass(frozen=True, slots=True)
class Proceed:
    """The conditions hold, or there are none: the request is answered normally."""


@dataclass(frozen=True, slots=True)
class NotModified:
    """304: the client has this version."""


@dataclass(frozen=True, slots=True)
class PreconditionFailed:
    """412: a precondition is false."""

    condition: str
    """The name of the header, as in S3's error document."""


ConditionResult: TypeAlias = Proceed | NotModified | PreconditionFailed

PROCEED: Final = Proceed()
NOT_MODIFIED: Final = NotModified()

# A member of a list of entity tags: weak or strong, in quotes (which may hold commas) or without, as some SDKs send it.
_TAG: Final = re.compile(r'[ \t,]*(W/)?(?:"([^"]*)"|([^\s,"]+))[ \t]*(?=,|$)')
_DIGEST: Final = re.compile(r"[0-9A-Fa-f]{32}(?:-[0-9]+)?")


def evaluate_conditions(headers: Headers, etag: str, last_modified: str) -> ConditionResult:
    """Evaluates the conditions of a GET or HEAD against the current version, except If-Range.

    `etag`: strong and quoted. `last_modified`: an HTTP date; "" if it is unknown.
    """
    if_match = _list_value(headers, "If-Match") if "If-Match" in headers else None
    if if_match is not None:
        if not _matches(if_match, etag, weakly=False):
            return PreconditionFailed("If-Match")
    elif "If-Unmodified-Since" in headers and (since := _date_value(headers, "If-Unmodified-Since")) is not None:
        modified = parse_http_date(last_modified)
        if modified is not None and modified > since:
            return PreconditionFailed("If-Unmodified-Since")
    if_none_match = _list_value(headers, "If-None-Match") if "If-None-Match" in headers else None
    if if_none_match is not None:
        return NOT_MODIFIED if _matches(if_none_match, etag, weakly=True) else PROCEED
    if "If-Modified-Since" in headers and (since := _date_value(headers, "If-Modified-Since")) is not None:
        modified = parse_http_date(last_modified)
        if modified is not None and modified <= since:
            return NOT_MODIFIED
    return PROCEED


def range_applies(if_range: str | None, etag: str, last_modified: str) -> bool:
    """Whether the Range header applies: there is no If-Range, or its value is exactly this version.

    Otherwise the whole object is the answer.
    """
    if if_range is None:
        return True
    date = parse_http_date(if_range)
    if date is not None:
        # Exactly the same date, not a later one: RFC 9110 section 13.1.5.
        return date == parse_http_date(last_modified)
    found = _TAG.fullmatch(if_range)
    return found is not None and _matches(if_range, etag, weakly=False) and if_range.strip() != "*"


def _list_value(headers: Headers, name: str) -> str | None:
    """Returns the values of the headers of that name, which are there, as one list; None if all are empty."""
    return ",".join(headers.getall(name)).strip(" \t,") or None


def _date_value(headers: Headers, name: str) -> int | None:
    return parse_http_date(headers[name].strip())


def _matches(tags: str, etag: str, *, weakly: bool) -> bool:
    if tags == "*":
        return True
    current = normalized_etag(etag)
    return any(tag == current for tag in _parse_tags(tags, weakly=weakly))


def _parse_tags(tags: str, *, weakly: bool) -> Iterator[str]:
    """Yields the normalised tags of a list up to the first syntax error. Weak tags only if `weakly`."""
    at = 0
    while (found := _TAG.match(tags, at)) is not None:
        weak, quoted, bare = found.groups()
        if weakly or weak is None:
            yield normalized_etag(quoted if quoted is not None else bare)
        at = found.end()


def is_digest(etag: str) -> bool:
    """Whether a tag is a hexadecimal digest: the MD5 of an object, or of a multipart object with its part count."""
    return _DIGEST.fullmatch(etag.strip('"')) is not None


def normalized_etag(etag: str) -> str:
    """Returns the tag without quotes, and in lower case if it is a digest. The case of any other tag is significant."""
    return folded_etag(etag) if is_digest(etag) else etag.strip('"')


def folded_etag(etag: str) -> str:
    """Returns the tag without quotes, in lower case. For tags that an origin derives from content: always digests."""
    return etag.strip('"').lower()


def same_etag(first: str, second: str) -> bool:
    """Whether two tags of an origin are equal, however a client or another response spells them."""
    return folded_etag(first) == folded_etag(second)

"""Conditional requests: whether a GET or HEAD goes on, judged against the version that would be answered.

The order of RFC 9110 section 13.2.2:

    If-Match            given: false is 412, true goes on to If-None-Match; then If-Unmodified-Since is not looked at
    If-Unmodified-Since only without If-Match: false is 412
    If-None-Match       given: false is 304, true goes on; then If-Modified-Since is not looked at
    If-Modified-Since   only without If-None-Match: false is 304
    If-Range            last, and only decides whether the Range counts

That includes the two combinations that Amazon documents for GetObject: If-Match true with If-Unmodified-Since false
is 200, If-None-Match false with If-Modified-Since true is 304.

If-Match and If-Range compare strongly (a weak tag matches nothing), If-None-Match weakly. Beyond the RFC, because
clients do it: tags without quotes are tags, and the case of a tag that is a hexadecimal digest means nothing (clients
of Alibaba write upper case where other origins write lower). A date that is none is ignored, as is an empty value.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from forebay.protocol.dates import parse_http_date
from forebay.protocol.header_map import Headers


@dataclass(frozen=True, slots=True)
class Proceed:
    """Answer as if there were no condition."""


@dataclass(frozen=True, slots=True)
class NotModified:
    """Answer 304: the client has this version."""


@dataclass(frozen=True, slots=True)
class PreconditionFailed:
    """Answer 412. `condition` is the header that did not hold, as S3 names it in its error document."""

    condition: str


ConditionResult: TypeAlias = Proceed | NotModified | PreconditionFailed

PROCEED: Final = Proceed()
NOT_MODIFIED: Final = NotModified()

# A member of a list of entity tags: weak or not, in quotes (which may hold commas) or, as some SDKs send it, without.
_TAG: Final = re.compile(r'[ \t,]*(W/)?(?:"([^"]*)"|([^\s,"]+))[ \t]*(?=,|$)')
_DIGEST: Final = re.compile(r"[0-9A-Fa-f]{32}(?:-[0-9]+)?")


def evaluate_conditions(headers: Headers, etag: str, last_modified: str) -> ConditionResult:
    """Whether a GET or HEAD of the version with this (strong, quoted) ETag and Last-Modified ("": unknown) goes on."""
    if_match = _given(headers, "If-Match")
    if if_match is not None:
        if not _matches(if_match, etag, weakly=False):
            return PreconditionFailed("If-Match")
    elif (since := _date(headers, "If-Unmodified-Since")) is not None:
        modified = parse_http_date(last_modified)
        if modified is not None and modified > since:
            return PreconditionFailed("If-Unmodified-Since")
    if_none_match = _given(headers, "If-None-Match")
    if if_none_match is not None:
        return NOT_MODIFIED if _matches(if_none_match, etag, weakly=True) else PROCEED
    if (since := _date(headers, "If-Modified-Since")) is not None:
        modified = parse_http_date(last_modified)
        if modified is not None and modified <= since:
            return NOT_MODIFIED
    return PROCEED


def range_applies(if_range: str | None, etag: str, last_modified: str) -> bool:
    """Whether the Range header counts: there is no If-Range, or it names exactly this version. Otherwise: the whole."""
    if if_range is None:
        return True
    asked = parse_http_date(if_range)
    if asked is not None:
        # Exactly the same date, not a later one: RFC 9110 section 13.1.5.
        return asked == parse_http_date(last_modified)
    found = _TAG.fullmatch(if_range)
    return found is not None and _matches(if_range, etag, weakly=False) and if_range.strip() != "*"


def _given(headers: Headers, name: str) -> str | None:
    """The values of all headers of that name as one list; None if there is nothing in them."""
    value = headers.get(name)
    if value is None:
        return None
    return ",".join(headers.getall(name)).strip(" \t,") or None


def _date(headers: Headers, name: str) -> int | None:
    value = headers.get(name)
    return None if value is None else parse_http_date(value.strip())


def _matches(given: str, etag: str, *, weakly: bool) -> bool:
    if given == "*":
        return True
    current = normalized_etag(etag)
    return any(tag == current for tag in _tags(given, weakly=weakly))


def _tags(given: str, *, weakly: bool) -> Iterator[str]:
    """The tags of a list that may count, ready for comparison. What follows a syntax error does not count."""
    at = 0
    while (found := _TAG.match(given, at)) is not None:
        weak, quoted, bare = found.groups()
        if weakly or weak is None:
            yield normalized_etag(quoted if quoted is not None else bare)
        at = found.end()


def is_digest(etag: str) -> bool:
    """Whether it is the MD5 of an object, or that of its parts with their number."""
    return _DIGEST.fullmatch(etag.strip('"')) is not None


def normalized_etag(etag: str) -> str:
    """What two ways of writing one tag have in common. Of one that is no digest the case counts."""
    return folded_etag(etag) if is_digest(etag) else etag.strip('"')


def folded_etag(etag: str) -> str:
    """The same of a tag that an origin made up of what was written, which is a digest of some kind."""
    return etag.strip('"').lower()


def same_etag(first: str, second: str) -> bool:
    """Whether an origin's tag and one that a client or another answer tells back are one."""
    return folded_etag(first) == folded_etag(second)

"""The verdict on the head of a response to a read: status and headers in, one of a closed set out. Pure.

Only what is positively the requested bytes, of one named version of known size, is a `ValidResponse`. RFC 9110, 13 to
15.

    200  to a read of the whole: valid. To a range: uncacheable, even from 0 on, since the origin then sends more than
         was requested; except that an object of no bytes has no range, so that an empty 200 is all there is
    206  valid if it is the requested range, or ends earlier at the object's own end; otherwise uncacheable
    304  revalidated, if that was the condition
    412  the pinned version is gone; so it is if 416 says that it lacks bytes that it is known to have
    416  to a range from 0 on: the object is empty, a HEAD gives its facts. Few origins say so by the
         `Content-Range: bytes */0` that RFC 9110, 15.5.17 wishes for
"""

import re
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from forebay.core.byte_ranges import Span
from forebay.core.heads import ObjectFacts
from forebay.origin.reads.origin_read import OriginRead
from forebay.origin.reads.read_outcomes import Revalidated, Uncacheable
from forebay.protocol.conditions import normalized_etag
from forebay.protocol.header_map import Headers
from forebay.protocol.response_headers import facts_from, parse_content_range, repeated_facts

_EMPTY: Final = re.compile(r"bytes[ \t]+\*/0", re.IGNORECASE)


class ValidResponse(NamedTuple):
    """The body is `span` of the version that `facts` describe."""

    facts: ObjectFacts
    span: Span


@dataclass(frozen=True, slots=True)
class VersionMismatch:
    """The pinned version is not the current one."""


@dataclass(frozen=True, slots=True)
class EmptyObject:
    """The object seems to be empty, so that it has no range."""


@dataclass(frozen=True, slots=True)
class ErrorStatus:
    """The origin refused the read, or redirects it."""


@dataclass(frozen=True, slots=True)
class InvalidResponse:
    """A response that can't be one to this read."""

    reason: str


Verdict: TypeAlias = (
    ValidResponse | Revalidated | VersionMismatch | EmptyObject | ErrorStatus | Uncacheable | InvalidResponse
)


def judge(read: OriginRead, status: int, headers: Headers) -> Verdict:
    """The verdict on `status` and `headers` as the response to `read`."""
    if status in {200, 206}:
        return _success(read, status, headers)
    if status == 304:
        if read.if_none_match is None:
            return InvalidResponse("304 to a request without a condition")
        etag = headers.get("ETag", read.if_none_match.etag)
        if normalized_etag(etag) != normalized_etag(read.if_none_match.etag):
            return InvalidResponse("304 for another version than the condition's")
        return Revalidated(etag, headers.get("Last-Modified", ""), repeated_facts(headers))
    if read.pin is not None and (status == 412 or (status == 416 and read.span is not None and read.span.start)):
        return VersionMismatch()
    if status == 416 and read.span is not None:
        content_range = headers.get("Content-Range")
        if read.span.start == 0 if content_range is None else _EMPTY.fullmatch(content_range):
            return EmptyObject()
    if status < 300:
        return Uncacheable(f"status {status}")
    return ErrorStatus()


def _success(read: OriginRead, status: int, headers: Headers) -> Verdict:
    if read.pin is not None and headers.get("ETag") != read.pin.etag:
        return VersionMismatch()
    facts = facts_from(status, headers)
    if facts is None:
        return Uncacheable("no facts that can be trusted, or kept")
    if read.method == "HEAD":
        return ValidResponse(facts, Span(0, 0)) if status == 200 else Uncacheable("206 to a HEAD")
    if read.span is None:
        whole = Span(0, facts.size)
        return ValidResponse(facts, whole) if status == 200 else Uncacheable("206 to a read of the whole")
    if status == 200:
        return ValidResponse(facts, Span(0, 0)) if facts.size == 0 else Uncacheable("200 to a range")
    received, (start, stop) = parse_content_range(headers.get("Content-Range", "")), read.span
    # A span beyond the object's end is clipped there. One that begins beyond it equals no range, as none is empty.
    if received is None or received[0] != (start, min(stop, facts.size)):
        return Uncacheable("another range than the requested one")
    return ValidResponse(facts, received[0])

"""What an answer's head means for the read that was asked. Pure: status and headers in, one of a closed set out.

Only what is positively the requested bytes, of one named version of known size, is a `ValidResponse`. RFC 9110, 13
to 15.

    200  whole read: sound.  Range: foreign, even from 0 on, since the origin then sends more than was asked;
         except that an object of no bytes has no range, so an empty 200 is what there is
    206  sound if it is the range asked, or ends earlier at the object's own end; otherwise foreign
    304  unchanged, if that was the question
    412  the pinned version is gone
    416  to a range from 0 on: the object has no bytes, ask for its facts by HEAD. Few origins say so by the
         `Content-Range: bytes */0` that RFC 9110 15.5.17 wishes for
"""

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from forebay.core.byte_ranges import Span
from forebay.core.heads import HeaderPairs, ObjectFacts
from forebay.core.names import Version
from forebay.origin.read_outcomes import Revalidated, Uncacheable
from forebay.protocol.header_map import Headers
from forebay.protocol.response_headers import facts_from, parse_content_range

_EMPTY: Final = re.compile(r"bytes[ \t]+\*/0", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class OriginRead:
    """A read, as it is asked. A HEAD has no span; `pin` and `unless` exclude each other."""

    method: Literal["GET", "HEAD"]
    span: Span | None
    pin: Version | None
    if_none_match: Version | None
    version_id: str | None = None
    """None: the current version."""

    def headers(self) -> HeaderPairs:
        pairs: list[tuple[str, str]] = []
        if self.span is not None:
            pairs.append(("Range", f"bytes={self.span.start}-{self.span.stop - 1}"))
        if self.pin is not None:
            pairs.append(("If-Match", self.pin.etag))
        if self.if_none_match is not None:
            pairs.append(("If-None-Match", self.if_none_match.etag))
        return tuple(pairs)


@dataclass(frozen=True, slots=True)
class ValidResponse:
    """The bytes of `span` of the version that `facts` name are coming."""

    facts: ObjectFacts
    span: Span


@dataclass(frozen=True, slots=True)
class VersionMismatch:
    """Another version than the pinned one is current."""


@dataclass(frozen=True, slots=True)
class EmptyObject:
    """The object seems to be empty, so no range of it can be had."""


@dataclass(frozen=True, slots=True)
class ErrorStatus:
    """The origin said no."""


@dataclass(frozen=True, slots=True)
class InvalidResponse:
    """An answer that can't be one to what was asked."""

    reason: str


Verdict: TypeAlias = (
    ValidResponse | Revalidated | VersionMismatch | EmptyObject | ErrorStatus | Uncacheable | InvalidResponse
)


def judge(read: OriginRead, status: int, headers: Headers) -> Verdict:
    """What `status` and `headers` mean for the read `asked`."""
    if status in {200, 206}:
        return _success(read, status, headers)
    if status == 304:
        if read.if_none_match is None:
            return InvalidResponse("304 to a request without a condition")
        etag = headers.get("ETag", read.if_none_match.etag)
        if etag != read.if_none_match.etag:
            return InvalidResponse("304 for another version than was asked about")
        return Revalidated(etag, headers.get("Last-Modified", ""))
    if status == 412 and read.pin is not None:
        return VersionMismatch()
    if status == 416 and read.span is not None:
        told = headers.get("Content-Range")
        if read.span.start == 0 if told is None else _EMPTY.fullmatch(told):
            return EmptyObject()
    if status < 300:
        return Uncacheable(f"status {status}")
    return ErrorStatus()


def _success(read: OriginRead, status: int, headers: Headers) -> Verdict:
    if read.pin is not None and headers.get("ETag") != read.pin.etag:
        return VersionMismatch()
    facts = facts_from(status, headers)
    if facts is None:
        return Uncacheable("no facts that can be believed, or kept")
    whole = Span(0, facts.size)
    if read.method == "HEAD":
        return ValidResponse(facts, Span(0, 0)) if status == 200 else Uncacheable("206 to a HEAD")
    if read.span is None:
        return ValidResponse(facts, whole) if status == 200 else Uncacheable("206 to a read of the whole")
    if status == 200:
        return ValidResponse(facts, whole) if facts.size == 0 else Uncacheable("200 to a range")
    came = parse_content_range(headers.get("Content-Range", ""))
    if came is None or came[0] != read.span.clip(whole):
        return Uncacheable("another range than was asked for")
    return ValidResponse(facts, came[0])

"""The verdict on the head of a response to a read, as a table."""

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from forebay.core.byte_ranges import Span
from forebay.core.names import Version
from forebay.origin.reads.origin_read import OriginRead
from forebay.origin.reads.read_outcomes import Revalidated, Uncacheable
from forebay.origin.reads.verdict import (
    EmptyObject,
    ErrorStatus,
    InvalidResponse,
    ValidResponse,
    VersionMismatch,
    judge,
)

V1 = Version('"v1"', "null")
WHOLE = OriginRead("GET", None, None, None)
HEAD = OriginRead("HEAD", None, None, None)


def ranged(start: int, stop: int, pin: Version | None = None) -> OriginRead:
    return OriginRead("GET", Span(start, stop), pin, None)


def test_the_headers_of_a_read() -> None:
    assert ranged(10, 20, V1).headers() == (("Range", "bytes=10-19"), ("If-Match", '"v1"'))
    assert OriginRead("HEAD", None, None, V1).headers() == (("If-None-Match", '"v1"'),)
    assert WHOLE.headers() == ()


# (asked, status, headers besides ETag "v1", what it means: the sound span, or the kind of verdict)
TABLE: list[tuple[OriginRead, int, dict[str, str], Span | type]] = [
    (WHOLE, 200, {"Content-Length": "100"}, Span(0, 100)),
    (WHOLE, 200, {"Content-Length": "0"}, Span(0, 0)),
    (WHOLE, 200, {"Transfer-Encoding": "chunked"}, Uncacheable),
    (WHOLE, 200, {"Content-Length": "100", "ETag": 'W/"v1"'}, Uncacheable),
    (WHOLE, 200, {"Content-Length": "100", "ETag": ""}, Uncacheable),
    (WHOLE, 206, {"Content-Length": "100", "Content-Range": "bytes 0-99/100"}, Uncacheable),
    (WHOLE, 204, {}, Uncacheable),
    (HEAD, 200, {"Content-Length": "100"}, Span(0, 0)),
    (HEAD, 206, {"Content-Length": "100", "Content-Range": "bytes 0-99/100"}, Uncacheable),
    (ranged(10, 20), 206, {"Content-Length": "10", "Content-Range": "bytes 10-19/100"}, Span(10, 20)),
    (ranged(90, 120), 206, {"Content-Length": "10", "Content-Range": "bytes 90-99/100"}, Span(90, 100)),
    (ranged(0, 120), 206, {"Content-Length": "100", "Content-Range": "bytes 0-99/100"}, Span(0, 100)),
    (ranged(10, 20), 206, {"Content-Length": "9", "Content-Range": "bytes 10-18/100"}, Uncacheable),
    (ranged(10, 20), 206, {"Content-Length": "11", "Content-Range": "bytes 10-20/100"}, Uncacheable),
    (ranged(10, 20), 206, {"Content-Length": "10", "Content-Range": "bytes 0-9/100"}, Uncacheable),
    (ranged(10, 20), 206, {"Content-Length": "10", "Content-Range": "bytes 10-19/*"}, Uncacheable),
    (ranged(10, 20), 206, {"Content-Length": "10"}, Uncacheable),
    (ranged(10, 20), 206, {"Content-Length": "10", "Content-Range": "bytes 10-19/100", "ETag": 'W/"v1"'}, Uncacheable),
    (ranged(10, 20), 206, {"Content-Type": "multipart/byteranges; boundary=x", "Content-Length": "300"}, Uncacheable),
    (ranged(10, 20), 200, {"Content-Length": "100"}, Uncacheable),
    (ranged(0, 100), 200, {"Content-Length": "100"}, Uncacheable),
    (ranged(0, 100), 200, {"Content-Length": "0"}, Span(0, 0)),
    (ranged(0, 100), 416, {"Content-Range": "bytes */0"}, EmptyObject),
    (ranged(9, 10), 416, {"Content-Range": "bytes */0"}, EmptyObject),
    (ranged(100, 110), 416, {"Content-Range": "bytes */100"}, ErrorStatus),
    (ranged(0, 100), 416, {}, EmptyObject),
    (ranged(0, 100), 416, {"Content-Range": "bytes */100"}, ErrorStatus),
    (ranged(100, 110), 416, {}, ErrorStatus),
    (WHOLE, 416, {"Content-Range": "bytes */0"}, ErrorStatus),
    (ranged(0, 1, V1), 412, {}, VersionMismatch),
    (ranged(0, 1), 412, {}, ErrorStatus),
    (ranged(0, 1, V1), 206, {"Content-Length": "1", "Content-Range": "bytes 0-0/9", "ETag": '"v2"'}, VersionMismatch),
    (ranged(0, 1, V1), 206, {"Content-Length": "1", "Content-Range": "bytes 0-0/9", "ETag": '"V1"'}, VersionMismatch),
    (ranged(0, 1, V1), 206, {"Content-Length": "1", "Content-Range": "bytes 0-0/9", "ETag": ""}, VersionMismatch),
    (ranged(0, 1, V1), 200, {"Content-Length": "9", "ETag": '"v2"'}, VersionMismatch),
    (ranged(0, 1, V1), 206, {"Content-Length": "1", "Content-Range": "bytes 0-0/9"}, Span(0, 1)),
    (ranged(0, 1, V1), 404, {}, ErrorStatus),
    (ranged(100, 110, V1), 416, {"Content-Range": "bytes */100"}, VersionMismatch),
    (OriginRead("GET", None, None, V1), 304, {}, Revalidated),
    (OriginRead("GET", None, None, V1), 304, {"ETag": '"v2"'}, InvalidResponse),
    (OriginRead("GET", None, None, V1), 304, {"ETag": '"V1"'}, InvalidResponse),
    (OriginRead("GET", None, None, V1), 200, {"Content-Length": "7", "ETag": '"v2"'}, Span(0, 7)),
    (WHOLE, 304, {}, InvalidResponse),
    (WHOLE, 301, {"Location": "https://elsewhere"}, ErrorStatus),
    (WHOLE, 403, {}, ErrorStatus),
    (WHOLE, 503, {}, ErrorStatus),
]


@pytest.mark.parametrize(("read", "status", "headers", "meaning"), TABLE)
def test_verdict(read: OriginRead, status: int, headers: dict[str, str], meaning: Span | type) -> None:
    verdict = judge(read, status, CIMultiDict({"ETag": '"v1"', **headers}))
    if isinstance(meaning, Span):
        assert isinstance(verdict, ValidResponse), verdict
        assert verdict.span == meaning
    else:
        assert type(verdict) is meaning


@given(
    st.sampled_from(["GET", "HEAD"]),
    st.none() | st.tuples(st.integers(0, 50), st.integers(1, 50)),
    st.sampled_from([200, 206]),
    st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(0, 60)),
)
def test_a_valid_response_is_the_requested_range(
    method: Literal["GET", "HEAD"], wanted: tuple[int, int] | None, status: int, content_range: tuple[int, int, int]
) -> None:
    """Whatever an origin says of ranges: a body that is taken for sound is the range asked, clipped to the object."""
    span = None if wanted is None or method == "HEAD" else Span(wanted[0], wanted[0] + wanted[1])
    first, last, size = content_range
    headers = {"ETag": '"v1"', "Content-Length": str(last - first + 1 if status == 206 else size)}
    if status == 206:
        headers["Content-Range"] = f"bytes {first}-{last}/{size}"
    verdict = judge(OriginRead(method, span, None, None), status, CIMultiDict(headers))
    if isinstance(verdict, ValidResponse):
        whole = Span(0, verdict.facts.size)
        if method == "HEAD":
            assert verdict.span.length == 0
        elif span is None:
            assert verdict.span == whole
        else:
            assert verdict.span == span.clip(whole) or whole.length == 0

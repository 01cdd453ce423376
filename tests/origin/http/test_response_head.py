"""Heads of responses: valid ones, and all that is ambiguous about the end of the body."""

import pytest

from forebay.core.errors import MalformedHttp
from forebay.origin.http.response_head import MAX_HEAD, BodyLength, head_size, parse_head


def head(*lines: str, status: str = "HTTP/1.1 200 OK") -> bytes:
    return "\r\n".join((status, *lines, "\r\n")).encode("utf-8", "surrogateescape")


def test_a_head() -> None:
    raw = head('ETag: "a" ', "x-amz-meta-a:1", "X-Amz-Meta-A:\t2", "Content-Length: 12", "Empty:")
    found = parse_head(raw, "GET")
    assert (found.status, found.reason, found.body_length, found.is_persistent) == (200, "OK", 12, True)
    assert found.headers["etag"] == '"a"'
    assert found.headers.getall("x-amz-meta-a") == ["1", "2"]
    assert found.headers["empty"] == ""


@pytest.mark.parametrize(
    ("status", "lines", "method", "ends", "kept"),
    [
        ("HTTP/1.1 200 OK", ["Content-Length: 3"], "HEAD", 0, True),
        ("HTTP/1.1 304 Not Modified", ["Content-Length: 3"], "GET", 0, True),
        ("HTTP/1.1 204 No Content", [], "GET", 0, True),
        ("HTTP/1.1 404 Not Found", ["Transfer-Encoding: Chunked"], "GET", "chunked", True),
        ("HTTP/1.1 404", [], "GET", "close", False),
        ("HTTP/1.1 200 OK", ["Content-Length: 3", "Content-Length: 3"], "GET", 3, True),
        ("HTTP/1.1 200 OK", ["Content-Length: 3", "Connection: x, Close"], "GET", 3, False),
        ("HTTP/1.0 200 OK", ["Content-Length: 3"], "GET", 3, False),
        ("HTTP/1.0 200 OK", ["Content-Length: 3", "Connection: keep-alive"], "GET", 3, True),
    ],
)
def test_where_a_body_ends(status: str, lines: list[str], method: str, ends: BodyLength, kept: bool) -> None:
    found = parse_head(head(*lines, status=status), method)
    assert (found.body_length, found.is_persistent) == (ends, kept)


@pytest.mark.parametrize(
    "lines",
    [
        ["Content-Length: 3", "Content-Length: 4"],
        ["Content-Length: 3", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: gzip, chunked"],
        ["Transfer-Encoding: identity"],
        ["Content-Length: +3"],
        ["Content-Length: 3, 3"],
        ["Content-Length: "],
        ["Content-Length: ٣"],
        ["Content-Length : 3"],
        [" Content-Length: 3"],
        ["A: b", " folded"],
        ["no colon"],
        [": no name"],
        ["A: b\nContent-Length: 3"],
        ["A: b\rContent-Length: 3"],
        ["A: b\0"],
    ],
)
def test_an_ambiguous_head_is_malformed(lines: list[str]) -> None:
    with pytest.raises(MalformedHttp):
        parse_head(head(*lines), "GET")


@pytest.mark.parametrize(
    "status", ["HTTP/2 200 OK", "HTTP/1.1  200 OK", "HTTP/1.1 20 OK", "HTTP/1.1 099 X", "ICY 200 OK"]
)
def test_other_protocols(status: str) -> None:
    with pytest.raises(MalformedHttp):
        parse_head(head(status=status), "GET")


def test_a_head_is_complete_or_may_still_become_so() -> None:
    raw = head("A: b") + b"body"
    for stop in range(len(raw) + 1):
        assert head_size(raw, 0, stop) == (len(raw) - 4 if stop >= len(raw) - 4 else 0)
    with pytest.raises(MalformedHttp):
        head_size(b"SSH-2.0", 0, 7)
    with pytest.raises(MalformedHttp):
        head_size(b"HTTP/1.1 200 OK\r\nA: ".ljust(MAX_HEAD, b"a"), 0, MAX_HEAD)

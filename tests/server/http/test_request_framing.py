"""Where a request begins, and what the listener refuses that aiohttp forgives. Over sockets, by the hundred:
tests/security/test_framing.py."""

import pytest
from aiohttp.http_writer import HttpVersion, HttpVersion10, HttpVersion11
from aiohttp.test_utils import make_mocked_request
from hypothesis import given
from hypothesis import strategies as st

from forebay.server.http.request_framing import RequestBoundary, framing_error

GET = b"GET /b/k HTTP/1.1\r\nHost: h\r\n\r\n"
PUT = b"PUT /b/k HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n"


def is_clean_after(*pieces: bytes) -> bool:
    boundary = RequestBoundary()
    for data in pieces:
        boundary.follow(data)
    return boundary.is_clean


def test_a_connection_starts_clean() -> None:
    assert is_clean_after()


@pytest.mark.parametrize(
    "pieces",
    [
        (GET,),
        (GET, GET),
        (PUT + b"hello",),
        (PUT, b"hello"),
        (PUT, b"he", b"llo", GET),
        (PUT, b"", b"hello", b""),
        (PUT.replace(b"Content-Length: 5", b"content-length:0"), GET),
    ],
)
def test_plain_framing_is_followed(pieces: tuple[bytes, ...]) -> None:
    assert is_clean_after(*pieces)


@pytest.mark.parametrize("pieces", [(PUT,), (PUT, b"hell")])
def test_no_request_begins_within_a_body(pieces: tuple[bytes, ...]) -> None:
    assert not is_clean_after(*pieces)


@pytest.mark.parametrize(
    "pieces",
    [
        (GET[:10], GET[10:]),  # a head in two pieces
        (GET + GET,),  # pipelined
        (PUT + b"hello" + GET,),  # a request behind a body
        (PUT, b"hello!"),
        (PUT.replace(b"Content-Length: 5", b"Transfer-Encoding: chunked"), b"0\r\n\r\n"),
        (PUT.replace(b"Content-Length: 5", b"Content-Length: 5\r\nContent-Length: 5"), b"hello"),
        (PUT.replace(b": 5", b": +5"), b"hello"),
        (PUT.replace(b": 5", b": 5, 5"), b"hello"),
        (PUT.replace(b": 5", b":"),),
        (GET.replace(b"\r\n", b"\n"),),
        (GET.replace(b"Host: h", b"Upgrade: h2c"),),
    ],
)
def test_a_boundary_once_lost_stays_lost(pieces: tuple[bytes, ...]) -> None:
    assert not is_clean_after(*pieces)
    assert not is_clean_after(*pieces, GET)


@given(st.lists(st.integers(0, 40), max_size=6), st.integers(0, 200))
def test_a_body_in_any_pieces_ends_where_its_length_says(cuts: list[int], length: int) -> None:
    boundary = RequestBoundary()
    boundary.follow(PUT.replace(b": 5", b": %d" % length))
    left = length
    for cut in cuts:
        size = min(cut, left)
        boundary.follow(b"x" * size)
        left -= size
        assert boundary.is_clean == (left == 0)


# Refused framing


def error(
    *pairs: tuple[str, str], method: str = "GET", path: str = "/bucket/key", version: HttpVersion = HttpVersion11
) -> str | None:
    return framing_error(make_mocked_request(method, path, dict(pairs), version=version))


@pytest.mark.parametrize(
    "host", ["h", "h:9000", "bucket.h.test", "127.0.0.1:1", "[::1]:9000", "[fe80::1]", "a_b-c", "h:"]
)
def test_plain_hosts_are_accepted(host: str) -> None:
    assert error(("Host", host)) is None
    assert error(("Host", host), version=HttpVersion10) is None


@pytest.mark.parametrize(
    "host", ["", "a b", "a@b", "a/b", "a,b", "a:b", "[::1", "a:123456", "ä", "a\tb", "a?b", "a#b", "h\n"]
)
def test_other_hosts_are_refused(host: str) -> None:
    assert error(("Host", host)) is not None


def test_a_request_has_a_host_a_path_and_a_known_version() -> None:
    assert error() is not None
    for path in ("http://other/bucket", "http://h", "ftp://h/bucket", "*", "bucket", "h:80"):
        assert error(("Host", "h"), path=path) is not None
    assert error(("Host", "h"), method="CONNECT") is not None
    for version in (HttpVersion(0, 9), HttpVersion(1, 2), HttpVersion(2, 0)):
        assert error(("Host", "h"), version=version) is not None


@pytest.mark.parametrize("length", ["0", "5", "123456789012345678"])
def test_a_plain_length_is_accepted(length: str) -> None:
    assert error(("Host", "h"), ("Content-Length", length)) is None


@pytest.mark.parametrize("length", ["", "-1", "+5", "5,5", "٥", "1" * 19, "0x5"])
def test_other_lengths_are_refused(length: str) -> None:
    assert error(("Host", "h"), ("Content-Length", length)) is not None


def test_the_only_transfer_coding_is_chunked() -> None:
    assert error(("Host", "h"), ("Transfer-Encoding", "Chunked")) is None
    for coding in ("", "identity", "gzip, chunked", "chunked, chunked", "chunked;a"):
        assert error(("Host", "h"), ("Transfer-Encoding", coding)) is not None
    assert error(("Host", "h"), ("Transfer-Encoding", "chunked"), ("Content-Length", "5")) is not None
    assert error(("Host", "h"), ("Transfer-Encoding", "chunked"), version=HttpVersion10) is not None

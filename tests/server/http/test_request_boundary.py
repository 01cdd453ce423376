"""Where the next request begins: only what is beyond doubt."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.server.http.request_boundary import RequestBoundary

GET = b"GET /b/k HTTP/1.1\r\nHost: h\r\n\r\n"
PUT = b"PUT /b/k HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n"


def after(*passed: bytes) -> bool:
    boundary = RequestBoundary()
    for data in passed:
        boundary.follow(data)
    return boundary.is_clean


def test_a_connection_begins_clean() -> None:
    assert after()


@pytest.mark.parametrize(
    "passed",
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
def test_plain_framing_is_followed(passed: tuple[bytes, ...]) -> None:
    assert after(*passed)


@pytest.mark.parametrize("passed", [(PUT,), (PUT, b"hell")])
def test_within_a_body_nothing_begins(passed: tuple[bytes, ...]) -> None:
    assert not after(*passed)


@pytest.mark.parametrize(
    "passed",
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
def test_doubt_is_for_good(passed: tuple[bytes, ...]) -> None:
    assert not after(*passed)
    assert not after(*passed, GET)


@given(st.lists(st.integers(0, 40), max_size=6), st.integers(0, 200))
def test_any_cut_of_a_body_ends_where_the_body_ends(cuts: list[int], length: int) -> None:
    boundary = RequestBoundary()
    boundary.follow(PUT.replace(b": 5", b": %d" % length))
    left = length
    for cut in cuts:
        taken = min(cut, left)
        boundary.follow(b"x" * taken)
        left -= taken
        assert boundary.is_clean == (left == 0)

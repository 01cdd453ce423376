"""The request head: only one that every parser agrees on is parsed; the rest is for the full lane."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.server.fastpath.request_head import MAX_HEAD_SIZE, parse_request_head, parse_upload_head

HEAD = b"GET /b/a%2Fb?x-id=GetObject HTTP/1.1\r\nHost: h:9000\r\nx-amz-date: 20261120T000000Z\r\n\r\n"


def test_a_plain_head_is_parsed() -> None:
    head = parse_request_head(HEAD)
    assert head is not None
    assert (head.method, head.raw_target) == ("GET", "/b/a%2Fb?x-id=GetObject")
    assert list(head.headers.items()) == [("Host", "h:9000"), ("x-amz-date", "20261120T000000Z")]


def test_blanks_around_a_value_go_and_those_within_stay() -> None:
    head = parse_request_head(HEAD.replace(b"Host: h:9000", b"Host:h\r\nX-A: \t a  b \t"))
    assert head is not None
    assert head.headers["X-A"] == "a  b"


@pytest.mark.parametrize(
    "field",
    [
        b"Connection: keep-alive",
        b"connection: Keep-Alive",
        b'If-Match: "e"',
        b"If-None-Match: *",
        b"If-Modified-Since: whenever",
        b"If-Unmodified-Since: whenever",
        b"Range: bytes=0-1",
    ],
)
def test_harmless_fields_are_parsed(field: bytes) -> None:
    assert parse_request_head(HEAD.replace(b"\r\n\r\n", b"\r\n" + field + b"\r\n\r\n")) is not None


@pytest.mark.parametrize(
    "field",
    [
        b"Content-Length: 0",
        b"Transfer-Encoding: chunked",
        b"Expect: 100-continue",
        b"Connection: close",
        b"Connection: keep-alive, x-amz-date",
        b"Upgrade: h2c",
        b"TE: trailers",
        b"Trailer: x",
        b"Host: other",
        b"If-Range: x",
        b"X-Folded: a\r\n b",
        b"X-Bare: a\nb",
        b"X-Return: a\rb",
        b"X-Nul: a\0b",
        b"X-Latin: \xe9",
        b"X-Blank : a",
        b" X-Blank: a",
        b"No-Colon",
        b": empty",
        b"X-(: a",
    ],
)
def test_ambiguous_fields_are_left(field: bytes) -> None:
    assert parse_request_head(HEAD.replace(b"\r\n\r\n", b"\r\n" + field + b"\r\n\r\n")) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        HEAD[:-1],
        HEAD + b"x",
        HEAD + HEAD,
        HEAD.replace(b"HTTP/1.1", b"HTTP/1.0"),
        HEAD.replace(b"HTTP/1.1", b"HTTP/1.1 "),
        HEAD.replace(b"GET ", b"GET  "),
        HEAD.replace(b"GET ", b"get "),
        HEAD.replace(b"GET ", b"PUT "),
        HEAD.replace(b"GET /", b"GET http://h/"),
        HEAD.replace(b"GET /", b"GET *"),
        HEAD.replace(b"/b/a", b"/b/\xc3\xa9"),
        HEAD.replace(b"Host: h:9000\r\n", b""),
        HEAD.replace(b"\r\n", b"\n"),
        b"\r\n" + HEAD,
        HEAD.replace(b"Host", b"X: " + b"y" * MAX_HEAD_SIZE + b"\r\nHost"),
    ],
)
def test_anything_but_exactly_one_plain_head_is_left(data: bytes) -> None:
    assert parse_request_head(data) is None


@given(st.binary(max_size=60), st.integers(0, len(HEAD)))
def test_bytes_inserted_anywhere_are_plain_or_left(extra: bytes, position: int) -> None:
    data = HEAD[:position] + extra + HEAD[position:]
    head = parse_request_head(data)
    if head is not None:
        assert all(character.isprintable() for character in head.raw_target)
        assert not any("\r" in value or "\n" in value for value in head.headers.values())
        assert data.count(b"\r\n\r\n") == 1


PUT = HEAD.replace(b"GET ", b"PUT ").replace(b"Host", b"content-LENGTH: \t10 \r\nHost")


def test_the_head_of_a_put_is_parsed() -> None:
    head = parse_upload_head(PUT, 10)
    assert head is not None
    assert (head.raw_target, head.length, head.expects_continue) == ("/b/a%2Fb?x-id=GetObject", 10, False)
    assert dict(head.headers) == {"Content-Length": "10", "Host": "h:9000", "x-amz-date": "20261120T000000Z"}


def test_a_put_may_wait_for_100_continue() -> None:
    head = parse_upload_head(PUT.replace(b"Host", b"eXpect:100-Continue \r\nHost"), 10)
    assert head is not None
    assert head.expects_continue
    assert head.headers["Expect"] == "100-continue"


@pytest.mark.parametrize(
    "data",
    [
        HEAD,
        PUT.replace(b"PUT ", b"POST "),
        PUT.replace(b"10", b""),
        PUT.replace(b"10", b"1 0"),
        PUT.replace(b"10", b"+10"),
        PUT.replace(b"10", b"-1"),
        PUT.replace(b"10", b"1_0"),
        PUT.replace(b"10", b"10, 10"),
        PUT.replace(b"10", b"1" * 19),
        PUT.replace(b"10", "\u0661".encode()),
        PUT.replace(b"10", b"10\r\n 0"),
        PUT.replace(b"content-LENGTH", b"content-LENGTH "),
        PUT.replace(b"Host", b"Content-Length: 10\r\nHost"),
        PUT.replace(b"Host", b"Content-Length : 10\r\nHost"),
        PUT.replace(b"Host", b"Transfer-Encoding: chunked\r\nHost"),
        PUT.replace(b"Host", b"Expect: 200-ok\r\nHost"),
        PUT.replace(b"Host", b"Expect: 100-continue, other\r\nHost"),
        PUT.replace(b"Host", b"Expect:\r\nHost"),
        PUT.replace(b"Host", 2 * b"Expect: 100-continue\r\n" + b"Host"),
        PUT.replace(b"10", b"010"),
        PUT.replace(b"10", b"1048577"),
        PUT.replace(b"Host", b"Connection: close\r\nHost"),
        PUT.replace(b"Host", b"X-Latin: \xe9\r\nHost"),
        PUT.replace(b"h:9000", b"h, i"),
        PUT + b"x",
        PUT[:-1],
    ],
)
def test_any_other_head_of_a_put_is_left(data: bytes) -> None:
    assert parse_upload_head(data, 1 << 20) is None

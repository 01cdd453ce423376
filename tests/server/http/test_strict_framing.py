"""What aiohttp forgives and the listener does not. Over a socket, by the hundred: tests/security/test_framing.py."""

import pytest
from aiohttp.http_writer import HttpVersion, HttpVersion10, HttpVersion11
from aiohttp.test_utils import make_mocked_request

from forebay.server.http.strict_framing import framing_error


def doubt(
    *pairs: tuple[str, str], method: str = "GET", path: str = "/bucket/key", version: HttpVersion = HttpVersion11
) -> str | None:
    return framing_error(make_mocked_request(method, path, dict(pairs), version=version))


@pytest.mark.parametrize(
    "host", ["h", "h:9000", "bucket.h.test", "127.0.0.1:1", "[::1]:9000", "[fe80::1]", "a_b-c", "h:"]
)
def test_plain_hosts_are_taken(host: str) -> None:
    assert doubt(("Host", host)) is None
    assert doubt(("Host", host), version=HttpVersion10) is None


@pytest.mark.parametrize(
    "host", ["", "a b", "a@b", "a/b", "a,b", "a:b", "[::1", "a:123456", "ä", "a\tb", "a?b", "a#b", "h\n"]
)
def test_other_hosts_are_not(host: str) -> None:
    assert doubt(("Host", host)) is not None


def test_a_request_has_a_host_a_path_and_a_known_version() -> None:
    assert doubt() is not None
    for path in ("http://other/bucket", "http://h", "ftp://h/bucket", "*", "bucket", "h:80"):
        assert doubt(("Host", "h"), path=path) is not None
    assert doubt(("Host", "h"), method="CONNECT") is not None
    for version in (HttpVersion(0, 9), HttpVersion(1, 2), HttpVersion(2, 0)):
        assert doubt(("Host", "h"), version=version) is not None


@pytest.mark.parametrize("length", ["0", "5", "123456789012345678"])
def test_a_length_is_a_number(length: str) -> None:
    assert doubt(("Host", "h"), ("Content-Length", length)) is None


@pytest.mark.parametrize("length", ["", "-1", "+5", "5,5", "٥", "1" * 19, "0x5"])
def test_and_nothing_else(length: str) -> None:
    assert doubt(("Host", "h"), ("Content-Length", length)) is not None


def test_the_transfer_coding_is_chunked_alone() -> None:
    assert doubt(("Host", "h"), ("Transfer-Encoding", "Chunked")) is None
    for coding in ("", "identity", "gzip, chunked", "chunked, chunked", "chunked;a"):
        assert doubt(("Host", "h"), ("Transfer-Encoding", coding)) is not None
    assert doubt(("Host", "h"), ("Transfer-Encoding", "chunked"), ("Content-Length", "5")) is not None
    assert doubt(("Host", "h"), ("Transfer-Encoding", "chunked"), version=HttpVersion10) is not None

"""The framing of requests: where each begins and ends on a connection, and its host, as far as every parser agrees.

The fast lane reads heads for itself, aiohttp parses everything else, and proxies in front of us have parsers of their
own. A parser that forgives what another does not sees other requests in the same bytes (request smuggling). So:

- Two parsers on one connection must never disagree about where a request begins: `RequestBoundary` follows the bytes
  that go to aiohttp by the plainest framing alone, and gives the connection to aiohttp for good where it is less plain.
- aiohttp has a parser in C and one in Python, and each forgives what the other does not: other versions than 1.x, any
  text for a host, transfer codings beside chunked or an empty one, lengths that overflow. `framing_error` refuses what
  is not plain after either has parsed it, and the connection ends.

RFC 9112 sections 2.3, 3.2 and 6. S3 has origin-form as its only form of target.
"""

import re
from typing import Final

from aiohttp.http_writer import HttpVersion10, HttpVersion11
from aiohttp.web import BaseRequest

from forebay.server.fastpath.request_head import HOST

_DOUBLED_PORT: Final = re.compile(r"(:[0-9]+)\1$")
_LENGTH: Final = re.compile(r"[0-9]{1,18}")


class RequestBoundary:
    """Follows the bytes of one connection that go to aiohttp, from a clean start.

    Plain is one head, whole, and as many bytes of body as its Content-Length says. Anything else (a head in two pieces,
    chunked framing, bytes of a next request behind a body) makes the connection one that only aiohttp reads.
    """

    __slots__ = ("_body_left", "_body_size", "_is_lost", "is_clean")

    def __init__(self) -> None:
        self._body_size = 0
        self._body_left = 0
        self._is_lost = False
        self.is_clean = True
        """Whether the next byte is certain to be the first of a request."""

    def follow(self, data: bytes) -> int:
        """Note that `data` goes to aiohttp; it may be empty, by which aiohttp resumes with what it has.

        Returns how many of the bytes certainly belong to the current request, if more have come, else all.
        """
        if self._is_lost or not data:
            return len(data)
        if self._body_left:
            self._body_left -= len(data)
        else:
            self._follow_head(data)
        own = len(data) + min(0, self._body_left)
        if self._body_left < 0:
            self._is_lost = True
        self.is_clean = not self._is_lost and self._body_left == 0
        return own

    @property
    def body_left(self) -> int:
        """Bytes to come of a body whose length is declared; 0 where that is not certain."""
        return 0 if self._is_lost else self._body_left

    @property
    def body_followed(self) -> int:
        """Bytes of that body that have come."""
        return self._body_size - self._body_left

    def skip(self, count: int) -> None:
        """Note that so many bytes of the body, at most `body_left`, have come past aiohttp."""
        self._body_left -= count
        self.is_clean = not self._body_left

    def _follow_head(self, data: bytes) -> None:
        end = data.find(b"\r\n\r\n")
        head = data[: end + 2].lower()
        lengths = head.count(b"\r\ncontent-length:")
        if end < 0 or lengths > 1 or b"\r\ntransfer-encoding:" in head or b"\r\nupgrade:" in head:
            self._is_lost = True
            return
        length = b"0"
        if lengths:
            start = head.index(b"\r\ncontent-length:") + len(b"\r\ncontent-length:")
            length = head[start : head.index(b"\r\n", start)].strip(b" \t")
        if not length.isdigit() or len(length) > 18:
            self._is_lost = True
            return
        self._body_size = int(length)
        self._body_left = self._body_size - (len(data) - end - 4)


def framing_error(request: BaseRequest) -> str | None:
    """The reason to refuse a parsed request and to end its connection; None if its framing is plain."""
    version, headers = request.version, request.headers
    if version not in {HttpVersion10, HttpVersion11}:
        return "the version is neither 1.0 nor 1.1"
    hosts = headers.getall("Host", ())
    if len(hosts) != 1 or not HOST.fullmatch(hosts[0]):
        return "there is not one plain Host"
    if not origin_form(request).startswith("/") or request.method == "CONNECT":
        return "the target is not a path"
    lengths, codings = headers.getall("Content-Length", ()), headers.getall("Transfer-Encoding", ())
    if codings and (version != HttpVersion11 or lengths or [coding.lower() for coding in codings] != ["chunked"]):
        return "the transfer coding is not chunked alone"
    if lengths and (len(lengths) > 1 or not _LENGTH.fullmatch(lengths[0])):
        return "the length is not one number"
    return None


def head_size(request: BaseRequest) -> int:
    """Bytes of the head. aiohttp bounds each line by itself, and their number, but not their sum."""
    return len(request.raw_path) + sum(len(name) + len(value) + 4 for name, value in request.raw_headers)


def origin_form(request: BaseRequest) -> str:
    """The target as a path. An absolute URL (RFC 9112 section 3.2.2) is reduced to its path if it names the very Host;
    any other target is returned unchanged."""
    target, host = request.raw_path, request.headers.get("Host", "")
    scheme, mark, rest = target.partition("://")
    authority, slash, path = rest.partition("/")
    if mark and scheme.lower() in {"http", "https"} and host and slash and _port_once(authority) == _port_once(host):
        return f"/{path}"
    return target


def _port_once(host: str) -> str:
    """A host in small letters with its port once."""
    return _DOUBLED_PORT.sub(r"\1", host.lower())

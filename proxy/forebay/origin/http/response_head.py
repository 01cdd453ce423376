"""The head of a response, parsed: status, fields, and the length of the body. Pure. RFC 9112, 4 to 6.

The parser is strict where leniency lets two readers disagree about the end of a response: a bare CR or LF, a folded
line, blanks around a field's name, two lengths, a length beside a transfer coding are all MalformedHttp.
"""

import re
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

from multidict import CIMultiDict, CIMultiDictProxy

from forebay.core.errors import MalformedHttp

MAX_HEAD: Final = 64 * 1024
"""Bytes of a head. A user may give 2 KB of metadata, in as many fields as fit, and other fields may be long
(replication, checksums)."""

MAX_STATUS: Final = 599
"""RFC 9110, 15. A client of ours could make nothing of a higher one."""

_STATUS: Final = re.compile(r"HTTP/1\.([01]) ([1-9][0-9]{2})(?: (.*))?", re.DOTALL)
_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_END: Final = b"\r\n\r\n"

BodyLength: TypeAlias = int | Literal["chunked", "close"]
"""The end of a body: after so many bytes, where its chunked framing says, or with the connection."""


class ResponseHead(NamedTuple):
    """A response's head."""

    status: int
    reason: str
    headers: CIMultiDictProxy[str]
    body_length: BodyLength
    is_persistent: bool
    """Whether the connection may carry another request afterwards (RFC 9112, 9.3)."""


def head_size(received: bytes | bytearray, start: int, stop: int) -> int:
    """The size of the head that begins at `start`, its empty line included; 0 if it is not complete before `stop`.

    MalformedHttp when the bytes can't become a head."""
    end = received.find(_END, start, min(stop, start + MAX_HEAD))
    if end >= 0:
        return end + len(_END) - start
    if stop - start >= MAX_HEAD or not received.startswith(b"HTTP/1."[: stop - start], start):
        raise MalformedHttp
    return 0


def parse_head(raw: bytes, method: str) -> ResponseHead:
    """The head in `raw`, which ends with its empty line, of the response to a request with this method.

    Raises MalformedHttp.
    """
    text = raw[: -len(_END)].decode("utf-8", "surrogateescape")
    first, *lines = text.split("\r\n")
    status_line = _STATUS.fullmatch(first)
    if status_line is None or not text.count("\r") == text.count("\n") == len(lines) or "\0" in text:
        raise MalformedHttp
    fields = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not _is_name(name):
            raise MalformedHttp
        fields.append((name, value.strip(" \t")))
    headers = CIMultiDictProxy(CIMultiDict(fields))
    status = int(status_line[2])
    if status > MAX_STATUS:
        raise MalformedHttp
    ends = _body_length(headers, status, method)
    kept = ends != "close" and _is_persistent(headers, status_line[1] == "1")
    return ResponseHead(status, status_line[3] or "", headers, ends, kept)


@lru_cache(maxsize=1024)  # an origin's responses have the same ones each time
def _is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def _body_length(headers: CIMultiDictProxy[str], status: int, method: str) -> BodyLength:
    lengths = headers.getall("Content-Length", ())
    codings = headers.getall("Transfer-Encoding", ())
    if len(set(lengths)) > 1 or (lengths and codings) or len(codings) > 1:
        raise MalformedHttp
    length = lengths[0] if lengths else ""
    if lengths and not (length.isascii() and length.isdecimal() and len(length) <= 19):
        raise MalformedHttp
    if method == "HEAD" or status < 200 or status in {204, 304}:
        return 0
    if codings:
        if codings[0].strip().lower() != "chunked":
            raise MalformedHttp  # no other was offered
        return "chunked"
    return int(length) if lengths else "close"


def _is_persistent(headers: CIMultiDictProxy[str], persistent: bool) -> bool:
    if persistent and "Connection" not in headers:
        return True
    options = {option.strip().lower() for value in headers.getall("Connection", ()) for option in value.split(",")}
    return "close" not in options and (persistent or "keep-alive" in options)

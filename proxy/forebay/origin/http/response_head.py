"""The head of a response, parsed: status, fields, and the length of the body. Pure. RFC 9112, 4 to 6.

The parser is strict where leniency lets two readers disagree about the end of a response: a bare CR or LF, a folded
line, blanks around a field's name, two lengths, a length beside a transfer coding are all MalformedHttp.
"""

import re
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

from multidict import CIMultiDict, CIMultiDictProxy

from forebay.core.errors import MalformedHttp
from forebay.core.heads import ObjectFacts
from forebay.protocol.response_templates import ResponseTemplates

MAX_HEAD: Final = 64 * 1024
"""Bytes of a head. A user may give 2 KB of metadata, in as many fields as fit, and other fields may be long
(replication, checksums)."""

MAX_STATUS: Final = 599
"""RFC 9110, 15. A client of ours could make nothing of a higher one."""

_STATUS: Final = re.compile(r"HTTP/1\.([01]) ([1-9][0-9]{2})(?: (.*))?", re.DOTALL)
_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_END: Final = b"\r\n\r\n"
_FRAMING: Final = frozenset({"connection", "content-length", "transfer-encoding"})
_WITHOUT_BODY: Final = frozenset({204, 304})
_MAX_DIGITS: Final = 19

_UNPARSED: Final[CIMultiDictProxy[str]] = CIMultiDictProxy(CIMultiDict())

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
    facts: ObjectFacts | None = None
    """The facts of the whole object, if the head matched a template. Its headers have yet to be parsed."""
    text: bytes = b""
    """The head, if it matched a template."""


def matched_head(received: bytearray, stop: int, templates: ResponseTemplates) -> ResponseHead | None:
    """The head at the front of `received`, in a response to a GET, if it is complete before `stop` and matches."""
    end = received.find(_END, 0, min(stop, MAX_HEAD))
    if end < 0:
        return None
    text = bytes(received[: end + len(_END)])
    facts = templates.match(text.decode("latin-1"))  # as all bytes have a meaning there, others than ASCII don't match
    return None if facts is None else ResponseHead(206, "", _UNPARSED, facts.size, True, facts, text)


def head_size(received: bytes | bytearray, start: int, stop: int) -> int:
    """The size of the head that begins at `start`, its empty line included; 0 if it is not complete before `stop`.

    MalformedHttp when the bytes can't become a head."""
    end = received.find(_END, start, min(stop, start + MAX_HEAD))
    if end >= 0:
        return end + len(_END) - start
    if stop - start >= MAX_HEAD or not received.startswith(b"HTTP/1."[: stop - start], start):
        raise MalformedHttp
    return 0


def first_head(received: bytearray, start: int, stop: int, method: str) -> tuple["ResponseHead | None", int]:
    """The first head that is more than informational, and where it ends. None, and where it begins: it is not complete.

    Raises MalformedHttp."""
    while (size := head_size(received, start, stop)) > 0:
        head = parse_head(bytes(received[start : start + size]), method)
        if head.status == 101:
            raise MalformedHttp  # nothing was to be upgraded
        start += size
        if head.status >= 200:  # 100 and 103 come before it, and say nothing
            return head, start
    return None, start


def parse_head(raw: bytes, method: str) -> ResponseHead:
    """The head in `raw`, which ends with its empty line, of the response to a request with this method.

    Raises MalformedHttp.
    """
    text = raw[: -len(_END)].decode("utf-8", "surrogateescape")
    first, *lines = text.split("\r\n")
    status_line = _STATUS.fullmatch(first)
    if status_line is None or not text.count("\r") == text.count("\n") == len(lines) or "\0" in text:
        raise MalformedHttp
    fields = [(name, value.strip(" \t")) for name, colon, value in [line.partition(":") for line in lines] if colon]
    framing = _framing(tuple([name for name, _ in fields]))
    if len(fields) != len(lines) or framing is None:
        raise MalformedHttp
    status = int(status_line[2])
    if status > MAX_STATUS:
        raise MalformedHttp
    headers = CIMultiDictProxy(CIMultiDict(fields))
    is_http_1_1 = status_line[1] == "1"
    length_at, connection_at = framing
    is_plain = length_at >= 0 and (connection_at < 0 or fields[connection_at][1].lower() == "keep-alive")
    if is_plain and is_http_1_1 and method != "HEAD" and status >= 200 and status not in _WITHOUT_BODY:
        return ResponseHead(status, status_line[3] or "", headers, _counted(fields[length_at][1]), True)
    ends = _body_length(headers, status, method)
    kept = ends != "close" and _is_persistent(headers, is_http_1_1)
    return ResponseHead(status, status_line[3] or "", headers, ends, kept)


@lru_cache(maxsize=256)  # an origin's responses have the same ones each time
def _framing(names: tuple[str, ...]) -> tuple[int, int] | None:
    """The positions of Content-Length and Connection among the names of a head's fields; None for what is no name.

    A Connection that is absent is at -1, and so is a Content-Length where more than these two, each of them once, says
    where the body ends."""
    if not all(map(_NAME.fullmatch, names)):
        return None
    lowered = [name.lower() for name in names]
    bearing = sorted(name for name in lowered if name in _FRAMING)
    if bearing not in (["content-length"], ["connection", "content-length"]):
        return -1, -1
    return lowered.index("content-length"), lowered.index("connection") if len(bearing) > 1 else -1


def _counted(length: str) -> int:
    if not (length.isascii() and length.isdecimal() and len(length) <= _MAX_DIGITS):
        raise MalformedHttp
    return int(length)


def _body_length(headers: CIMultiDictProxy[str], status: int, method: str) -> BodyLength:
    lengths = headers.getall("Content-Length", ())
    codings = headers.getall("Transfer-Encoding", ())
    if len(set(lengths)) > 1 or (lengths and codings) or len(codings) > 1:
        raise MalformedHttp
    length = _counted(lengths[0]) if lengths else None
    if method == "HEAD" or status < 200 or status in _WITHOUT_BODY:
        return 0
    if codings:
        if codings[0].strip().lower() != "chunked":
            raise MalformedHttp  # no other was offered
        return "chunked"
    return length if length is not None else "close"


def _is_persistent(headers: CIMultiDictProxy[str], persistent: bool) -> bool:
    options = {option.strip().lower() for value in headers.getall("Connection", ()) for option in value.split(",")}
    return "close" not in options and (persistent or "keep-alive" in options)

"""The request head as the fast lane reads it: parsed when it is unambiguous, else None.

A subset of RFC 9112, chosen so that every HTTP parser agrees on it: one GET or HEAD of HTTP/1.1; visible ASCII and
blanks alone; each line ended by CR LF and none folded; one plain Host; no body and no field that could announce one;
nothing behind the head. A head outside the subset is not malformed: the full lane judges it. A POST in the same subset
is the head of a batch on a read channel, whose frames bound its body.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple

from multidict import CIMultiDict

from forebay.server.http.request_framing import HOST

MAX_HEAD_SIZE: Final = 8192
"""Bytes of a head. A longer one (a session token of a kilobyte fits) costs more elsewhere than its parsing."""
MAX_CACHED_LINE: Final = 200
"""Characters of a line up to which its parse is cached."""

_READ_LINE: Final = re.compile(r"(GET|HEAD) (/[!-~]*) HTTP/1\.1", re.ASCII)
_POST_LINE: Final = re.compile(r"(POST) (/[!-~]*) HTTP/1\.1", re.ASCII)
_FIELD: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([!-~](?:[ \t!-~]*[!-~])?)?[ \t]*", re.ASCII)
# Fields that bear on framing or the connection, or ask for another response than the plain one.
_NOT_PLAIN: Final = frozenset(
    (
        "connection",
        "content-length",
        "expect",
        "if-range",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)


class RequestHead(NamedTuple):
    """The head of a plain request."""

    method: str
    raw_target: str
    headers: "CIMultiDict[str]"


def parse_request_head(data: bytes, *, is_post: bool = False) -> RequestHead | None:
    """The head that `data` is, exactly; None if `data` is anything else. `is_post`: of a POST, in place of a read."""
    if len(data) > MAX_HEAD_SIZE or not data.endswith(b"\r\n\r\n") or not data.isascii():
        return None
    first, *lines = data[:-4].decode("ascii").split("\r\n")
    line = (_POST_LINE if is_post else _READ_LINE).fullmatch(first)
    if line is None:
        return None
    try:
        headers = CIMultiDict([_cached_field(line) if len(line) <= MAX_CACHED_LINE else _field(line) for line in lines])
    except _NotPlainError:
        return None
    hosts = headers.getall("Host", ())
    if len(hosts) != 1 or not HOST.fullmatch(hosts[0]):
        return None
    return RequestHead(line[1], line[2], headers)


# Most lines repeat from one request of a client to the next: user agent, host, accepted types. The one long line is the
# signature, which never repeats.
@lru_cache(maxsize=4096)
def _cached_field(line: str) -> tuple[str, str]:
    return _field(line)


def _field(line: str) -> tuple[str, str]:
    field = _FIELD.fullmatch(line)
    if field is None:
        raise _NotPlainError
    name, value = field.groups("")
    if name.lower() in _NOT_PLAIN and not (name.lower() == "connection" and value.lower() == "keep-alive"):
        raise _NotPlainError
    return name, value


class _NotPlainError(Exception):
    """A line for the full lane. Not cached: lru_cache keeps results only."""

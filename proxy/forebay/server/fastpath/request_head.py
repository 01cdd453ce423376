"""The request head as the fast lane reads it: parsed when it is unambiguous, else None.

A subset of RFC 9112, chosen so that every HTTP parser agrees on it: one GET or HEAD of HTTP/1.1; visible ASCII and
blanks alone; each line ended by CR LF and none folded; one plain Host; no body and no field that could announce one;
nothing behind the head. A head outside the subset is not malformed: the full lane judges it. A POST in the same subset
is the head of a batch on a read channel, whose frames bound its body. A PUT in it has one Content-Length besides, and
perhaps one Expect: 100-continue.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple

from multidict import CIMultiDict

HOST: Final = re.compile(r"(?:[0-9A-Za-z._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{0,5})(?::\1)?)?")
"""A name or an address, and a port. No user, no blank, no list: nothing that could be cut into another host. The port
may be there twice: boto 2 writes it so."""
MAX_HEAD_SIZE: Final = 8192
"""Bytes of a head. A longer one (a session token of a kilobyte fits) costs more elsewhere than its parsing."""
MAX_CACHED_LINE: Final = 200
"""Characters of a line up to which its parse is cached."""

_READ_LINE: Final = re.compile(r"(GET|HEAD) (/[!-~]*) HTTP/1\.1", re.ASCII)
_POST_LINE: Final = re.compile(r"(POST) (/[!-~]*) HTTP/1\.1", re.ASCII)
_PUT_LINE: Final = re.compile(r"(PUT) (/[!-~]*) HTTP/1\.1", re.ASCII)
_UPLOAD_FIELD: Final = re.compile(
    r"(?:(content-length):[ \t]*(0|[1-9][0-9]{0,17})|(expect):[ \t]*(100-continue))[ \t]*", re.ASCII | re.IGNORECASE
)
_UPLOAD_INITIALS: Final = frozenset("cCeE")
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
    if not _is_head(data):
        return None
    first, *lines = data[:-4].decode("ascii").split("\r\n")
    return _parse_lines(_POST_LINE if is_post else _READ_LINE, first, lines)


class UploadHead(NamedTuple):
    """The head of a plain PUT."""

    raw_target: str
    headers: "CIMultiDict[str]"
    length: int
    """The length of the body in bytes."""
    expects_continue: bool
    """Whether the client waits for 100 Continue."""


def parse_upload_head(data: bytes, largest: int) -> UploadHead | None:
    """The head of a PUT that `data` is, exactly, with one Content-Length, a number up to `largest`; None if `data` is
    anything else."""
    if not _is_head(data):
        return None
    first, *lines = data[:-4].decode("ascii").split("\r\n")
    length, expects, others = -1, False, []
    for line in lines:
        field = _UPLOAD_FIELD.fullmatch(line) if line[:1] in _UPLOAD_INITIALS else None
        if field is None:
            others.append(line)
        elif field[3] is None and length < 0:
            length = int(field[2])
        elif field[3] is not None and not expects:
            expects = True
        else:
            return None
    if not 0 <= length <= largest:
        return None
    request = _parse_lines(_PUT_LINE, first, others)
    if request is None:
        return None
    headers = request.headers
    headers["Content-Length"] = str(length)
    if expects:
        headers["Expect"] = "100-continue"
    return UploadHead(request.raw_target, headers, length, expects)


def upload_target(line: bytes) -> str | None:
    """The target of a request line; None if it is not that of a plain PUT."""
    found = _PUT_LINE.fullmatch(line.decode("latin-1"))
    return found[2] if found is not None else None


def _is_head(data: bytes) -> bool:
    return len(data) <= MAX_HEAD_SIZE and data.endswith(b"\r\n\r\n") and data.isascii()


def _parse_lines(form: re.Pattern[str], first: str, lines: list[str]) -> RequestHead | None:
    """The head of a request line of this form, and fields none of which bears on the body."""
    line = form.fullmatch(first)
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

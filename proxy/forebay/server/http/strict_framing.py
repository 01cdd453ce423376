"""What leaves doubt about a request whose head aiohttp has taken: where it ends, or whom it is meant for.

aiohttp has two parsers, one in C and one in Python, and each forgives what the other doesn't: other versions than 1.x,
any text for a host, transfer codings beside chunked or an empty one, lengths that overflow. Somebody before or behind
us who forgives something else would see other requests in the same bytes. So what is not plain is refused here,
whatever the parser thought of it, and its connection ends.

RFC 9112 sections 2.3, 3.2 and 6; origin-form is the only form of target that S3 has.
"""

import re
from typing import Final

from aiohttp.http_writer import HttpVersion10, HttpVersion11
from aiohttp.web import BaseRequest

HOST: Final = re.compile(r"(?:[0-9A-Za-z._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{0,5})(?::\1)?)?")
"""A name or an address, and a port. No user, no blank, no list: nothing that could be cut into another host. The port
may stand there twice: boto 2 writes it so."""
_DOUBLED_PORT: Final = re.compile(r"(:[0-9]+)\1$")
_LENGTH: Final = re.compile(r"[0-9]{1,18}")


def origin_form(request: BaseRequest) -> str:
    """The target as a path. A whole URL (RFC 9112 section 3.2.2) is taken for its path if it names the very Host;
    anything else is given as it came."""
    target, host = request.raw_path, request.headers.get("Host", "")
    scheme, mark, rest = target.partition("://")
    named, slash, path = rest.partition("/")
    if mark and scheme.lower() in {"http", "https"} and host and slash and _port_once(named) == _port_once(host):
        return f"/{path}"
    return target


def _port_once(host: str) -> str:
    """A host with its port once."""
    return _DOUBLED_PORT.sub(r"\1", host.lower())


def framing_error(request: BaseRequest) -> str | None:
    """Why the request must be refused and its connection ended; None for one that is well-formed."""
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

"""The bytes of one connection, with another request where a careless reader begins one: how such a case is made.

The cases themselves are in security.body_framings (bodies) and security.malformed_heads (heads).
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from harness.clients import RawClient, RawRequest

Wire: TypeAlias = Callable[[bytes], bytes]
"""The bytes of the connection, given those of the smuggled request."""


class SignedRequests(NamedTuple):
    """Two requests, validly signed, so that their framing is all there is to refuse."""

    read: RawRequest
    write: RawRequest
    """Without a Content-Length."""


class SmugglingCase(NamedTuple):
    name: str
    wire: Wire


def signed_requests(client: RawClient) -> SignedRequests:
    write = client.sign("PUT", "/bucket/open/written", payload="UNSIGNED-PAYLOAD")
    pairs = tuple(pair for pair in write.pairs if pair[0] != "Content-Length")
    return SignedRequests(client.sign("GET", "/bucket/open/hit"), RawRequest("PUT", write.target, pairs))


def lines_of(request: RawRequest) -> list[bytes]:
    return request.wire.removesuffix(b"\r\n\r\n").split(b"\r\n")


def joined(lines: list[bytes], behind: bytes = b"") -> Wire:
    return lambda smuggled: b"\r\n".join(lines) + b"\r\n\r\n" + behind + smuggled


def with_fields(request: RawRequest, *fields: bytes, behind: bytes = b"") -> Wire:
    return joined([*lines_of(request), *fields], behind)


def before(wire: bytes) -> Wire:
    """These bytes, and then the smuggled request."""
    return lambda smuggled: wire + smuggled

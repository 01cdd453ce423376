"""The parsers of a request head in both lanes, called in memory, without a socket.

    read(reading, wire)     -> ParsedHead | None method, target and headers as that parser has them; None: not taken
    accepted(heard, ...)                         whether the gate lets it in

The readings are the fast lane's own parser, and aiohttp's two: the one in C and the one in Python.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import aiohttp.http_parser
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_exceptions import HttpProcessingError

from forebay.core.errors import S3Error
from forebay.protocol.header_map import Headers
from forebay.protocol.target import Target, parse_target
from forebay.request.authentication import Keyring, authenticate
from forebay.server.fastpath.request_head import parse_request_head

HEADER_SIZE: Final = 16 << 10
"""As limits.header_size has it by default."""


class ParsedHead(NamedTuple):
    method: str
    raw_target: str
    headers: Headers


Reader = Callable[[bytes], ParsedHead | None]


def parse_fast(wire: bytes) -> ParsedHead | None:
    """As the fast lane reads a head; None: left to the full lane."""
    head = parse_request_head(wire)
    return None if head is None else ParsedHead(head.method, head.raw_target, head.headers)


def _all(
    parser: Any, protocol: BaseProtocol, loop: asyncio.AbstractEventLoop
) -> Callable[[list[bytes]], list[ParsedHead] | None]:
    def read(pieces: list[bytes]) -> list[ParsedHead] | None:
        feeding = parser(
            protocol,
            loop,
            2**16,
            max_line_size=HEADER_SIZE,
            max_field_size=HEADER_SIZE,
            auto_decompress=False,
        )
        found = []
        try:
            for piece in pieces:
                found += feeding.feed_data(piece)[0]
        except HttpProcessingError:
            return None
        return [ParsedHead(message.method, message.path, message.headers) for message, _ in found]

    return read


def _first(read: Callable[[list[bytes]], list[ParsedHead] | None]) -> Reader:
    def first(wire: bytes) -> ParsedHead | None:
        found = read([wire])
        return found[0] if found else None

    return first


@contextmanager
def connection_parsers() -> Iterator[Mapping[str, Callable[[list[bytes]], list[ParsedHead] | None]]]:
    """aiohttp's parsers over a connection: the heads of all requests in these pieces, None where one is refused."""
    loop = asyncio.new_event_loop()
    protocol = BaseProtocol(loop)
    try:
        yield {
            "c": _all(aiohttp.http_parser.HttpRequestParser, protocol, loop),
            "python": _all(aiohttp.http_parser.HttpRequestParserPy, protocol, loop),
        }
    finally:
        loop.close()


@contextmanager
def head_parsers() -> Iterator[Mapping[str, Reader]]:
    """All of them. aiohttp's parsers want a loop, which never runs."""
    with connection_parsers() as parsers:
        yield {"fast": parse_fast, **{name: _first(read) for name, read in parsers.items()}}


def authenticated_target(head: ParsedHead, keyring: Keyring, now: float) -> Target | None:
    """What the request is aimed at, if the gate lets it in. Whatever is raised but an S3Error is a fault."""
    try:
        target = parse_target(head.raw_target, head.headers.get("Host", ""), ())
        authenticate(keyring, head.method, target, head.headers, now)
    except S3Error:
        return None
    return target

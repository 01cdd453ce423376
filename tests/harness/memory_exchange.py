"""Exchanges in memory: requests to the gateway without a socket. Implements forebay.protocol.exchange."""

import time
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field

from multidict import CIMultiDict, CIMultiDictProxy

from forebay.core.heads import HeaderPairs
from forebay.core.request_record import RequestRecord
from forebay.protocol.exchange import Request
from forebay.request.gateway import Gateway


class MemoryBody:
    """A request body in memory, delivered in the pieces that it was made of."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = list(pieces)

    async def pieces(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


@dataclass
class MemoryReply:
    """Records the response. `aborted`: the body is incomplete."""

    status: int = 0
    headers: CIMultiDict[str] = field(default_factory=CIMultiDict)
    length: int | None = None
    body: bytearray = field(default_factory=bytearray)
    aborted: bool = False
    finished: bool = False

    @property
    def started(self) -> bool:
        return self.status != 0

    async def start(self, status: int, headers: HeaderPairs, length: int | None) -> None:
        assert not self.started
        self.status, self.headers, self.length = status, CIMultiDict(headers), length

    async def write(self, buffer: memoryview | bytes) -> None:
        assert self.started
        assert not self.finished
        self.body += buffer

    def accept(self, piece: memoryview) -> int:
        assert self.started
        assert not self.finished
        self.body += piece
        return len(piece)

    @property
    def is_blocked(self) -> bool:
        return False

    async def drain(self) -> None:
        raise AssertionError("is never blocked")

    async def finish(self) -> None:
        assert not self.aborted
        self.finished = True

    def abort(self) -> None:
        self.aborted = True


class DisconnectedReply(MemoryReply):
    """The reply of a client that has disconnected: `start` fails."""

    async def start(self, status: int, headers: HeaderPairs, length: int | None) -> None:
        raise ConnectionResetError


async def handle_request(
    gateway: Gateway,
    method: str,
    target: str,
    headers: Iterable[tuple[str, str]] = (),
    body: bytes = b"",
    reply: MemoryReply | None = None,
) -> MemoryReply:
    """One unsigned request, for a gateway in open mode."""
    fields = CIMultiDict([("Host", "localhost"), *headers])
    if body or method in {"PUT", "POST"}:
        fields["Content-Length"] = str(len(body))
    reply = reply or MemoryReply()
    record = RequestRecord(method, time.monotonic(), "0" * 16)
    pieces = MemoryBody([body] if body else [])
    request = Request(method, target, "localhost", CIMultiDictProxy(fields), pieces, bool(body), time.time(), "memory")
    await gateway.handle(request, reply, record)
    assert reply.finished or reply.aborted
    return reply

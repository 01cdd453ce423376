"""Writes without a socket: forward requests, and an origin that answers from a list."""

from typing import Any, Self

from multidict import CIMultiDict, CIMultiDictProxy

from forebay.origin.dialects import DIALECTS
from forebay.origin.origin_request import OriginRequest
from forebay.protocol.exchange import Request
from forebay.protocol.operations import classify
from forebay.protocol.target import parse_target
from forebay.write.forward_request import ForwardRequest
from harness.memory_exchange import MemoryBody


def make_forward_request(
    method: str,
    target: str,
    body: bytes = b"",
    *,
    headers: dict[str, str] | None = None,
    oss: bool = False,
    length: bool = True,
) -> ForwardRequest:
    """A request in open mode. `oss`: from an OSS client; `length`: whether it announces the body's length."""
    framing = {"Content-Length": str(len(body))} if length else {"Transfer-Encoding": "chunked"}
    fields = CIMultiDictProxy(CIMultiDict({**framing, **(headers or {})}))
    parsed = parse_target(target, "h", ())
    pieces = MemoryBody([body] if body else [])
    oss_request: Any = object() if oss else None
    request = Request(method, target, "h", fields, pieces, bool(body), 0.0, "", oss_request)
    return ForwardRequest(request, parsed, classify(method, parsed, fields), None)


class CannedResponse:
    """An origin's answer; a failure among its pieces is raised."""

    def __init__(self, status: int = 200, *pieces: bytes | Exception, **headers: str) -> None:
        self.status, self.headers, self._pieces = status, CIMultiDict(headers), list(pieces)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def next_piece(self) -> bytes:
        piece = self._pieces.pop(0) if self._pieces else b""
        if isinstance(piece, Exception):
            raise piece
        return piece


class CannedOrigin:
    """Reads each request to its end and answers with the next of its answers."""

    dialect = DIALECTS["aws"]

    def __init__(self, *answers: CannedResponse) -> None:
        self._answers = list(answers)
        self.requests: list[OriginRequest] = []
        self.bodies: list[bytes] = []

    def of(self, _bucket: str | None) -> Self:
        """As an `Origins` that it is the only origin of."""
        return self

    async def send(self, request: OriginRequest) -> CannedResponse:
        self.requests.append(request)
        body: Any = request.body
        if body is not None and not isinstance(body, bytes):
            body = b"".join([bytes(piece) async for piece in body])
        self.bodies.append(body or b"")
        return self._answers.pop(0)

"""The origin's response: its head, and its body as fast as it is read.

The body is never decoded. The caller reads it to its end or closes it; `async with` does the latter. A connection whose
response was not read to the end is dropped, never used again.
"""

from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from multidict import CIMultiDict, CIMultiDictProxy

from forebay.core.errors import OriginBroken, OriginError
from forebay.core.events import DEFAULT_ORIGIN, Observe, OriginFailed
from forebay.core.heads import HeaderPairs
from forebay.origin.http.outgoing_body import OutgoingBody
from forebay.origin.http.transport_response import TransportResponse
from forebay.origin.turns.request_turns import Turn
from forebay.protocol.body.crc64 import crc64


class ExpectedCrc64:
    """The CRC-64 that a body must have."""

    __slots__ = ("_expected", "_left", "_value")

    def __init__(self, expected: int, length: int) -> None:
        """`length`: bytes of the body."""
        self._expected, self._left, self._value = expected, length, 0

    def update(self, received: bytes | memoryview) -> bool:
        """Counts `received` in. False if these are the last bytes, and the checksum is wrong."""
        self._value = crc64(received, self._value)
        self._left -= len(received)
        return self._left > 0 or self._value == self._expected


class OriginResponse:
    """Made by OriginClient.send. Holds its turn there until it has ended."""

    __slots__ = (
        "_buffered",
        "_ended",
        "_expected",
        "_failure",
        "_missing",
        "_observe",
        "_operation",
        "_origin",
        "_outgoing",
        "_response",
        "_sent",
        "_turn",
        "headers",
        "reason",
        "status",
    )

    def __init__(
        self,
        response: TransportResponse,
        *,
        operation: str,
        outgoing: OutgoingBody | None,
        turn: Turn,
        observe: Observe,
        origin: str = DEFAULT_ORIGIN,
        length: int | None = None,
    ) -> None:
        """`length`: of the body, where its framing does not tell it."""
        self._response = response
        self._operation = operation
        self._outgoing = outgoing
        self._turn = turn
        self._observe = observe
        self._origin = origin
        self._ended = False
        self._buffered = b""
        self._expected: ExpectedCrc64 | None = None
        self._missing = length
        self._failure: ConnectionError | None = None
        self._sent = 0
        self.status = response.status
        self.headers: CIMultiDictProxy[str] = response.headers
        self.reason = response.reason
        if response.ended:
            self._end()
        elif turn.pace is not None:
            turn.on_end = self._end_slow_client

    def __repr__(self) -> str:
        return f"<OriginResponse {self.status} to {self._operation}{', ended' if self._ended else ''}>"

    async def next_piece(self) -> bytes:
        """At least one byte of the body; b"" at its end.

        OriginBroken when the connection ended before the body did, or stalled. ConnectionError when the client, to whom
        a paced response is passed on, was too slow. Not to be called after `close`.
        """
        if self._failure is not None:
            raise self._failure
        if self._ended or self._buffered:
            piece, self._buffered = self._buffered, b""
            return piece
        self._turn.receive(self._sent)
        try:
            piece = await self._response.next_piece()
        except BaseException as failure:
            self._fail(failure)
            raise
        self._check_crc64(piece)
        if self._missing is not None:
            self._count(len(piece), self._missing)
        if self._response.ended:
            self._end()
        else:
            self._sent = len(piece)
            self._turn.wait_for_client(self._sent)
        return piece

    async def read_into(self, target: memoryview) -> int:
        """Reads at least one byte into the front of `target`, without a copy where the transport can; returns how many,
        0 at the end. `target` is not written to once this has returned or raised."""
        if self._ended or self._buffered:
            size = min(len(self._buffered), len(target))
            target[:size], self._buffered = self._buffered[:size], self._buffered[size:]
            return size
        try:
            received = await self._response.read_into(target)
        except BaseException as failure:
            self._fail(failure)
            raise
        self._check_crc64(target[:received])
        if self._missing is not None:
            self._count(received, self._missing)
        if self._response.ended:
            self._end()
        return received

    def take_whole(self, length: int) -> memoryview | None:
        """Takes the whole body of `length` bytes, if it arrived along with the head: the buffer is the caller's from
        then on."""
        if self._ended or self._buffered or self._expected is not None:
            return None
        whole = self._response.take_whole(length)
        if whole is not None:
            self._end()
        return whole

    def skip_turns(self) -> None:
        """Receives the rest of the body without body turns, as a client waits for it."""
        self._response.skip_turns()

    def expect_crc64(self, expected: "ExpectedCrc64") -> None:
        """Verifies the body's CRC-64: its last bytes are handed out only if it is right, else OriginBroken."""
        self._expected = expected

    def _check_crc64(self, received: bytes | memoryview) -> None:
        if self._expected is not None and not self._expected.update(received):
            raise self._broken("the body does not match its checksum (CRC-64)")

    def _count(self, received: int, missing: int) -> None:
        self._missing = missing - received
        if self._missing < 0 or (self._missing and self._response.ended):
            raise self._broken("the body does not have the length of its Content-Range")

    def _broken(self, reason: str) -> OriginBroken:
        self.close()
        self._observe(OriginFailed(self._operation, reason, self._origin))
        return OriginBroken(reason)

    def _fail(self, failure: BaseException) -> None:
        self.close()
        if isinstance(failure, OriginError):
            self._observe(OriginFailed(self._operation, failure.reason, self._origin))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while piece := await self.next_piece():
            yield piece

    async def read(self, limit: int) -> bytes:
        """The whole body. OriginBroken when it has more than `limit` bytes."""
        body = bytearray()
        while piece := await self.next_piece():
            body += piece
            if len(body) > limit:
                self.close()
                raise OriginBroken("the body is larger than expected")
        return bytes(body)

    async def peek(self, limit: int) -> bytes:
        """The body, or its beginning if it has more than `limit` bytes. It can still be read from its start."""
        buffered = bytearray()
        while len(buffered) <= limit and (piece := await self.next_piece()):
            buffered += piece
        self._buffered = bytes(buffered)
        return self._buffered

    def replace_head(self, status: int, headers: HeaderPairs, body: bytes | None = None) -> None:
        """Replaces status and headers, after a translation. `body`: in place of its own, which was read to the end."""
        self.status = status
        replaced = CIMultiDict(headers)
        if body is not None:
            self._buffered = body
            replaced["Content-Length"] = str(len(body))
            replaced.popall("Transfer-Encoding", None)
        self.headers = CIMultiDictProxy(replaced)

    def close(self) -> None:
        """Ends the response. The connection is dropped unless the body was read to the end."""
        if not self._ended:
            self._response.close()
            self._end()

    def _end(self) -> None:
        self._ended = True
        self._turn.release()

    def _end_slow_client(self) -> None:
        self._failure = ConnectionAbortedError("the client accepts the response too slowly while other requests wait")
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        """Ends the response, and waits until the caller's request body is no longer being read."""
        self.close()
        if self._outgoing is not None:
            await self._outgoing.settled()

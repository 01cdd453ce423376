"""The origin's answer: a head, and a body that comes as fast as it is asked for.

The body is never decoded. It is the caller's to end: read to the end or closed; `async with` does the latter. A
connection whose answer was not read to the end is dropped, never reused.
"""

from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Self

from multidict import CIMultiDict, CIMultiDictProxy

from forebay.core.errors import OriginBroken, OriginError
from forebay.core.events import Observe, OriginFailed
from forebay.core.heads import HeaderPairs
from forebay.origin.http.outgoing_body import OutgoingBody
from forebay.origin.http.transport_response import TransportResponse
from forebay.protocol.body.crc64 import crc64


class ExpectedCrc64:
    """The CRC-64 that a body of a known length must have."""

    __slots__ = ("_expected", "_left", "_value")

    def __init__(self, expected: int, length: int) -> None:
        self._expected, self._left, self._value = expected, length, 0

    def update(self, received: bytes | memoryview) -> bool:
        """Whether all is well so far, with these bytes: False if they are the last, and the whole is not right."""
        self._value = crc64(received, self._value)
        self._left -= len(received)
        return self._left > 0 or self._value == self._expected


class OriginResponse:
    """Made by OriginClient.send. Holds a place in its gate until it is ended."""

    __slots__ = (
        "_ended",
        "_expected",
        "_observe",
        "_operation",
        "_outgoing",
        "_release",
        "_replaced_body",
        "_response",
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
        release: Callable[[], None],
        observe: Observe,
    ) -> None:
        self._response = response
        self._operation = operation
        self._outgoing = outgoing
        self._release = release
        self._observe = observe
        self._ended = False
        self._replaced_body = b""
        self._expected: ExpectedCrc64 | None = None
        self.status = response.status
        self.headers: CIMultiDictProxy[str] = response.headers
        self.reason = response.reason
        if response.ended:
            self._end()

    def __repr__(self) -> str:
        return f"<OriginResponse {self.status} to {self._operation}{', ended' if self._ended else ''}>"

    async def next_piece(self) -> bytes:
        """The bytes that have come since the last call, at least one; b"" at the end of the body.

        OriginBroken when the connection ended before the body did, or stalled. Not to be called after `close`.
        """
        if self._ended:
            told, self._replaced_body = self._replaced_body, b""
            return told
        try:
            piece = await self._response.next_piece()
        except BaseException as failure:
            self._fail(failure)
            raise
        self._check_crc64(piece)
        if self._response.ended:
            self._end()
        return piece

    async def read_into(self, target: memoryview) -> int:
        """The same into the front of `target`, where the transport can without a copy: how many bytes; 0 at the end.
        When this returns or raises, `target` is not written to any more."""
        if self._ended:
            taken = min(len(self._replaced_body), len(target))
            target[:taken], self._replaced_body = self._replaced_body[:taken], self._replaced_body[taken:]
            return taken
        try:
            received = await self._response.read_into(target)
        except BaseException as failure:
            self._fail(failure)
            raise
        self._check_crc64(target[:received])
        if self._response.ended:
            self._end()
        return received

    def read_if_buffered(self, target: memoryview) -> bool:
        """The whole body into `target`, if it came along with the head and fills it; else False, and nothing has
        happened."""
        if self._ended or self._expected is not None or not self._response.read_if_buffered(target):
            return False
        self._end()
        return True

    def expect_crc64(self, expected: "ExpectedCrc64") -> None:
        """Hold the body to this. Its last bytes are given out only if it is right, else OriginBroken."""
        self._expected = expected

    def _check_crc64(self, received: bytes | memoryview) -> None:
        if self._expected is not None and not self._expected.update(received):
            self.close()
            reason = "read is not what was told of (CRC-64)"
            self._observe(OriginFailed(self._operation, reason))
            raise OriginBroken(reason)

    def _fail(self, failure: BaseException) -> None:
        self.close()
        if isinstance(failure, OriginError):
            self._observe(OriginFailed(self._operation, failure.reason))

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

    def replace_head(self, status: int, headers: HeaderPairs, body: bytes | None = None) -> None:
        """Let it say the same in other terms. `body`: in place of its own, which was read to the end."""
        self.status = status
        told = CIMultiDict(headers)
        if body is not None:
            self._replaced_body = body
            told["Content-Length"] = str(len(body))
            told.popall("Transfer-Encoding", None)
        self.headers = CIMultiDictProxy(told)

    def close(self) -> None:
        """Ends the answer. The connection is dropped unless the body was read to the end."""
        if not self._ended:
            self._response.close()
            self._end()

    def _end(self) -> None:
        self._ended = True
        self._release()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        """Ends the answer, and waits until the caller's request body is no longer being read."""
        self.close()
        if self._outgoing is not None:
            await self._outgoing.settled()

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
from forebay.origin.http.incoming_body import Incoming
from forebay.origin.outgoing_body import OutgoingBody
from forebay.protocol.body.crc64 import crc64


class WholeSum:
    """The CRC-64 that a body of a known length must have."""

    __slots__ = ("_left", "_told", "_value")

    def __init__(self, told: int, length: int) -> None:
        self._told, self._left, self._value = told, length, 0

    def holds(self, came: bytes | memoryview) -> bool:
        """Whether all is well so far, with these bytes: False if they are the last, and the whole is not right."""
        self._value = crc64(came, self._value)
        self._left -= len(came)
        return self._left > 0 or self._value == self._told


class OriginAnswer:
    """Made by OriginClient.send. Holds a place in its gate until it is ended."""

    __slots__ = (
        "_ended",
        "_expected",
        "_incoming",
        "_leave",
        "_observe",
        "_operation",
        "_outgoing",
        "_told",
        "headers",
        "reason",
        "status",
    )

    def __init__(
        self,
        incoming: Incoming,
        *,
        operation: str,
        outgoing: OutgoingBody | None,
        leave: Callable[[], None],
        observe: Observe,
    ) -> None:
        self._incoming = incoming
        self._operation = operation
        self._outgoing = outgoing
        self._leave = leave
        self._observe = observe
        self._ended = False
        self._told = b""
        self._expected: WholeSum | None = None
        self.status = incoming.status
        self.headers: CIMultiDictProxy[str] = incoming.headers
        self.reason = incoming.reason
        if incoming.ended:
            self._end()

    def __repr__(self) -> str:
        return f"<OriginAnswer {self.status} to {self._operation}{', ended' if self._ended else ''}>"

    async def next_piece(self) -> bytes:
        """The bytes that have come since the last call, at least one; b"" at the end of the body.

        OriginBroken when the connection ended before the body did, or stalled. Not to be called after `close`.
        """
        if self._ended:
            told, self._told = self._told, b""
            return told
        try:
            piece = await self._incoming.next_piece()
        except BaseException as failure:
            self._broke_off(failure)
            raise
        self._weigh(piece)
        if self._incoming.ended:
            self._end()
        return piece

    async def read_into(self, target: memoryview) -> int:
        """The same into the front of `target`, where the transport can without a copy: how many bytes; 0 at the end.
        When this returns or raises, `target` is not written to any more."""
        if self._ended:
            taken = min(len(self._told), len(target))
            target[:taken], self._told = self._told[:taken], self._told[taken:]
            return taken
        try:
            received = await self._incoming.read_into(target)
        except BaseException as failure:
            self._broke_off(failure)
            raise
        self._weigh(target[:received])
        if self._incoming.ended:
            self._end()
        return received

    def take(self, target: memoryview) -> bool:
        """The whole body into `target`, if it came along with the head and fills it; else False, and nothing has
        happened."""
        if self._ended or self._expected is not None or not self._incoming.take(target):
            return False
        self._end()
        return True

    def expect(self, whole: "WholeSum") -> None:
        """Hold the body to this. Its last bytes are given out only if it is right, else OriginBroken."""
        self._expected = whole

    def _weigh(self, came: bytes | memoryview) -> None:
        if self._expected is not None and not self._expected.holds(came):
            self.close()
            reason = "read is not what was told of (CRC-64)"
            self._observe(OriginFailed(self._operation, reason))
            raise OriginBroken(reason)

    def _broke_off(self, failure: BaseException) -> None:
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

    def retell(self, status: int, headers: HeaderPairs, body: bytes | None = None) -> None:
        """Let it say the same in other terms. `body`: in place of its own, which was read to the end."""
        self.status = status
        told = CIMultiDict(headers)
        if body is not None:
            self._told = body
            told["Content-Length"] = str(len(body))
            told.popall("Transfer-Encoding", None)
        self.headers = CIMultiDictProxy(told)

    def close(self) -> None:
        """Ends the answer. The connection is dropped unless the body was read to the end."""
        if not self._ended:
            self._incoming.close()
            self._end()

    def _end(self) -> None:
        self._ended = True
        self._leave()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        """Ends the answer, and waits until the caller's request body is no longer being read."""
        self.close()
        if self._outgoing is not None:
            await self._outgoing.settled()

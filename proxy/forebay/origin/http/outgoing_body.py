"""The body of a request, between the caller's pieces and aiohttp's writer.

It guarantees what aiohttp leaves open:

- the bytes that complete the announced length leave only once the caller's pieces have ended without an error. A
  checksum or a signature that proves wrong only at the end finds the upload unfinished, so that the origin drops it;
- fewer or more bytes than announced is an error, never padded or cut;
- the caller's own error comes out of `send` unchanged, not as a fault of the origin;
- it is read once. It can't be sent again;
- the caller's pieces are no longer being read once `settled` has returned;
- where the caller's pieces come from a client that is too slow while others wait for a turn, it ends unfinished.

The stall timeout is the origin's, not the caller's: it runs only while a piece is with the origin.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable

from forebay.core.buffers import Piece
from forebay.core.errors import S3Error
from forebay.core.interruption import Interruption
from forebay.core.requester import BACKGROUND, requester
from forebay.origin.origin_limits import OriginLimits
from forebay.origin.origin_request import OriginRequest
from forebay.origin.turns.body_turns import PIECE as SLICE
from forebay.origin.turns.body_turns import BodyTurns
from forebay.origin.turns.request_turns import Turn

PIECE = 256 * 1024
"""Bytes of a slice of a body in memory: a large one would block the loop in one write."""


class OutgoingBody:
    """An AsyncIterable for aiohttp. `length` None: not announced, framed by the transport instead."""

    def __init__(
        self,
        pieces: AsyncIterable[Piece],
        length: int | None,
        stall_timeout: float,
        answer_timeout: float,
        before_completion: Callable[[], Awaitable[None]] | None = None,
        turn: Turn | None = None,
    ) -> None:
        """`before_completion`: awaited before the bytes leave that complete the body. `turn`: the request's, if the
        body is still to come from a client; it learns when that is waited for."""
        self._pieces = aiter(pieces)
        self.length = length
        self._stall_timeout = stall_timeout
        self._answer_timeout = answer_timeout
        self._before_completion = before_completion
        self._received = 0
        self._last: Piece | None = None
        self._ended = False
        self.is_begun = False
        """Whether the writer has requested a piece."""
        self._reading: asyncio.Future[None] | None = None
        self._timeout: asyncio.Timeout | None = None
        self._turn = turn
        self._waiting = Interruption()
        """Ends the wait for a client."""
        if turn is not None:
            turn.on_end = self._waiting.interrupt
        self.failure: BaseException | None = None
        """The error that the caller's pieces raised, or the one of their length."""

    def __aiter__(self) -> AsyncIterator[Piece]:
        return self

    async def __anext__(self) -> Piece:
        self.is_begun = True
        while True:
            if self._ended:
                raise StopAsyncIteration
            self._reschedule(None)
            try:
                piece = await self._next_piece()
                if piece is None and self._before_completion is not None:
                    await self._before_completion()
            except Exception as failure:
                self.failure = failure
                raise
            if piece is None:
                self._ended = True
                if self._turn is not None:
                    self._turn.complete_body()
                self._reschedule(self._answer_timeout)
                if self._last is None:
                    raise StopAsyncIteration
                return self._last
            if self.length is not None and self._received == self.length:
                self._last = piece
                continue
            self._reschedule(self._stall_timeout)
            return piece

    async def _next_piece(self) -> Piece | None:
        """The caller's next piece that has bytes; None at the end. Raises when they are not as many as announced."""
        self._reading = asyncio.get_running_loop().create_future()
        try:
            while True:
                if self._turn is None:
                    piece = await anext(self._pieces, None)
                else:
                    piece = await self._paced_piece(self._turn)
                if piece is None:
                    if self.length is not None and self._received < self.length:
                        raise S3Error("IncompleteBody")
                    return None
                if piece:
                    break
        finally:
            self._reading.set_result(None)
            self._reading = None
        self._received += len(piece)
        if self.length is not None and self._received > self.length:
            raise S3Error("InvalidRequest", "The body is longer than was announced.")
        return piece

    async def _paced_piece(self, turn: Turn) -> Piece | None:
        """The next piece of a client whose pace is measured. Raises S3Error RequestTimeout if it is too slow."""
        piece: Piece | None = None
        turn.wait_for_client()
        try:
            with self._waiting:
                piece = await anext(self._pieces, None)
        except TimeoutError as expired:
            raise S3Error("RequestTimeout", "The body came too slowly while other requests waited.") from expired
        finally:
            turn.receive(len(piece) if piece is not None else 0)
        return piece

    def extend_timeout(self, timeout: asyncio.Timeout | None) -> None:
        """Reschedules `timeout` as pieces leave, from now on; None: no longer."""
        self._timeout = timeout

    def _reschedule(self, seconds: float | None) -> None:
        watch = self._timeout
        if watch is not None and not watch.expired():
            watch.reschedule(None if seconds is None else asyncio.get_running_loop().time() + seconds)

    async def settled(self) -> None:
        """Waits until none of the caller's pieces is being read. For after the request was abandoned."""
        if self._reading is not None:
            await asyncio.shield(self._reading)


def outgoing_body(
    request: OriginRequest, turn: Turn, limits: OriginLimits, body_turns: BodyTurns
) -> OutgoingBody | None:
    """The body of a request; None: it has none. That of background work takes its body turns, unless it is small."""
    body, length = request.body, request.content_length
    if body is None or body == b"":
        return None
    if isinstance(body, bytes):
        length = len(body)
        body = _slices(body)
    if requester.get() == BACKGROUND and (length is None or length > SLICE):
        body = _in_turns(body, body_turns)
    arriving = turn if request.paced_by == "body" else None
    return OutgoingBody(body, length, limits.stall_timeout, limits.answer_timeout, request.before_completion, arriving)


async def _in_turns(pieces: AsyncIterable[Piece], turns: BodyTurns) -> AsyncIterator[Piece]:
    async for piece in pieces:
        view = memoryview(piece)
        for start in range(0, len(view), SLICE):
            await turns.wait()
            yield view[start : start + SLICE]


async def _slices(body: bytes) -> AsyncIterator[Piece]:
    """A body in memory, in pieces."""
    view = memoryview(body)
    for start in range(0, len(view), PIECE):
        yield bytes(view[start : start + PIECE])

"""The body of a small PUT that is read past aiohttp, while it arrives.

    head, front of the body ──> request service ──> gateway ──> `receive` ──> 100 Continue, if the client waits for it
    the rest ──> connection ──> `feed` ────────────────────> the whole body ──┘
                                  └──> bytes behind it: the next request's

It has a declared length, so a count says where it ends, and never its bytes. Its maker charges its memory. The time
limit between two pieces, and the failures, are those of a body that aiohttp reads
(forebay.server.http.aiohttp_exchange). Where an answer leaves before its end, the rest is read and dropped by `linger`.

RFC 9110 section 10.1.1
"""

import asyncio
from collections.abc import Callable

from forebay.core.errors import S3Error
from forebay.core.request_record import RequestRecord
from forebay.core.timers import Timers
from forebay.server.http.connection_limits import Timeout


class ArrivingBody:
    """See the module. `receive` is called once, if at all."""

    __slots__ = ("_content", "_is_broken", "_left", "_record", "_send_continue", "_stall", "_timers", "_waiter")

    def __init__(
        self,
        front: bytes,
        left: int,
        timers: Timers,
        stall: float,
        record: RequestRecord,
        send_continue: Callable[[], None] | None,
    ) -> None:
        """`front`: the bytes that came with the head. `left`: bytes to come. `stall`: the longest pause between two
        pieces, in seconds. `send_continue`: sends 100 Continue; None: the client does not wait for it."""
        self._content = bytearray(front)
        self._left = left
        self._timers = timers
        self._stall = stall
        self._record = record
        self._send_continue = send_continue
        self._is_broken = False
        self._waiter: asyncio.Future[None] | None = None

    def feed(self, data: bytes) -> bytes:
        """Takes the front of these bytes that belongs to the body. Returns the rest."""
        own = data[: self._left]
        self._left -= len(own)
        self._content += own
        self._wake()
        return data[len(own) :]

    def break_off(self) -> None:
        """Ends the body: the connection has ended before it."""
        self._is_broken = True
        self._wake()

    def is_eof(self) -> bool:
        """Whether all of it has come."""
        return not self._left

    async def receive(self) -> bytes:
        """Returns the whole body. Raises S3Error when it stalls or ends too soon."""
        if self._send_continue is not None:
            self._send_continue()
        self._record.received = len(self._content)
        while self._left:
            try:
                async with Timeout(self._timers, self._stall):
                    await self._next()
            except TimeoutError as error:
                raise S3Error("RequestTimeout", "The body stalled.") from error
            except ConnectionError as error:
                raise S3Error("IncompleteBody") from error
            finally:
                self._record.received = len(self._content)
        return bytes(self._content)

    async def readany(self) -> bytes:
        """Waits for more, and drops it. Raises ConnectionError if none comes."""
        await self._next()
        self._content.clear()
        return b""

    async def _next(self) -> None:
        """Waits until more has come. Raises ConnectionError if the rest never will."""
        if not self._is_broken:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self._is_broken and self._left:
            raise ConnectionResetError("the client has left")

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

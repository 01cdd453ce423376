"""Receive wait: the one reader of a connection waits for bytes, a failure or the deadline. Receiving pauses.

    _wait             ──_wake──> bytes        ──_fail, or the deadline──> ConnectionFault
    call_when_ready   ──_wake, _fail, or the deadline──> on_ready()

A base of forebay.origin.http.http_connection, as this is called so often. Once a response has failed, every wait for it
raises the first failure.
"""

import asyncio
from collections.abc import Callable
from typing import cast

from forebay.origin.http.large_body import AT_ONCE, LargeBody
from forebay.origin.http.response_deadline import ResponseDeadline
from forebay.origin.http.transport_errors import ConnectionFault, response_timed_out
from forebay.protocol.response_templates import ResponseTemplates


class ReceiveWait(asyncio.BufferedProtocol):
    """A protocol whose reader waits. Made inside the running loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reading = True
        self._waiter: asyncio.Future[int] | None = None
        self._on_ready: Callable[[], None] | None = None
        self._templates: ResponseTemplates | None = None
        """The templates of the response that `_on_ready` waits for."""
        self._large: LargeBody | None = None
        """The memory and turns of a large body that is waited for."""
        self._at_once = AT_ONCE
        self._fault: ConnectionFault | None = None
        self._deadline = ResponseDeadline(self._loop, self._pass_deadline)
        self._timed_out = response_timed_out
        """Makes the error that a waiter gets at the deadline."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The transport is connected."""
        self._transport = cast("asyncio.Transport", transport)

    def _pause(self) -> None:
        if self._reading and self._transport is not None:
            self._reading = False
            self._transport.pause_reading()

    def _resume(self) -> None:
        if not self._reading and self._transport is not None:
            self._reading = True
            self._transport.resume_reading()

    def call_when_ready(
        self,
        on_ready: Callable[[], None],
        response_timeout: float,
        templates: ResponseTemplates,
        large: LargeBody | None = None,
    ) -> None:
        """Has `on_ready` called once, in a turn of its own: with the response to a GET, if it is small or `large` makes
        room for it, with the head of another one, or when there will be none. `response_head` returns or raises at once
        from then on.

        `templates`: that its head may match. `large`: None where a large body is not waited for."""
        self._on_ready, self._templates, self._large = on_ready, templates, large
        self._timed_out = response_timed_out
        self._deadline.set(response_timeout)

    def _end_part(self, count: int) -> None:
        """`count` bytes of a large body have come, and not its end: the next part is received in its turn."""
        large = self._large
        if large is None:
            return
        self._deadline.renew()
        waiter = None
        if large.turns.is_beside_demand:
            self._pause()
            waiter = large.turns.waiter()
        elif count >= self._at_once:
            self._pause()  # else the transport goes on reading at once
        if waiter is not None:
            waiter.add_done_callback(lambda _: self._resume())
        elif not self._reading:
            self._loop.call_soon(self._resume)

    async def _wait(self, seconds: float, timed_out: Callable[[], ConnectionFault]) -> int:
        """Waits until bytes have arrived. Returns how many went into the target."""
        if self._fault is not None:
            raise self._fault
        waiter: asyncio.Future[int] = self._loop.create_future()
        self._waiter = waiter
        self._timed_out = timed_out
        self._deadline.set(seconds)
        try:
            return await waiter
        finally:
            self._waiter = None

    def _pass_deadline(self) -> None:
        if self._waiter is not None or self._on_ready is not None:
            self._fail(self._timed_out)

    def _fail(self, fault: Callable[[], ConnectionFault]) -> None:
        if self._fault is None:  # what it failed with first is why
            self._fault = fault()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(self._fault)
        self._report()

    def _report(self) -> None:
        on_ready, self._on_ready = self._on_ready, None
        if on_ready is not None:
            self._loop.call_soon(on_ready)

    def _wake(self, received: int) -> None:
        if self._on_ready is not None:
            self._report()
        elif self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(received)

"""Hedged reads: a read whose response is late is sent a second time, and the first usable response wins.

    sent ──response──────────────────────────────> it is used
      └─late─> hedged ──response to the first────> it is used; the hedge is dropped
                 │   ├──usable response to the hedge──> that is used; the first is dropped
                 │   └──the first fails──────────> the hedge is waited for
                 └─late again, after twice the time─> the hedge is dropped and another one sent, HEDGES at most

One connection that hangs then costs its readers `after` seconds instead of `origin.answer_timeout`. All readers of an
object share a lookup or a flight, and the hedge is below those: one for a thousand readers.

Bounds: reads only; no hedge waits for a turn at the origin, or is sent while anything else waits for one; at most an
eighth of the turns is used by hedges; none while the breaker is not closed. Time in which a read waits for its turn, or
in which the event loop does not run, does not make it late.

Nothing else changes for the caller. The fence's tick and the time that it noted before the request were noted before
the hedge, too.

J. Dean and L. A. Barroso, The Tail at Scale, 2013: hedged requests. https://grpc.io/docs/guides/request-hedging/
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, Literal, Protocol, TypeAlias, TypeVar

from forebay.core.errors import OriginBroken, OriginError
from forebay.core.events import HedgeEnded
from forebay.core.interruption import Interruption
from forebay.core.sweep import Sweep
from forebay.core.task_registry import TaskRegistry
from forebay.core.timers import Timers
from forebay.origin.origin_client import OriginClient

HEDGES: Final = 3
"""Hedges of one request at most, one after the other."""
HEDGED_SHARE: Final = 8
"""One in so many turns at the origin may be used by hedges."""
_PRECISION: Final = 4
"""A late response is noticed within a fourth of the time after which it is late."""


class Hedgeable(Protocol):
    """A response that may have been hedged."""

    @property
    def is_usable(self) -> bool:
        """Whether it answers the read, or only says that this attempt failed."""
        ...

    def close(self) -> None:
        """Ends the response."""


R = TypeVar("R", bound=Hedgeable)
Send: TypeAlias = Callable[[bool], Coroutine[Any, Any, R]]
"""Sends the request; the argument says whether as a hedge. Raises OriginError."""


class Hedging:
    """Sends reads to one origin, and a second request beside a late one."""

    def __init__(self, client: OriginClient, tasks: TaskRegistry, after: float, timers: Timers) -> None:
        """`after`: seconds without a response after which a read is hedged; more than 0."""
        self._client = client
        self._most = max(1, client.limits.reads // HEDGED_SHARE)
        self.tasks = tasks
        self.after = after
        self.timers = timers
        self.sweep = Sweep(after / _PRECISION, timers)
        self.under_way = 0
        """Hedges without a response."""

    def __repr__(self) -> str:
        return f"<Hedging after {self.after:g} s: {len(self.sweep)} reads, {self.under_way} hedges>"

    def send(self, send: "Send[R]", waited: float = 0.0) -> Coroutine[Any, Any, R]:
        """Returns the first usable response; the last one, or the first one's failure, if there is none. `waited`:
        seconds that the response has been waited for."""
        return _HedgedRead(self, send, waited).response()

    @property
    def are_turns_awaited(self) -> bool:
        """Whether reads wait for their turn at the origin."""
        return self._client.reads.waiting > 0

    def allows(self, *, instead: bool) -> bool:
        """Whether a hedge may be sent now. `instead`: of another one, which is dropped for it."""
        return (instead or self.under_way < self._most) and self._client.admits_hedge

    def ended(self, result: Literal["won", "lost", "failed"]) -> None:
        """Reports the result of a hedge."""
        self._client.observe(HedgeEnded(result))


class _HedgedRead(Generic[R]):
    """One read: its request, and at most one hedge at a time. A member of the sweep until it has its response."""

    __slots__ = ("_due", "_first_ended", "_hedge", "_hedging", "_interruption", "_patience", "_send", "_sent", "_won")

    def __init__(self, hedging: Hedging, send: "Send[R]", waited: float) -> None:
        self._hedging = hedging
        self._send = send
        self._patience = hedging.after
        self._due = hedging.timers.time() + hedging.after - waited
        self._interruption = Interruption()
        """Interrupts the first request. It runs in the caller's own task: hardly any is hedged."""
        self._first_ended = False
        self._sent = 0
        self._hedge: asyncio.Task[None] | None = None
        self._won: R | None = None

    async def response(self) -> R:
        self._hedging.sweep.add(self)
        try:
            try:
                with self._interruption:
                    response = await self._send(False)
            except TimeoutError:
                if self._won is None:
                    raise
                return self._hedged_response(self._won)
            except OriginError:
                won = await self._wait_for_hedge()
                if won is None:
                    raise
                return self._hedged_response(won)
            if not response.is_usable and (won := await self._wait_for_hedge()) is not None:
                response.close()
                return self._hedged_response(won)
            return response
        finally:
            self._hedging.sweep.remove(self)
            if self._sent:
                self._drop_hedge()

    def _hedged_response(self, won: R) -> R:
        self._won = None
        self._hedging.ended("won")
        return won

    async def _wait_for_hedge(self) -> R | None:
        """Returns the response to the hedge under way, once the first request has failed; None: there is none."""
        self._first_ended = True
        if self._hedge is not None:
            await asyncio.wait([self._hedge])
        return self._won

    def _drop_hedge(self) -> None:
        if self._won is not None:  # it came in the same turn of the loop as the first
            self._won.close()
            self._won = None
            self._hedging.ended("lost")
        if self._hedge is not None:
            self._hedge.cancel()

    # The sweep's side

    def postpone(self, seconds: float) -> None:
        self._due += seconds

    def examine(self, now: float) -> None:
        hedging = self._hedging
        if hedging.are_turns_awaited:
            self._due = max(self._due, now + hedging.after)  # perhaps this read has yet to be sent
        if now < self._due or self._won is not None:
            return
        if self._first_ended:
            self._drop_hedge()
        elif self._sent < HEDGES and hedging.allows(instead=self._hedge is not None):
            self._drop_hedge()
            self._sent += 1
            self._patience *= 2
            self._due = now + self._patience
            hedging.under_way += 1
            self._hedge = hedging.tasks.spawn(self._send_hedge(), "hedge")
            self._hedge.add_done_callback(self._hedge_ended)

    async def _send_hedge(self) -> None:
        response = await self._send(True)
        if not response.is_usable:
            response.close()
            raise OriginBroken("no usable response to a hedge")
        self._won = response
        if not self._first_ended:
            self._interruption.interrupt()

    def _hedge_ended(self, hedge: asyncio.Task[None]) -> None:
        if self._hedge is hedge:
            self._hedge = None
        self._hedging.under_way -= 1
        if hedge.cancelled():
            self._hedging.ended("lost")
        elif hedge.exception() is not None:
            self._hedging.ended("failed")

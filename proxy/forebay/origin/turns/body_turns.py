"""Body turns: how large bodies of background work share the event loop with demand.

    a body goes on ──no client has asked for anything lately──> at once, as much as has come
             └──beside demand──> waits ──one in each turn of the loop──> PIECE of it is received, or sent

Background turns (forebay.origin.turns.background_turns) bound how much is on its way. That arrives in bursts, and the
loop receives from all sockets that have something before anything else runs: a hit that has arrived meanwhile would
wait until the kernel has copied a dozen pieces. What is done with them afterwards runs in slices (server.event_loop). A
piece that is sent (of the journal, which is drained) is copied by the kernel as well, and on loopback received.
Invariants:

- beside demand, one body goes on between two looks of the loop at its sockets, where hits are answered;
- a large body that is received without a task receives a piece only if no other has done so since the last look
  (`take_piece`): bytes may come long after the turn, those of many bodies at once;
- one goes on in each turn of the loop, whatever the demand: background work is slow under load, and not starved;
- without demand there is no wait, and no cost;
- a body that demand has come to wait for takes no turns any more (`skip_turns` of what receives it);
- they go on in their order; a wait that is cancelled leaves nothing behind.

Belongs to one event loop.
"""

import asyncio
from collections import deque
from typing import Final

from forebay.core.timers import Timers

DEMAND_SECONDS: Final = 0.1
"""Seconds after the last request of a client in which the next one is expected."""
PIECE: Final = 128 * 1024
"""Bytes."""
PROBE: Final = 4 * 1024
"""Bytes that a body receives where another one has received a piece: it waits for its turn once more."""


class BodyTurns:
    """The body turns of one worker."""

    def __init__(self, timers: Timers) -> None:
        self.demand = 0
        """The number of messages from clients. Each request does no more than add one."""
        self.granted = 0
        """Counts the turns that were granted."""
        self._seen = 0
        self._quiet_from = 0.0
        self._timers = timers
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._is_taken = False
        """Whether this turn of the loop is taken."""
        self._is_received = False
        """Whether a piece was received since the loop last polled its sockets."""

    def __repr__(self) -> str:
        return f"<BodyTurns {self.waiting} waiting>"

    @property
    def waiting(self) -> int:
        """The number of waiters."""
        return len(self._waiters)

    @property
    def is_beside_demand(self) -> bool:
        """Whether clients have sent requests recently."""
        now = self._timers.time()
        if self._seen != self.demand:
            self._seen, self._quiet_from = self.demand, now + DEMAND_SECONDS
        return now < self._quiet_from

    async def wait(self) -> None:
        """Returns when a piece may go on: at once, if none has in this turn of the loop."""
        waiter = self.waiter()
        if waiter is not None:
            await waiter

    async def end_step(self) -> None:
        """Ends a step. Beside demand, it returns in a later turn of the loop than it was called in, if others are due
        before."""
        if self.is_beside_demand:
            await asyncio.sleep(0)

    def waiter(self) -> "asyncio.Future[None] | None":
        """Returns a future that is done when a piece may go on; None: it may at once. Whoever must not wait any longer
        may set the future's result: the turn then goes to the next waiter."""
        if self._is_taken:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            return waiter
        if self.is_beside_demand:
            self._grant()
        return None

    def take_piece(self) -> bool:
        """Returns whether a body of which the loop has found bytes may receive a piece of them."""
        if self._is_received:
            return False
        self._is_received = True
        asyncio.get_running_loop().call_soon(self._end_look)
        return True

    def _end_look(self) -> None:
        self._is_received = False

    def _grant(self) -> None:
        self._is_taken = True
        self.granted += 1
        asyncio.get_running_loop().call_soon(self._pass_on)  # what is due now runs only in the next turn

    def _pass_on(self) -> None:
        self._is_taken = False
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():  # else cancelled, or gone on
                waiter.set_result(None)
                self._grant()
                return

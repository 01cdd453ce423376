"""Background turns: fetches that no client waits for get only the turns at the origin that demand leaves.

    acquire ──room beside demand──> in use ──> release
       └──> waits ──fewest in use of its group first──┘

Plans, recordings and read-ahead (jobs.prefetch) acquire one before they begin a fetch, and then send ordinary
requests, as the requester BACKGROUND: so the turns in use by demand are known at every moment. A fetch that waits here
has not begun: a reader that demands the same block meanwhile fetches it at once, and never waits behind background
work. Invariants:

- while a demand read waits for a turn, none is granted here beyond the minimum;
- one in eight turns of the origin stays free of background work, and while demand is at the origin, three in four, so
  that demand neither waits nor shares the link with many;
- the minimum, one in 32, is granted always: background work is slow under load, and not starved;
- a free one goes to the waiting group (a plan, a job) with the fewest in use, among equals to the one that waits
  longest.

Belongs to one event loop.
"""

import asyncio
import itertools
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple, Protocol

from forebay.core.requester import BACKGROUND, requester

_FREE_SHARE: Final = 8
_SHARE_BESIDE_DEMAND: Final = 4
_MINIMUM_SHARE: Final = 32


class DemandTurns(Protocol):
    """The turns that all requests of a kind take, those of background work included."""

    capacity: int
    in_use: int

    @property
    def waiting(self) -> int:
        """The number of waiters."""
        ...

    def in_use_by(self, principal: str) -> int:
        """The turns of one principal."""
        ...


class _Waiter(NamedTuple):
    number: int
    granted: "asyncio.Future[None]"


class BackgroundTurns:
    """The turns that background work may have beside `demand`, which calls `serve` when turns become free."""

    def __init__(self, demand: DemandTurns) -> None:
        self._demand = demand
        self.in_use = 0
        self.minimum = max(1, demand.capacity // _MINIMUM_SHARE)
        """The least number of turns, granted beside any demand."""
        self._in_use_by: Counter[str] = Counter()
        self._queues: dict[str, deque[_Waiter]] = {}
        self._numbers = itertools.count()

    def __repr__(self) -> str:
        return f"<BackgroundTurns {self.in_use} in use, {self.waiting} waiting>"

    @property
    def waiting(self) -> int:
        """The number of waiters."""
        return sum(map(len, self._queues.values())) if self._queues else 0

    @property
    def has_room(self) -> bool:
        """Whether one more may begin now."""
        if self.in_use < self.minimum:
            return True
        demand = self._demand
        if demand.waiting:
            return False
        others = demand.in_use - demand.in_use_by(BACKGROUND)
        most = demand.capacity - others - demand.capacity // _FREE_SHARE
        if others:
            most = min(most, demand.capacity // _SHARE_BESIDE_DEMAND)
        return self.in_use < most

    @asynccontextmanager
    async def turn(self, group: str) -> AsyncIterator[None]:
        """A context in which work of `group` has a turn. Its requests to the origin count as background work."""
        await self.acquire(group)
        before = requester.get()
        requester.set(BACKGROUND)
        try:
            yield
        finally:
            requester.set(before)  # no token: a generator may be closed in another context
            self.release(group)

    async def acquire(self, group: str) -> None:
        """Waits until work of `group` may begin. Give it back by `release`."""
        if self.try_acquire(group):
            return
        waiter = _Waiter(next(self._numbers), asyncio.get_running_loop().create_future())
        self._queues.setdefault(group, deque()).append(waiter)
        try:
            await waiter.granted
        except BaseException:
            if waiter.granted.done() and not waiter.granted.cancelled():
                self.release(group)  # granted in the same iteration of the loop in which the wait ended
            else:
                self._remove(group, waiter)
            raise

    def try_acquire(self, group: str) -> bool:
        """Returns whether work of `group` may begin at once; if so, give it back by `release`."""
        if self._queues or not self.has_room:
            return False
        self._grant(group)
        return True

    def release(self, group: str) -> None:
        """Gives one back."""
        self.in_use -= 1
        self._in_use_by[group] -= 1
        if not self._in_use_by[group]:
            del self._in_use_by[group]
        self.serve()

    def serve(self) -> None:
        """Grants free turns to waiters."""
        while self._queues and self.has_room:
            group = min(self._queues, key=lambda each: (self._in_use_by[each], self._queues[each][0].number))
            waiter = self._queues[group][0]
            self._remove(group, waiter)
            if not waiter.granted.done():  # else cancelled, and its coroutine has not run yet
                self._grant(group)
                waiter.granted.set_result(None)

    def _grant(self, group: str) -> None:
        self.in_use += 1
        self._in_use_by[group] += 1

    def _remove(self, group: str, waiter: _Waiter) -> None:
        queue = self._queues.get(group)
        if queue is not None and waiter in queue:
            queue.remove(waiter)
            if not queue:
                del self._queues[group]

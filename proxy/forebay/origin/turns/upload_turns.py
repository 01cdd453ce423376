"""Upload turns: the requests that carry out acknowledged writes get the turns at the origin that demand leaves, and
some always.

    acquire ──free beside demand──> in use ──> release
       └──> waits: of small and large requests whichever have fewer in use, then in order of arrival

No client waits for these requests, so the drainer sends them as the requester BACKGROUND, and each waits here before it
takes a turn among the origin's writes. Invariants:

- demand first: while a client's request waits for a turn at the origin, for reading or writing, no more than the
  minimum is in use when one is granted; while one is at the origin, a quarter; else seven of eight, as a client may
  come at any moment;
- never starved: the minimum, one in 32 and at least two, is granted whatever demand does;
- large requests have three of four of these at most, and leave at least one, so that a small one waits for small ones
  only; and where both wait, large ones get as many as small ones.

A request has no share of a byte budget here: a part of any size passes, piece by piece. Belongs to one event loop.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Literal, TypeAlias

from forebay.core.requester import BACKGROUND, requester
from forebay.origin.turns.request_turns import RequestTurns

LARGE: Final = 1 << 20
"""Bytes of the body of a large request."""
_FREE_SHARE: Final = 8
_SHARE_BESIDE_DEMAND: Final = 4
_MINIMUM_SHARE: Final = 32

_Lane: TypeAlias = Literal["small", "large"]
_LANES: Final[tuple[_Lane, ...]] = ("small", "large")


class UploadTurns:
    """The turns of one origin that uploads of acknowledged writes may have beside `reads` and `writes`, the turns that
    all requests take."""

    def __init__(self, reads: RequestTurns, writes: RequestTurns) -> None:
        self._demand = (reads, writes)
        self.capacity = writes.capacity
        self.minimum = min(self.capacity, max(2, self.capacity // _MINIMUM_SHARE))
        """The least number of turns, granted beside any demand."""
        self._in_use: Counter[_Lane] = Counter()
        self._waiting: dict[_Lane, deque[asyncio.Future[None]]] = {lane: deque() for lane in _LANES}

    def __repr__(self) -> str:
        return f"<UploadTurns {self.in_use} in use, {self.waiting} waiting>"

    @property
    def in_use(self) -> int:
        """Turns out."""
        return self._in_use.total()

    @property
    def waiting(self) -> int:
        """The number of waiters."""
        return sum(map(len, self._waiting.values()))

    @property
    def limit(self) -> int:
        """The number of turns that may be in use now."""
        if any(turns.waiting_besides(BACKGROUND) for turns in self._demand):
            return self.minimum
        if any(turns.in_use > turns.in_use_by(BACKGROUND) for turns in self._demand):
            return max(self.minimum, self.capacity // _SHARE_BESIDE_DEMAND)
        return max(self.minimum, self.capacity - self.capacity // _FREE_SHARE)

    @asynccontextmanager
    async def turn(self, size: int) -> AsyncIterator[None]:
        """A request with a body of `size` bytes may be sent. One that a client waits for does not wait here: its
        requester is the client."""
        if requester.get() != BACKGROUND:
            yield
            return
        lane: _Lane = "large" if size > LARGE else "small"
        await self._acquire(lane)
        try:
            yield
        finally:
            self._release(lane)

    async def _acquire(self, lane: _Lane) -> None:
        if not self._waiting[lane] and self._allows(lane):
            self._in_use[lane] += 1
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[lane].append(granted)
        for turns in self._demand:
            turns.on_release = self._serve
        try:
            await granted
        except BaseException:
            if granted.done() and not granted.cancelled():
                self._release(lane)  # granted in the same iteration of the loop in which the wait ended
            elif granted in self._waiting[lane]:  # else it was cancelled, and `_serve` has seen it before us
                self._waiting[lane].remove(granted)
            raise

    def _release(self, lane: _Lane) -> None:
        self._in_use[lane] -= 1
        self._serve()

    def _allows(self, lane: _Lane) -> bool:
        most = self.limit
        if self.in_use >= most:
            return False
        return lane == "small" or self._in_use["large"] < max(1, most * 3 // 4)

    def _serve(self) -> None:
        """Grants free turns to waiters."""
        while any(self._waiting.values()):
            lanes = [lane for lane in _LANES if self._waiting[lane] and self._allows(lane)]
            if not lanes:
                return
            lane = min(lanes, key=self._in_use.__getitem__)
            granted = self._waiting[lane].popleft()
            if not granted.done():
                self._in_use[lane] += 1
                granted.set_result(None)
        for turns in self._demand:
            turns.on_release = None  # each read has a release of its own

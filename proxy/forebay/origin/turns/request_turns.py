"""Turns at the origin: at most so many requests in flight, shared fairly between principals, and not held by slow
clients.

    acquire ──free──> Turn ──────────────────────────────────> release
       └──> waits, at most so long ──the fewest turns first──┘

A request is *paced* while a client must send or accept the rest of its body (a long upload, an answer that is passed
on). Any other request ends as fast as the origin lets it. Invariants:

- at most `capacity` turns are out; paced ones at most three of four of these, and those of one principal at most three
  of four of that. So bodyless and small writes never wait for clients, and one principal's slow bodies leave turns to
  others;
- once several principals have asked for turns, none has more than seven of eight, however slow its requests are at the
  origin;
- a free turn goes to the waiting principal with the fewest turns out (max-min fairness), among equals to the one that
  waits longest; within a principal the order is that of arrival. Nobody waits while a turn is free that it may have;
- a wait that is cancelled or times out leaves nothing behind;
- a paced turn is ended only if its client is slower than `min_rate` and a waiting request could have its turn.

Background fetches first acquire a turn of forebay.origin.turns.background_turns, which lets them begin only beside
demand.

Belongs to one event loop. Bytes of buffers are shared by forebay.core.fair_semaphore instead.
"""

import asyncio
import itertools
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from forebay.core.errors import Throttled
from forebay.core.timers import Timers
from forebay.origin.turns.background_turns import BackgroundTurns
from forebay.policy.client_pace import ClientPace

CHECK_SECONDS: Final = 1.0
"""Seconds between two checks for slow clients, while a request waits."""


class Turn:
    """One request's turn. `release` it once."""

    __slots__ = ("_turns", "on_end", "pace", "principal")

    def __init__(self, turns: "RequestTurns", principal: str, pace: ClientPace | None) -> None:
        self._turns = turns
        self.principal = principal
        self.pace = pace
        """None: the request is not paced by a client."""
        self.on_end: Callable[[], None] | None = None
        """Ends the request early. Called at most once, and only while the client is waited for."""

    def wait_for_client(self, pending: int = 0) -> None:
        """The client is waited for from now on. `pending`: bytes that it is to accept."""
        if self.pace is not None:
            self.pace.wait(self._turns.timers.time(), pending)

    def receive(self, size: int) -> None:
        """The client has sent or accepted `size` bytes."""
        if self.pace is not None:
            self.pace.receive(self._turns.timers.time(), size)

    def complete_body(self) -> None:
        """The request is no longer paced: its body has passed."""
        self._turns.unpace(self)

    def release(self) -> None:
        """Returns the turn."""
        self._turns.release(self)


class _Waiter(NamedTuple):
    number: int
    principal: str
    paced: bool
    granted: "asyncio.Future[Turn]"


class RequestTurns:
    """The turns of one kind of request. `name`: names them in errors. `min_rate`: bytes a second; 0: none."""

    def __init__(self, capacity: int, name: str, timers: Timers, *, min_rate: float = 0.0) -> None:
        self.capacity = capacity
        self.timers = timers
        self._name = name
        self._min_rate = min_rate
        self.paced_capacity = _most_of(capacity)
        """Paced turns at most."""
        self.own_paced_capacity = _most_of(self.paced_capacity)
        """Paced turns of one principal at most."""
        self.own_capacity = capacity - capacity // 8
        """Turns of one principal at most, where there are others."""
        self._principals: set[str] = set()
        self.in_use = 0
        """Turns out."""
        self._in_use_by: dict[str, int] = {}
        self._paced: set[Turn] = set()
        self._paced_by: dict[str, int] = {}
        self._ended: set[Turn] = set()
        self._numbers = itertools.count()
        self._queues: dict[tuple[str, bool], deque[_Waiter]] = {}
        self._is_checking = False
        self.background = BackgroundTurns(self)
        """The gate of requests for which no client waits yet."""
        self.on_release: Callable[[], None] | None = None
        """Called after each release of a turn. forebay.origin.turns.upload_turns sets it while an upload waits
        there."""

    def __repr__(self) -> str:
        return f"<RequestTurns {self._name}: {self.in_use} of {self.capacity}, {self.waiting} waiting>"

    @property
    def waiting(self) -> int:
        """The number of waiters."""
        return sum(map(len, self._queues.values()))

    def waiting_besides(self, principal: str) -> bool:
        """Whether anybody else waits."""
        return any(waiting != principal for waiting, _ in self._queues)

    def in_use_by(self, principal: str) -> int:
        """Turns out of one principal."""
        return self._in_use_by.get(principal, 0)

    @property
    def paced(self) -> int:
        """Paced turns out."""
        return len(self._paced)

    def try_acquire(self, principal: str, *, paced: bool = False) -> Turn | None:
        """Returns a turn if one is free now."""
        self._principals.add(principal)
        # Below its own capacity nobody has too many: nearly all reads.
        is_free = (not paced and self.in_use < self.own_capacity) or self._allows(principal, paced)
        return self._grant(principal, paced) if is_free else None

    async def acquire(self, principal: str, wait_seconds: float, *, paced: bool = False) -> Turn:
        """Returns a turn. Raises Throttled when there was none for `wait_seconds`; with 0, at once."""
        turn = self.try_acquire(principal, paced=paced)
        if turn is not None:
            return turn
        if not wait_seconds:
            raise self._throttled(wait_seconds)
        granted: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        waiter = _Waiter(next(self._numbers), principal, paced, granted)
        self._queues.setdefault((principal, paced), deque()).append(waiter)
        if self._min_rate and not self._is_checking:
            self._end_slow_clients()
        try:
            async with asyncio.timeout(wait_seconds):
                return await granted
        except BaseException as interruption:
            if granted.done() and not granted.cancelled():
                granted.result().release()  # granted in the same iteration of the loop in which the wait ended
            else:
                self._remove(waiter)
            if isinstance(interruption, TimeoutError):
                raise self._throttled(wait_seconds) from None
            raise

    def _throttled(self, wait_seconds: float) -> Throttled:
        return Throttled(f"{self._name}: no turn within {wait_seconds} s ({self.in_use} in use)")

    # For Turn alone.

    def release(self, turn: Turn) -> None:
        """Takes a turn back."""
        turn.on_end = None
        if turn.pace is not None:
            self._unpace(turn)
        if self._ended:
            self._ended.discard(turn)
        self.in_use -= 1
        by, principal = self._in_use_by, turn.principal
        if by[principal] > 1:
            by[principal] -= 1
        else:
            del by[principal]
        if self._queues:
            self._serve()
        if self.background.waiting:
            self.background.serve()
        if self.on_release is not None:
            self.on_release()

    def unpace(self, turn: Turn) -> None:
        """A turn is no longer paced."""
        if turn.pace is not None:
            self._unpace(turn)
            if self._queues:
                self._serve()

    def _unpace(self, turn: Turn) -> None:
        turn.pace = None
        self._paced.discard(turn)
        _decrement(self._paced_by, turn.principal)

    def _allows(self, principal: str, paced: bool) -> bool:
        if self.in_use >= self.capacity:
            return False
        return not self._has_its_share(principal, paced) and (not paced or len(self._paced) < self.paced_capacity)

    def _has_its_share(self, principal: str, paced: bool) -> bool:
        if len(self._principals) > 1 and self._in_use_by.get(principal, 0) >= self.own_capacity:
            return True
        return paced and self._paced_by.get(principal, 0) >= self.own_paced_capacity

    def _grant(self, principal: str, paced: bool) -> Turn:
        turn = Turn(self, principal, ClientPace() if paced else None)
        self.in_use += 1
        self._in_use_by[principal] = self._in_use_by.get(principal, 0) + 1
        if paced:
            self._paced.add(turn)
            self._paced_by[principal] = self._paced_by.get(principal, 0) + 1
        return turn

    def _serve(self) -> None:
        while self._queues and self.in_use < self.capacity:
            heads = [queue[0] for (principal, paced), queue in self._queues.items() if self._allows(principal, paced)]
            if not heads:
                return
            waiter = min(heads, key=lambda head: (self._in_use_by.get(head.principal, 0), head.number))
            self._remove(waiter)
            if not waiter.granted.done():  # else cancelled, and its coroutine has not run yet
                waiter.granted.set_result(self._grant(waiter.principal, waiter.paced))

    def _remove(self, waiter: _Waiter) -> None:
        queue = self._queues.get((waiter.principal, waiter.paced))
        if queue is not None and waiter in queue:
            queue.remove(waiter)
            if not queue:
                del self._queues[waiter.principal, waiter.paced]

    # Slow clients

    def _end_slow_clients(self) -> None:
        """Ends as many slow paced requests as there are waiters that could have their turns. Again, while any waits."""
        self._is_checking = bool(self._queues)
        if not self._is_checking:
            return
        self.timers.call_later(CHECK_SECONDS, self._end_slow_clients)
        slow = sorted(self._slow_turns(), key=lambda found: found[0])
        wanted = self._wanted_turns()
        for turn in (*self._ended, *(turn for _, turn in slow)):
            helped = turn.principal if wanted[turn.principal] else None
            if not wanted[helped]:
                continue
            wanted[helped] -= 1
            end, turn.on_end = turn.on_end, None
            if end is not None:  # else it was ended before, and is about to be released
                self._ended.add(turn)
                end()

    def _slow_turns(self) -> Iterator[tuple[tuple[int, float, int], Turn]]:
        """The paced turns whose clients are too slow, with their order: those of the principal with most, the slowest
        first."""
        now = self.timers.time()
        for number, turn in enumerate(self._paced):
            rate = turn.pace.rate(now) if turn.pace is not None and turn.on_end is not None else None
            if rate is not None and rate < self._min_rate:
                yield (-self._paced_by[turn.principal], rate, number), turn

    def _wanted_turns(self) -> Counter[str | None]:
        """The number of waiters by the principal whose turns help them; None: any principal's."""
        wanted: Counter[str | None] = Counter()
        for (principal, paced), queue in self._queues.items():
            wanted[principal if self._has_its_share(principal, paced) else None] += len(queue)
        return wanted


def _most_of(capacity: int) -> int:
    return max(1, capacity * 3 // 4)


def _decrement(counts: dict[str, int], key: str) -> None:
    left = counts[key] - 1
    if left:
        counts[key] = left
    else:
        del counts[key]

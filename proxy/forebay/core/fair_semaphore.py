"""A weighted semaphore: a capacity that is shared first come, first served, with a bound on each wait.

Used for requests in flight to the origin (each weighs 1) and for the bytes of buffers (each weighs its size). It only
counts: it is neither a connection pool, which would let a request wait without limit, nor an allocator. Belongs to
one event loop.

Invariants:
- `in_use` is the sum of what was acquired and not yet released. It exceeds the capacity only by one request that is
  larger than the whole capacity and was admitted alone, or after the capacity was lowered;
- waiters are served in the order of their arrival. None overtakes another, so a large request is not starved;
- a wait that is cancelled or times out has acquired nothing.

Before a waiter waits, `reclaim` asks idle holders to give back a part of theirs.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from forebay.core.errors import Throttled


class FairSemaphore:
    """A capacity that waiters share in FIFO order. `name`: names the capacity in errors."""

    __slots__ = ("_capacity", "_in_use", "_name", "_waiters", "reclaim")

    def __init__(self, capacity: int, name: str = "buffer bytes") -> None:
        self._capacity = capacity
        self._name = name
        self._in_use = 0
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.reclaim: Callable[[bool], bool] = _nothing_to_reclaim
        """Has one holder release its spare amount. Returns whether any holder had one. The argument: whether somebody
        waits; if nobody does, only holders that are idle for long release theirs."""

    def __repr__(self) -> str:
        return f"<FairSemaphore {self._name}: {self._in_use} of {self._capacity}, {self.waiting} waiting>"

    @property
    def capacity(self) -> int:
        """The amount that may be in use at once."""
        return self._capacity

    @property
    def in_use(self) -> int:
        """The amount that was acquired and not yet released."""
        return self._in_use

    @property
    def waiting(self) -> int:
        """The number of waiters."""
        return len(self._waiters)

    def is_free(self, amount: int) -> bool:
        """Returns whether `amount` is free and no waiter is before it."""
        return not self._waiters and self._in_use + amount <= self._capacity

    def try_acquire(self, amount: int = 1) -> bool:
        """Acquires `amount` if it is free and no waiter is before it. Returns whether it did."""
        if self._waiters or (self._in_use and self._in_use + amount > self._capacity):  # _fits, without a call
            return False
        self._in_use += amount
        return True

    def try_reclaim(self, amount: int) -> bool:
        """Acquires `amount` as `try_acquire` does, from holders that have been idle for long if need be."""
        while not self.try_acquire(amount):
            if self._waiters or not self.reclaim(False):
                return False
        return True

    async def acquire(self, amount: int, wait_seconds: float) -> None:
        """Acquires `amount` after earlier waiters. Raises Throttled when `wait_seconds` have passed."""
        if self.try_acquire(amount):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter = (amount, turn)
        self._waiters.append(waiter)
        try:
            while not turn.done() and self.reclaim(True):
                pass
            async with asyncio.timeout(wait_seconds):
                await turn
        except BaseException as interruption:
            if turn.done() and not turn.cancelled():
                self.release(amount)  # granted in the same iteration of the loop in which the wait ended
            else:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
                self._serve()  # waiters behind a large request may fit once it is gone
            if isinstance(interruption, TimeoutError):
                raise Throttled(
                    f"{self._name}: {amount} of {self._capacity} not free within {wait_seconds} s"
                ) from None
            raise

    def release(self, amount: int = 1) -> None:
        """Releases an acquired amount. Raises ValueError for more than is in use."""
        if amount > self._in_use:
            raise ValueError(f"{self._name}: {amount} released, but only {self._in_use} in use")
        self._in_use -= amount
        if self._waiters:
            self._serve()

    def resize(self, capacity: int) -> None:
        """Changes the capacity. Use beyond a smaller one is waited for, not taken away."""
        self._capacity = capacity
        self._serve()

    def _fits(self, amount: int) -> bool:
        return self._in_use + amount <= self._capacity or self._in_use == 0

    def _serve(self) -> None:
        while self._waiters and self._fits(self._waiters[0][0]):
            amount, turn = self._waiters.popleft()
            if not turn.done():  # else cancelled, and its coroutine has not run yet
                self._in_use += amount
                turn.set_result(None)


def _nothing_to_reclaim(_: bool) -> bool:
    return False


class SemaphoreShare:
    """A part of a semaphore's capacity, for holders that may keep it without limit: the rest stays free for others.
    There is no wait for it."""

    __slots__ = ("_divisor", "_whole", "in_use")

    def __init__(self, whole: FairSemaphore, divisor: int) -> None:
        """One in `divisor` of the capacity of `whole`."""
        self._whole, self._divisor = whole, divisor
        self.in_use = 0
        """The amount that was acquired here and not yet released."""

    def has(self, amount: int) -> bool:
        """Returns whether `amount` is free, of the share and of the whole."""
        whole = self._whole
        return self.in_use + amount <= whole.capacity // self._divisor and whole.is_free(amount)

    def try_acquire(self, amount: int) -> bool:
        """Acquires `amount` if it is free. Returns whether it did."""
        if not self.has(amount) or not self._whole.try_acquire(amount):
            return False
        self.in_use += amount
        return True

    def release(self, amount: int) -> None:
        """Releases an acquired amount."""
        self.in_use -= amount
        self._whole.release(amount)

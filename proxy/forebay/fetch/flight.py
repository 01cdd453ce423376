"""Flights: blocks on their way from the origin, one flight per block, shared by all readers that want it.

    flying ──advance()──> flying ──advance(), last byte──> landed
       └──────────────────fail()─────────────────────────> failed

A flight has followers: readers (and warm-up jobs) that want its bytes. They read what has arrived while the rest is
still on its way. No reader owns a flight by being first: it goes on while any follower is left. The fetch that feeds it
checks `is_wanted` before it begins a block, and finishes a block that it has begun, unless that is slow.

The buffer was acquired from the memory budget before the flight was made. It is released once the flight has ended and
has no follower. Until then the flight can still be followed, landed or not, so that one buffer serves all readers even
where no tier keeps the block.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Final, Literal

from forebay.core.buffers import Buffer
from forebay.core.names import BlockId
from forebay.origin.origin_identity import OriginIdentity
from forebay.storage.slab_allocator import (
    MIN_SLOT,
    POPULATED_AT_ONCE,
    POPULATED_BRIEFLY,
    allocate_buffer,
    populate,
)

_NOTHING: Final = memoryview(b"")


class Flight:
    """One block on its way. All methods but `wait_filled` are synchronous: state never changes across an await."""

    __slots__ = (
        "_buffer",
        "_failure",
        "_on_demand",
        "_release",
        "_waiters",
        "block",
        "filled",
        "followers",
        "identity",
        "is_demanded",
        "length",
        "source",
        "started",
    )

    def __init__(
        self, block: BlockId, length: int, release: Callable[["Flight"], None], identity: OriginIdentity | None = None
    ) -> None:
        """`release(self)` is called once, when the buffer is no longer needed here. `identity`: of the request to the
        origin. The bytes may serve every reader; a failure may concern that identity alone."""
        self.identity = identity
        self.block = block
        self.length = length
        self.filled = 0
        self.source: Literal["flight", "joined", "worker"] = "flight"
        """The source of the block for the reader that started the flight: see forebay.fetch.ordered_body.ByteSource."""
        # Allocated with the first byte: memory for a whole run at once takes milliseconds of the loop's time.
        self._buffer = _NOTHING
        self._failure: Exception | None = None
        self.started = time.monotonic()
        self.followers = 0
        self.is_demanded = False
        """Whether a client has come to wait for it, if it was begun for background work."""
        self._on_demand: Callable[[], None] | None = None
        self._release: Callable[[Flight], None] | None = release
        self._waiters: list[asyncio.Future[None]] = []

    def __repr__(self) -> str:
        state = "failed" if self._failure else "landed" if self.has_landed else "flying"
        return (
            f"<Flight {self.block.object.path}#{self.block.number} {state}"
            f" {self.filled}/{self.length} followers={self.followers}>"
        )

    @property
    def has_landed(self) -> bool:
        """Whether all bytes have arrived."""
        return self.filled == self.length

    @property
    def has_ended(self) -> bool:
        """Whether it has landed or failed."""
        return self.has_landed or self._failure is not None

    @property
    def is_wanted(self) -> bool:
        """Whether it has a follower."""
        return self.followers > 0

    @property
    def is_awaited(self) -> bool:
        """Whether a follower waits for bytes."""
        return any(not waiter.done() for waiter in self._waiters)

    @property
    def buffer(self) -> Buffer:
        """The bytes that have arrived, read-only and without a copy."""
        return self._buffer[: self.filled].toreadonly()

    def follow(self) -> None:
        """Adds a follower."""
        self.followers += 1

    def demand(self) -> None:
        """Notes that a client waits for it, and not background work alone."""
        self.is_demanded = True
        if self._on_demand is not None:
            self._on_demand()

    def on_demand(self, call: Callable[[], None]) -> None:
        """Has `call` called once a client waits for it, until `finish`; at once if one does already."""
        self._on_demand = call
        if self.is_demanded:
            call()

    def leave(self) -> None:
        """Removes a follower. Called exactly once for each `follow`."""
        self.followers -= 1
        self._release_if_unused()

    def unfilled(self, *, briefly: bool = False) -> memoryview:
        """Returns the part of the buffer that is still to be filled. No reader sees its bytes before `advance`.
        `briefly`: for background work, which makes its memory in short steps."""
        if self._buffer is _NOTHING:
            self._buffer = allocate_buffer(self.length, populated=POPULATED_BRIEFLY if briefly else POPULATED_AT_ONCE)
        else:
            populate(self._buffer, self.filled, briefly=briefly)
        return self._buffer[self.filled :]

    def land(self, whole: memoryview) -> None:
        """Lands at once, with the whole block in a buffer. The flight has no follower yet."""
        self._buffer = in_slot(whole)
        self.filled = self.length

    def full_buffer(self) -> Buffer:
        """Returns the whole buffer, for a caller that has filled it and not called `advance` yet."""
        return self._buffer.toreadonly()

    def advance(self, count: int) -> None:
        """Makes the next `count` bytes, written to the front of `unfilled`, visible to followers."""
        self.filled += count
        self._wake()

    def fail(self, failure: Exception) -> None:
        """Ends without the rest. Followers get `failure` as soon as they need a byte that never came."""
        if not self.has_ended:
            self._failure = failure
            self._wake()

    def finish(self) -> None:
        """Ends the fetch's own use of the flight: from here on only followers keep the buffer."""
        self._on_demand = None
        self._release_if_unused()

    def _release_if_unused(self) -> None:
        if self.has_ended and self.followers == 0 and self._release is not None:
            release, self._release = self._release, None
            release(self)

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait_filled(self, needed: int) -> None:
        """Waits until at least `needed` bytes have arrived; raises the flight's failure if they never will."""
        while self.filled < needed:
            if self._failure is not None:
                raise self._failure.with_traceback(None)  # shared by all followers: no chain of their frames
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter


def in_slot(whole: memoryview) -> memoryview:
    """Returns a whole block in the memory that blocks of its size have: itself, if it is small or there already."""
    if len(whole) < MIN_SLOT or not isinstance(whole.obj, bytearray | bytes):
        return whole
    slot = allocate_buffer(len(whole))
    slot[:] = whole
    return slot


class FlightRegistry:
    """The flights that can be followed, by block: under way, or landed and still being read.

    A block is in here at most once, which makes it one flight per block. Synchronous: between `find` and `add` nothing
    else runs.
    """

    def __init__(self) -> None:
        self._flights: dict[BlockId, Flight] = {}

    def __len__(self) -> int:
        return len(self._flights)

    @property
    def followers(self) -> int:
        """The number of readers and jobs that follow a flight."""
        return sum(flight.followers for flight in self._flights.values())

    def oldest_age(self, now: float) -> float:
        """Returns the age of the oldest flight in seconds, at `now` on the monotonic clock; 0 for
        none."""
        return max((now - flight.started for flight in self._flights.values() if not flight.has_ended), default=0.0)

    def __repr__(self) -> str:
        return f"<FlightRegistry {list(self._flights.values())!r}>"

    def find(self, block: BlockId) -> Flight | None:
        """Returns the flight of a block, to be followed at once or not at all."""
        return self._flights.get(block)

    def add(self, flights: Iterable[Flight]) -> None:
        """Adds flights. Raises RuntimeError where a block has another one."""
        for flight in flights:
            if self._flights.setdefault(flight.block, flight) is not flight:
                raise RuntimeError(f"second flight for one block: {flight!r}")

    def remove(self, flight: Flight) -> None:
        """Hides a flight that has failed or is released from new readers. Its followers keep it."""
        if self._flights.get(flight.block) is flight:
            del self._flights[flight.block]

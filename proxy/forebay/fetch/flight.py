"""A flight: one block on its way from the origin.

    flying ──arrived()──> flying ──arrived(), last byte──> landed
       └────────────────fail()────────────────────────────> failed

A flight has followers: readers (and warm-up) that want its bytes. They read what has arrived while the rest is still in
the air. Nobody owns a flight by being first: when followers leave, it goes on while any is left; the fetch that feeds
it asks `wanted` before it begins a block, and finishes a block that it has begun.

Its buffer was taken from the memory budget before it was made. It is released once it has ended and nobody follows it;
until then whoever comes can still follow it, landed or not, so that one buffer serves all of them even where no tier
keeps the block.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Literal

from forebay.core.buffers import Buffer
from forebay.core.names import BlockId
from forebay.origin.origin_identity import OriginIdentity
from forebay.storage.slab_allocator import allocate_buffer

_NOTHING: Final = memoryview(b"")


class Flight:
    """One block on its way. All methods but `until` are synchronous; there is nothing to await while state changes."""

    __slots__ = (
        "_buffer",
        "_failure",
        "_release",
        "_waiters",
        "block",
        "filled",
        "followers",
        "identity",
        "length",
        "source",
    )

    def __init__(
        self, block: BlockId, length: int, release: Callable[["Flight"], None], identity: OriginIdentity | None = None
    ) -> None:
        """`release(self)` is called once, when the buffer is no longer needed here. `identity`: in whose name the
        origin is asked. The bytes are anybody's; a failure may be meant for that identity alone."""
        self.identity = identity
        self.block = block
        self.length = length
        self.filled = 0
        self.source: Literal["flight", "joined", "worker"] = "flight"
        """What it is to the reader that started it: see forebay.fetch.ordered_body.ByteSource."""
        # Made when its first byte is waited for: memory for a whole run at once is milliseconds of the loop's time.
        self._buffer = _NOTHING
        self._failure: Exception | None = None
        self.followers = 0
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
        return self.filled == self.length

    @property
    def has_ended(self) -> bool:
        return self.has_landed or self._failure is not None

    @property
    def is_wanted(self) -> bool:
        """Whether anybody waits for it."""
        return self.followers > 0

    @property
    def buffer(self) -> Buffer:
        """What has arrived so far, read-only and without a copy."""
        return self._buffer[: self.filled].toreadonly()

    def follow(self) -> None:
        self.followers += 1

    def leave(self) -> None:
        """The counterpart of `follow`, called exactly once for each."""
        self.followers -= 1
        self._release_if_unused()

    def unfilled(self) -> memoryview:
        """Where its next bytes are to be received: all that is missing. What is written there is nobody's before
        `arrived` says so."""
        if self._buffer is _NOTHING:
            self._buffer = allocate_buffer(self.length)
        return self._buffer[self.filled :]

    def full_buffer(self) -> Buffer:
        """All of its room, for whoever knows that it was filled and has yet to say so."""
        return self._buffer.toreadonly()

    def advance(self, count: int) -> None:
        """So many bytes have been written into the front of `room`."""
        self.filled += count
        self._wake()

    def fail(self, failure: Exception) -> None:
        """End without the rest. Followers get `failure` as soon as they need a byte that never came."""
        if not self.has_ended:
            self._failure = failure
            self._wake()

    def finish(self) -> None:
        """Said by the fetch when it is done with this flight: from here on only followers keep the buffer."""
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
        """Return when at least `needed` bytes have arrived; raise what the flight failed with if they never will."""
        while self.filled < needed:
            if self._failure is not None:
                raise self._failure.with_traceback(None)  # shared by all followers: no chain of their frames
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

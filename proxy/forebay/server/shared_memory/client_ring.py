"""The ring of one client: slots of sealed memory that bodies are copied to, and that the client gives back.

    allocate ──> copied to ──> announced ──> read by the client ──> released by the client ──> allocated again

- The server writes slots and never reads them.
- A slot that was announced is not written again before the client has released it, and only the client can.
- Memory is charged to the budget as the ring grows, by STEP, up to its size: a client that keeps its slots gets no more
  of them, and its bodies through the socket. The charge is returned when no process has the ring any more.

Slots that were released last are allocated first: their pages exist, and are in the processor's cache. Where there is
none of the size, and the ring can't grow, one is cut from a larger one. Where there is none of these, neighbours are
joined, which looks at all released slots: not before a JOIN_SHARE of them were released, or looked for in vain, since
the last time. So a client that keeps every other slot costs its reads microseconds, and their bodies the socket.
"""

from collections.abc import Sequence
from typing import Final

from forebay.core.buffers import Buffer
from forebay.core.fair_semaphore import FairSemaphore
from forebay.protocol.channel_frames import SLOT_UNIT
from forebay.server.shared_memory.sealed_memory import SealedMemory

STEP: Final = 1 << 20
"""Bytes that are charged at a time."""
JOIN_SHARE: Final = 8
"""One in so many of the released slots."""


class ClientRing:
    """See the module. Ended by `close`."""

    def __init__(self, size: int, budget: FairSemaphore) -> None:
        """`size`: bytes that it may grow to, a multiple of SLOT_UNIT. Raises OSError."""
        self.memory = SealedMemory(size)
        self.is_passed = False
        """Whether the client has its descriptor."""
        self._budget = budget
        self._free: dict[int, list[int]] = {}
        """Released slots, by size."""
        self._in_use: dict[int, int] = {}
        """The size of each slot that is not released, by position."""
        self._end = 0
        self._joined = 0
        """Released slots that were left when neighbours were joined last."""
        self._since_joined = 0
        """Slots released since then, and allocations without a slot."""
        self.charged = 0
        """Bytes of the budget."""

    def __len__(self) -> int:
        """Returns the number of slots in use."""
        return len(self._in_use)

    def allocate(self, length: int) -> int:
        """Returns the position of a slot for `length` bytes; -1 if there is none."""
        size = -(-length // SLOT_UNIT) * SLOT_UNIT
        free = self._free.get(size)
        position = free.pop() if free else self._find(size)
        if position < 0:
            self._since_joined += 1
            if self._since_joined * JOIN_SHARE <= self._joined:
                return -1
            self._join()
            position = self._find(size)
            if position < 0:
                return -1
        self._in_use[position] = size
        return position

    def release(self, position: int) -> None:
        """Takes a slot back. Raises ValueError if it is not in use."""
        size = self._in_use.pop(position, 0)
        if not size:
            raise ValueError("a slot that is not in use")
        self._free.setdefault(size, []).append(position)
        self._since_joined += 1

    def copy(self, position: int, pieces: Sequence[Buffer]) -> None:
        """Copies the pieces to a slot, one after the other."""
        view = self.memory.view
        for piece in pieces:
            end = position + len(piece)
            view[position:end] = piece
            position = end

    def close(self) -> None:
        """Unmaps the ring and returns its charge. The caller knows that no process has it."""
        self.memory.close()
        self._budget.release(self.charged)
        self.charged = 0

    def _grow(self, size: int) -> bool:
        """Returns whether `size` bytes more are charged behind the last slot."""
        end = self._end + size
        if end > self.memory.size:
            return False
        missing = -(-(end - self.charged) // STEP) * STEP
        if missing > 0:
            if not self._budget.try_acquire(missing):
                return False
            self.charged += missing
        return True

    def _find(self, size: int) -> int:
        """Returns a slot behind the last one, or cut from the smallest released one that is large enough; -1: there is
        none."""
        if self._grow(size):
            position, self._end = self._end, self._end + size
            return position
        for length in [length for length, free in self._free.items() if not free]:
            del self._free[length]
        length = min((length for length in self._free if length >= size), default=0)
        if not length:
            return -1
        position = self._free[length].pop()
        if length > size:
            self._free.setdefault(length - size, []).append(position + size)
        return position

    def _join(self) -> None:
        """Joins released slots that are neighbours; space behind the last slot in use is free again."""
        spans: list[list[int]] = []
        for position, length in sorted((at, length) for length, free in self._free.items() for at in free):
            if spans and spans[-1][0] + spans[-1][1] == position:
                spans[-1][1] += length
            else:
                spans.append([position, length])
        if spans and sum(spans[-1]) == self._end:
            self._end = spans.pop()[0]
        self._free = {}
        for position, length in spans:
            self._free.setdefault(length, []).append(position)
        self._joined, self._since_joined = len(spans), 0

"""Prefetch tickets: the blocks that were fetched ahead of their readers, from their claim until they are given back.

issue ──> ticket ──finish──> used: each block goes to the tiers as any block does
            │           └──> not used yet: it lingers, and the sweep looks again
            └────drop────> some in each turn of the loop, which returns their memory
"""

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Iterable
from random import getrandbits
from typing import Final

from forebay.core.names import BlockId
from forebay.core.timers import Timers
from forebay.storage.tiers import Tiers

LINGER: Final = 60.0
"""Seconds that a block waits for its reader after it was reported as read: a response's bytes follow its head."""
SWEEP_SECONDS: Final = 0.5
DROPPED: Final = 4
"""Blocks that are given up in one callback: to return the memory of one takes some 50 microseconds."""


class PrefetchTickets:
    """The tickets of one worker."""

    def __init__(self, tiers: Tiers, timers: Timers, on_bytes: Callable[[str, int], None]) -> None:
        """`on_bytes(result, size)` is called with bytes that were "used" or "useless"."""
        self._tiers = tiers
        self._ahead = tiers.memory.ahead
        self._timers = timers
        self.on_bytes = on_bytes
        # Unlike those of this worker's last process, whose tickets somebody may still give back. Not secret.
        self._numbers = itertools.count(1 + getrandbits(48))
        self._blocks: dict[int, list[BlockId]] = {}
        self._lingering: deque[tuple[float, BlockId]] = deque()
        """Blocks that were reported as read and not yet used, and until when they are kept."""
        self._is_sweeping = False
        self._dropped: deque[BlockId] = deque()
        """Blocks whose claims are still to be given up."""
        self._is_dropping = False
        self.drops = 0
        """The number of calls that dropped all tickets."""

    def __repr__(self) -> str:
        return f"<PrefetchTickets {len(self._blocks)} out, {len(self._lingering)} blocks lingering>"

    def __len__(self) -> int:
        """The number of tickets out."""
        return len(self._blocks)

    def issue(self, claimed: list[BlockId]) -> int:
        """Returns the ticket of these blocks; 0 where there are none."""
        if not claimed:
            return 0
        ticket = next(self._numbers)
        self._blocks[ticket] = claimed
        return ticket

    def finish(self, tickets: Iterable[int], *, late: bool) -> None:
        """The bytes of these tickets were read. A block that is not used yet is kept for a while; not if its reader
        came too `late` for it, and has its bytes from the flight."""
        until = self._timers.time() + LINGER
        blocks = deque(block for ticket in tickets for block in self._blocks.pop(ticket, ()))
        try:
            while blocks:
                block = blocks.popleft()
                if late:
                    self._ahead.mark_used(block)
                if self._ahead.is_used(block):
                    self._release(block)
                else:
                    self._lingering.append((until, block))
        finally:
            # One release that fails keeps no other block: the sweep gives them up.
            self._lingering += ((until, block) for block in blocks)
            self._schedule()

    def drop(self, tickets: Iterable[int]) -> None:
        """The bytes of these tickets won't be read. All but the first blocks go in later turns of the loop."""
        self.give_up(block for ticket in tickets for block in self._blocks.pop(ticket, ()))

    def give_up(self, claimed: Iterable[BlockId]) -> None:
        """Gives up the claims of blocks that have no ticket."""
        self._dropped += claimed
        if not self._is_dropping:
            self._release_dropped()

    def drop_all(self) -> None:
        """Drops all tickets, and the blocks that linger."""
        blocks = [*(block for _, block in self._lingering), *itertools.chain.from_iterable(self._blocks.values())]
        self._blocks, self._lingering = {}, deque()
        self.drops += 1
        self.give_up(blocks)

    async def close(self) -> None:
        """Drops all tickets and lingering blocks, and waits until their claims are given up."""
        self.drop_all()
        while self._dropped:  # noqa: ASYNC110 # some more in each turn of the loop
            await asyncio.sleep(0)

    def _release_dropped(self) -> None:
        try:
            for _ in range(min(DROPPED, len(self._dropped))):
                self._release(self._dropped.popleft())
        finally:
            self._is_dropping = bool(self._dropped)
            if self._is_dropping:
                asyncio.get_running_loop().call_soon(self._release_dropped)

    def _schedule(self) -> None:
        if self._lingering and not self._is_sweeping:
            self._is_sweeping = True
            self._timers.call_later(SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        now, self._is_sweeping = self._timers.time(), False
        ended: list[BlockId] = []
        for _ in range(len(self._lingering)):
            until, block = self._lingering.popleft()
            if until <= now or self._ahead.is_used(block):
                ended.append(block)
            else:
                self._lingering.append((until, block))
        self.give_up(ended)
        self._schedule()

    def _release(self, block: BlockId) -> None:
        head = self._ahead.head(block.object)
        buffer, useless = self._ahead.release(block)
        if buffer is not None:
            self.on_bytes("used", len(buffer))
            self._tiers.admit(block, buffer)
            if head is not None:  # which the tier had no room for: it has now, if it keeps the block
                self._tiers.put_head_in_memory(block.object, head)
        elif useless:
            self.on_bytes("useless", useless)

"""Blocks that were fetched ahead of their readers, and wait for them outside the LRU order and its capacity.

    claim ──> expected ──land──> waiting ──get──> used ──last release──> admitted to the tiers, as any block
                 └──────────────────┴─────────────────────last release──> dropped

In the LRU order a scan would evict blocks that are about to be read, and blocks fetched ahead would evict those that
are read often; under `eviction = "epoch"` most of them would not be kept at all. So they have a budget of their own
(`memory.ahead`), whole blocks with their overhead. They are found by the memory tier's ordinary look-up, as hits.

A block has one claim for each expected read (jobs.prefetch). The caller that releases the last claim gets the buffer
if it was used, and admits it to the tiers: their policy decides whether it stays.

An object that is *being opened* has no known blocks yet: what lands of it meanwhile is kept here as well, unclaimed,
until `close_opening`.

Without its head a block is not found, and its object is fetched once more. So a head that the tier has no room for is
kept here, as long as blocks of its object are.

Belongs to one event loop; nothing waits. Invariants: `budget.in_use` is the sum of what each head, kept block and
expected block counts; a block is here at most once, and never in the LRU order at the same time; nor is a head.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from forebay.core.buffers import Buffer
from forebay.core.fair_semaphore import FairSemaphore
from forebay.core.heads import Head
from forebay.core.names import BlockId, Generation, ObjectName
from forebay.storage.memory.memory_heads import head_cost

PREFETCHED_OVERHEAD: Final = 700
"""Bytes that a block costs beside its own: names, entries, the claims' bookkeeping."""


@dataclass(slots=True)
class _PrefetchedBlock:
    cost: int
    claims: int
    buffer: Buffer | None = None
    """None: expected."""
    is_used: bool = False


class PrefetchedBlocks:
    """The blocks of one process. `capacity`: bytes, 0 for none."""

    def __init__(self, capacity: int) -> None:
        self.budget = FairSemaphore(capacity, "bytes fetched ahead")
        self._blocks: dict[BlockId, _PrefetchedBlock] = {}
        self._by_object: dict[ObjectName, set[BlockId]] = {}
        self._openings: Counter[ObjectName] = Counter()
        self._heads: dict[ObjectName, tuple[Head, int]] = {}
        """The heads, each with the bytes that it counts."""

    def __repr__(self) -> str:
        return f"<PrefetchedBlocks {len(self._blocks)} blocks, {self.budget!r}>"

    def __len__(self) -> int:
        return len(self._blocks)

    @property
    def is_expecting(self) -> bool:
        """Whether a block that arrives may be for this."""
        return bool(self._blocks or self._openings)

    # Readers

    def get(self, block: BlockId) -> Buffer | None:
        """Returns a block and marks it as used, or None."""
        found = self._blocks.get(block)
        if found is None or found.buffer is None:
            return None
        found.is_used = True
        return found.buffer

    def has(self, block: BlockId) -> bool:
        """Returns whether the block is here. Not a use."""
        found = self._blocks.get(block)
        return found is not None and found.buffer is not None

    def has_some(self, name: ObjectName) -> bool:
        """Returns whether blocks of an object are here, expected, or may land: its head leads to them."""
        return name in self._by_object or name in self._openings

    def head(self, name: ObjectName) -> Head | None:
        """Returns the head that is kept here of an object, or None."""
        found = self._heads.get(name)
        return None if found is None else found[0]

    def keep_head(self, name: ObjectName, head: Head) -> None:
        """Keeps a head that the tier does not, if blocks of its object are here or may land, and there is room."""
        self.drop_head(name)
        cost = head_cost(name, head)
        if self.has_some(name) and self._acquire(cost):
            self._heads[name] = head, cost

    def drop_head(self, name: ObjectName) -> None:
        """Drops the head that is kept here of an object, if there is one."""
        found = self._heads.pop(name, None)
        if found is not None:
            self.budget.release(found[1])

    # Fetching

    def open_object(self, name: ObjectName) -> None:
        """An object is being opened: its blocks that land until `close_opening` are kept here."""
        self._openings[name] += 1

    def close_opening(self, name: ObjectName) -> list[tuple[BlockId, Buffer]]:
        """Ends the opening of an object, whose expected blocks are claimed. Returns the landed blocks without a claim,
        which are for the tiers."""
        self._openings[name] -= 1
        if not self._openings[name]:
            del self._openings[name]
        found = []
        for block in tuple(self._by_object.get(name, ())):
            entry = self._blocks[block]
            if not entry.claims and entry.buffer is not None:
                found.append((block, entry.buffer))
                self._remove(block)
        self._drop_useless_head(name)
        return found

    def claim(self, block: BlockId, length: int) -> bool:
        """Expects a block of `length` bytes, or one more read of it. Returns False if there is no room."""
        entry = self._blocks.get(block)
        if entry is None:
            entry = self._add(block, length)
            if entry is None:
                return False
        entry.claims += 1
        return True

    def land(self, block: BlockId, buffer: Buffer) -> bool:
        """Keeps a block that has arrived, if it is expected here. Returns whether it is."""
        entry = self._blocks.get(block)
        if entry is None:
            entry = self._add(block, len(buffer)) if block.object in self._openings else None
            if entry is None:
                return False
        entry.buffer = buffer.toreadonly()
        return True

    def mark_used(self, block: BlockId) -> None:
        """The block was read otherwise than by `get`."""
        entry = self._blocks.get(block)
        if entry is not None:
            entry.is_used = True

    def is_used(self, block: BlockId) -> bool:
        """Returns whether the block was read, or is not here any more."""
        entry = self._blocks.get(block)
        return entry is None or entry.is_used

    def release(self, block: BlockId) -> tuple[Buffer | None, int]:
        """Gives up one claim. With the last one the block is gone from here: returns its buffer if it was used, and
        the bytes that were fetched and not used."""
        entry = self._blocks.get(block)
        if entry is None:
            return None, 0
        entry.claims -= 1
        if entry.claims > 0:
            return None, 0
        self._remove(block)
        if entry.buffer is None:
            return None, 0
        return (entry.buffer, 0) if entry.is_used else (None, len(entry.buffer))

    def forget(self, name: ObjectName, keep: Generation | None = None) -> None:
        """Drops the head and every block of an object but those of the generation `keep`. Their claims lapse."""
        self.drop_head(name)
        for block in tuple(self._by_object.get(name, ())):
            if block.generation != keep:
                self._remove(block)

    def names(self) -> tuple[ObjectName, ...]:
        """Returns the objects with blocks or a head here."""
        return tuple(self._by_object.keys() | self._heads.keys())

    def _add(self, block: BlockId, length: int) -> _PrefetchedBlock | None:
        cost = length + PREFETCHED_OVERHEAD
        if not self._acquire(cost):
            return None
        entry = self._blocks[block] = _PrefetchedBlock(cost, 0)
        self._by_object.setdefault(block.object, set()).add(block)
        return entry

    def _remove(self, block: BlockId) -> None:
        entry = self._blocks.pop(block)
        mates = self._by_object[block.object]
        mates.discard(block)
        if not mates:
            del self._by_object[block.object]
            self._drop_useless_head(block.object)
        self.budget.release(entry.cost)

    def _drop_useless_head(self, name: ObjectName) -> None:
        if not self.has_some(name):
            self.drop_head(name)

    def _acquire(self, cost: int) -> bool:
        # Not `try_acquire` alone, which lets in what is larger than all there is.
        return self.budget.is_free(cost) and self.budget.try_acquire(cost)

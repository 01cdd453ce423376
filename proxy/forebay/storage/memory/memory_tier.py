"""The memory tier: blocks and heads of one process, bounded in bytes, evicted in LRU order.

    blocks   ┌ b7 ┬ b2 ┬ b9 ┐      each in LRU order. A block is evicted first, or a head once heads take more than
    heads    ┌ hA ┬ hC ┐           half of the tier

All methods are synchronous and belong to one event loop. A lookup costs about a microsecond. No call runs long: a
shrunk tier is emptied by `evict_some`, which the caller repeats.

Blocks of rules with `eviction = "epoch"` are in the same order, and evicted by another: they are a stable share
(`pooled_blocks`).

Blocks that are sent often are promoted to files that the kernel sends from (`promotion`); what these files take is
counted by `arenas`. A block read from the SSD is admitted when there is free space or on its second hit (`ghost_list`).
Prefetched blocks wait for their readers beside the LRU order, in a budget of their own (`prefetched_blocks`). A head is
kept longer than its object's blocks, as it makes reads of them from the SSD cheap (`memory_heads`). Values that readers
derive from a head are kept beside it (`head_attachments`).

Invariants:
- `used` is the sum of what each kept block and head was counted as, overhead included;
- after `admit` or `put_head`, `used` is at most the capacity, unless the tier was shrunk and `evict_some` is not done;
- a buffer that pins much more memory than it shows (a slice of a large receive buffer) is copied, so that what is
  counted is what is held.
"""

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final

from forebay.core.buffers import Buffer, unpinned
from forebay.core.events import AdmissionRefused, Observe, unobserved
from forebay.core.heads import Head
from forebay.core.names import BlockId, Generation, ObjectName
from forebay.policy.pools import Pool
from forebay.storage.memory.arenas import ArenaExtent, Arenas
from forebay.storage.memory.eviction_order import EvictionOrder, share_quota
from forebay.storage.memory.ghost_list import GhostList
from forebay.storage.memory.head_attachments import HeadAttachments
from forebay.storage.memory.memory_heads import MemoryHeads, head_cost
from forebay.storage.memory.memory_objects import MemoryObjects
from forebay.storage.memory.pooled_blocks import MemoryPool, PooledBlocks
from forebay.storage.memory.prefetched_blocks import PrefetchedBlocks
from forebay.storage.memory.promotion import KeptBlocks, Promotion
from forebay.storage.tier_contract import BlockCounts, Occupancy

EVICTIONS_AT_ONCE: Final = 256

# What a block costs beside its bytes: BlockId, ObjectName-sharing aside, its entries in the LRU order and in the
# object's table, the memoryview and the bytes object's own header; and one entry of the ghost list. Measured with
# tracemalloc over 100,000 blocks: tests/storage/memory/test_memory_tier.py fails when the constant no longer fits.
BLOCK_OVERHEAD: Final = 850


class MemoryTier:
    """An LRU cache of blocks and heads."""

    def __init__(
        self,
        capacity: int,
        observe: Observe = unobserved,
        clock: Callable[[], float] = time.monotonic,
        hash_key: bytes | None = None,
    ) -> None:
        """`clock`: seconds, monotonic. `hash_key`: for choosing the blocks of stable shares; None: a random one."""
        self._capacity = capacity
        self._observe = observe
        self.counts = BlockCounts()
        self._used = 0
        self._blocks: OrderedDict[BlockId, Buffer] = OrderedDict()  # the least recently used first
        self.heads = MemoryHeads()
        """The heads. Put, looked up and dropped here."""
        self.objects = MemoryObjects()
        self._ghosts = GhostList()
        self.pooled = PooledBlocks(secrets.token_bytes(16) if hash_key is None else hash_key, clock)
        """The blocks that are evicted by their pool's order, in place of the LRU order."""
        self._order = EvictionOrder(self._blocks, self.heads, self.pooled)
        self._is_shrinking = False
        self.ahead = PrefetchedBlocks(0)
        """Blocks fetched ahead of their readers, in a budget of their own."""
        self.attachments: list[HeadAttachments[Any]] = []
        """The tables of attachments to heads. A table adds itself."""
        self.arenas = Arenas(capacity)
        """The files of promoted blocks."""
        self.promotion = Promotion(self)
        """Large hits are reported to it."""
        self.demote: Callable[[KeptBlocks], None] | None = self.promotion.demote
        """Copies blocks out of an arena that is given up, off the loop. Without it they are evicted."""

    def __repr__(self) -> str:
        return (
            f"<MemoryTier {self.used} of {self._capacity} bytes, {len(self._blocks)} blocks, {len(self.heads)} heads, "
            f"{self.arenas!r}>"
        )

    # Blocks

    def get(self, block: BlockId) -> Buffer | None:
        """Returns a block and marks it as used, or None."""
        found = self._blocks.get(block)
        if found is not None:
            self._blocks.move_to_end(block)
            return found
        return self.ahead.get(block)

    def has(self, block: BlockId) -> bool:
        """Returns whether the block is kept. Not a use."""
        return block in self._blocks or self.ahead.has(block)

    def has_space(self, length: int) -> bool:
        """Returns whether a block of `length` bytes can be admitted without an eviction."""
        return self.used + length + BLOCK_OVERHEAD <= self._capacity

    def is_admissible(self, block: BlockId, length: int) -> bool:
        """Returns whether a block of `length` bytes that was read from below is worth admitting: there is free space,
        or it is its second hit. Otherwise it enters the ghost list."""
        if length + BLOCK_OVERHEAD <= self._capacity and (self._ghosts.pop(block) or self.has_space(length)):
            return True
        self._ghosts.add(block, len(self._blocks) + 1)
        return False

    def admit(self, block: BlockId, buffer: Buffer) -> None:
        """Keeps a whole block as the most recently used one. A block that is larger than the tier is dropped."""
        if len(buffer) + BLOCK_OVERHEAD > self._capacity:
            return
        if block in self._blocks:
            self._drop_block(block)
        if self.pooled.used:
            self.pooled.plain_read()
        self._store(block, buffer)

    def put_object(self, name: ObjectName, head: Head, block: BlockId, buffer: Buffer) -> None:
        """Keeps a head and the only block of its object: `put_head` and `admit`, in one step for what is new here."""
        head_bytes, size = head_cost(name, head), len(buffer)
        cost = head_bytes + size + BLOCK_OVERHEAD
        if (
            cost > self._capacity
            or self.pooled.used
            or len(self.ahead)
            or not self.objects.add(name, head, block, size)
        ):
            self.put_head(name, head)
            self.admit(block, buffer)
            return
        self.heads.put(name, head, head_bytes)
        self._blocks[block] = unpinned(buffer)
        self._used += cost
        self.counts.admitted += 1
        self.counts.admitted_bytes += size
        self._evict_excess()

    def admit_pooled(self, block: BlockId, buffer: Buffer, pool: Pool, *, share: bool) -> None:
        """Keeps a block of a pool: in its stable share, if `share` and it belongs there, else as a transient block."""
        cost = len(buffer) + BLOCK_OVERHEAD
        if cost > self._capacity:
            return
        if block in self._blocks:
            self._drop_block(block)
        kept, band = self.pooled.share_of(pool), self.pooled.band_in(block)
        if share and self._make_room(kept, band, cost):
            self.pooled.enter(block, kept, band, cost)
        else:
            self.pooled.mark_transient(block, cost)
            if share:
                self._observe(AdmissionRefused("memory", len(buffer)))
        self._store(block, buffer)

    def _make_room(self, share: MemoryPool, band: int, cost: int) -> bool:
        """Evicts blocks of the share that belong there less than one of this band. Returns whether there is room for
        that one."""
        evicted: list[int] = []
        while not (has_room := self._order.has_room(share, cost, self._capacity, self.used)):
            if cost > share_quota(share, self._capacity) or share.top is None or share.top >= band:
                break
            evicted.append(self._drop_block(share.first_to_go()))
        if evicted:
            self.counts.evict(evicted, "capacity")
        return has_room

    def _store(self, block: BlockId, buffer: Buffer) -> None:
        self._blocks[block] = unpinned(buffer)
        self._used += len(buffer) + BLOCK_OVERHEAD
        self.objects.add_block(block, len(buffer))
        self.heads.clear_transient(block.object)
        self.counts.admitted += 1
        self.counts.admitted_bytes += len(buffer)
        self._evict_excess()

    # Promotion

    def allocate(self, length: int, group: str = "") -> ArenaExtent | None:
        """Returns an extent that the kernel can send a block from, to be written off the loop and passed to `replace`.

        `group`: blocks that one file had best keep for themselves. An extent that is not used in the end is reported to
        `arenas.mark_wasted`. None if there can be no more files.
        """
        return self.arenas.allocate(length, self._capacity - self.used, group)

    def replace(self, block: BlockId, old: Buffer, new: Buffer) -> bool:
        """Keeps `new`, with the same bytes, in place of `old`. Returns False if the tier does not have `old`."""
        if self._blocks.get(block) is not old or not self.arenas.accepts(new):
            return False
        self._blocks[block] = new
        self._used -= self.arenas.remove_block(block, len(old))
        self._used += self.arenas.add_block(block, new)
        return True

    # Heads

    def head(self, name: ObjectName) -> Head | None:
        """Returns the head of an object and marks it as used, or None."""
        return self.heads.get(name) or self.ahead.head(name)

    def put_head(self, name: ObjectName, head: Head, *, passes: bool = False) -> None:
        """Keeps the head of an object in place of an older one. Blocks of other generations stay until evicted.
        `passes`: the object is of a pool with a stable share. Without blocks in this tier its head is of little use."""
        if name in self.heads:
            self._drop_head(name)
        cost = head_cost(name, head)
        if cost > self._capacity:
            self.ahead.keep_head(name, head)
            return
        self.ahead.drop_head(name)
        self.heads.put(name, head, cost)
        self._used += cost
        self.objects.set_head(name, head)
        if passes and not self.objects.has_blocks(name):
            self.heads.mark_transient(name)
        self._evict_excess()

    def count_attached(self, name: ObjectName, size: int) -> None:
        """Counts `size` bytes more (or fewer) for the attachments of a head, and evicts heads beyond the bound."""
        self._used += size
        self.heads.count(name, size)
        if size > 0:
            self._evict_excess()

    # Removal

    def forget(self, name: ObjectName, keep: Generation | None = None) -> None:
        """Drops the head and the blocks of an object, except those of the generation `keep`: see Tiers.forget."""
        self.ahead.forget(name, keep)
        for block in self.objects.blocks(name):
            if block.generation != keep:
                self._drop_block(block)
        if name in self.heads:
            self._drop_head(name)

    def purge(self, bucket: str, prefix: str) -> int:
        """Drops every object whose key starts with `prefix`, and returns their number. Looks at all names."""
        known = {*self.objects.names(), *self.ahead.names()}
        names = [name for name in known if name.bucket == bucket and name.key.startswith(prefix)]
        for name in names:
            self.forget(name)
        return len(names)

    # Size

    def resize(self, capacity: int) -> None:
        """Changes the capacity. The excess is evicted by `evict_some`, not at once: it could be millions."""
        self._capacity = capacity
        self.arenas.resize(capacity)
        self._is_shrinking = self.used > capacity

    def evict_some(self, limit: int = EVICTIONS_AT_ONCE) -> bool:
        """Evicts up to `limit` entries, down to the capacity. Returns whether more are to be evicted."""
        self._evict(limit)
        # Arenas whose blocks are gone are closed when their last reader is done: there is nothing to wait for.
        self._is_shrinking = self.used > self._capacity and bool(self._blocks or self.heads)
        return self._is_shrinking

    @property
    def used(self) -> int:
        """Bytes that count against the capacity."""
        return self._used + self.arenas.charged() if self.arenas.files else self._used

    def occupancy(self) -> Occupancy:
        """Returns how full the tier is."""
        return Occupancy(self._capacity, self.used, len(self._blocks), len(self.heads))

    # Eviction

    def _drop_block(self, block: BlockId) -> int:
        """Drops a block and returns its length."""
        size = len(self._blocks.pop(block))
        self._used -= self.arenas.remove_block(block, size) + BLOCK_OVERHEAD
        was_pooled = bool(self.pooled.used) and self.pooled.leave(block)
        if self.objects.remove_block(block) and was_pooled:
            self.heads.mark_transient(block.object)
        self._ghosts.trim(len(self._blocks) + 1)
        return size

    def _drop_head(self, name: ObjectName) -> None:
        """Drops a head and its attachments."""
        for table in self.attachments:
            table.drop(name)
        self._used -= self.heads.drop(name)
        self.objects.set_head(name, None)

    def _evict_head(self, name: ObjectName) -> None:
        """Drops a head. It is kept beside blocks that were fetched ahead."""
        head = self.heads.peek(name)
        self._drop_head(name)
        if head is not None and self.ahead.has_some(name):
            self.ahead.keep_head(name, head)

    def _drop_transient_head(self) -> None:
        """Drops a transient head, unless blocks fetched ahead of a reader are found by it."""
        name = self.heads.oldest_transient()
        if self.ahead.has_some(name):
            self.heads.clear_transient(name)
        else:
            self._drop_head(name)

    def _evict_excess(self) -> None:
        # While a shrunk tier empties itself, each admission only makes up for a bounded number of others. A block may
        # have to be evicted from its arena first.
        if self.used > self._capacity:
            self._evict(EVICTIONS_AT_ONCE if self._is_shrinking else 2 * len(self._blocks) + len(self.heads))

    def _evict(self, limit: int) -> None:
        evicted: list[int] = []
        heads, capacity = self.heads, self._capacity
        while limit > 0 and (used := self.used) > capacity and (self._blocks or heads):
            limit -= 1
            if self.arenas.sparse:
                evicted += (gone := self._retire_arena())
                limit -= len(gone)
            elif heads.transient_used and heads.transient_excess(capacity):
                self._drop_transient_head()
            elif self._blocks and heads.used * 2 <= capacity:
                evicted.append(self._drop_block(self._order.next_to_go(capacity, used)))
            else:
                self._evict_head(heads.oldest())
        if evicted:
            self.counts.evict(evicted, "resize" if self._is_shrinking else "capacity")

    def _retire_arena(self) -> Sequence[int]:
        """Gives up the first sparse arena: its blocks are copied out, or evicted. Returns the lengths of the latter."""
        arena = next(iter(self.arenas.sparse))
        if self.demote is None or not self.arenas.retire(arena):
            return [self._drop_block(block) for block in tuple(arena.blocks)]
        self._used += sum(len(self._blocks[block]) for block in arena.blocks)
        self.demote([(block, self._blocks[block]) for block in arena.blocks])
        return ()

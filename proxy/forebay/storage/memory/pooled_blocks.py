"""Pooled blocks: which blocks of the memory tier belong to a stable share, and which are transient.

    the tier's blocks   plain     in LRU order; evicted the oldest first
                        shares    of a pool, by band (policy.stable_share); evicted the highest band first
                        transient of a pool, but of no share: they are on the SSD, in another worker, or nowhere else;
                                  evicted before all others but for a small window, the first that came first

The window serves readers that read a block in several ranges: a block that no tier keeps must not be fetched for each
range.

Only the book-keeping is here: the tier keeps the bytes, and looks a block up without any of this. So a hit on a share
costs what any hit costs, and the last use of its blocks is known as well: an idle pool dissolves into the plain blocks,
where blocks that are still read stay.

Invariants:
- a block is in one share or transient, or in none of them (plain);
- `used` is the sum of the costs of all that are in.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Final

from forebay.core.names import BlockId, ObjectName
from forebay.policy.pools import Pool, Population, giving_way, is_idle, may_take
from forebay.policy.stable_share import band_of, block_priority

FINENESS: Final = 6
WINDOW_SHARE: Final = 128
"""One in so many bytes of the tier is for transient blocks."""
_DISSOLVED_AT_ONCE: Final = 64


class MemoryPool:
    """The share of one pool."""

    admits_all: Final = False

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.used = 0
        """Bytes of its blocks, with their overhead."""
        self.last_read = 0.0
        self._bands: dict[int, dict[BlockId, int]] = {}
        """The cost of each block."""
        self._top = 0

    @property
    def top(self) -> int | None:
        """The band that goes first; None if there is no block."""
        return self._top if self._bands else None

    def add(self, block: BlockId, band: int, cost: int) -> None:
        """Takes a block in."""
        self._top = min(self._top, band) if self._bands else band
        self._bands.setdefault(band, {})[block] = cost
        self.used += cost

    def remove(self, block: BlockId, band: int) -> int:
        """Removes a block and returns its cost."""
        blocks = self._bands[band]
        cost = blocks.pop(block)
        self.used -= cost
        if not blocks:
            del self._bands[band]
            self._top = min(self._bands, default=0)
        return cost

    def first_to_go(self) -> BlockId:
        """Returns a block of the band that goes first, the latest of it."""
        return next(reversed(self._bands[self._top]))


class _PlainBlocks:
    """The plain blocks, as a population. Their hits are not noted either: `last_read` is the last admission."""

    admits_all: Final = True

    def __init__(self, last_read: float) -> None:
        self.used = 0
        self.last_read = last_read


class PooledBlocks:
    """The shares and the transient blocks of one memory tier."""

    def __init__(self, key: bytes, clock: Callable[[], float]) -> None:
        """`key`: of the hash that decides which blocks stay. `clock`: seconds, monotonic."""
        self._hash = blake2b(digest_size=8, key=key)
        self._clock = clock
        self._pools: dict[str, MemoryPool] = {}
        self._shares: dict[BlockId, tuple[MemoryPool, int]] = {}
        """The pool and the band of each block."""
        self._transient: OrderedDict[BlockId, int] = OrderedDict()
        self._transient_used = 0
        self._largest = 0
        self._plain = _PlainBlocks(clock())
        self.used = 0

    def __contains__(self, block: BlockId) -> bool:
        """Returns whether the block is part of a share, or transient."""
        return block in self._shares or block in self._transient

    def __len__(self) -> int:
        """Returns the number of blocks in shares and of transient ones."""
        return len(self._shares) + len(self._transient)

    def pools(self) -> Iterator[MemoryPool]:
        """Yields the pools that have or had blocks."""
        yield from self._pools.values()

    def plain_read(self) -> None:
        """Notes that a plain block is admitted."""
        self._plain.last_read = self._clock()

    def band_in(self, block: BlockId) -> int:
        """Returns the band of a block."""
        return band_of(block_priority(self._seed(block.object), block.number), FINENESS)

    def share_of(self, pool: Pool) -> MemoryPool:
        """Returns the share of a pool after a read in it."""
        share = self._pools.get(pool.name)
        if share is None:
            share = self._pools[pool.name] = MemoryPool(pool)
        share.pool = pool
        share.last_read = self._clock()
        return share

    def may_grow(self, share: MemoryPool, plain: int) -> bool:
        """Returns whether a share may grow in a full tier, at the cost of others. `plain`: bytes of plain blocks."""
        giving = self._population_to_evict(plain)
        return giving is not None and may_take(share, giving, self._clock())

    def window(self, capacity: int) -> int:
        """Returns the bytes of a tier of `capacity` that are left to transient blocks: one, at least."""
        return max(capacity // WINDOW_SHARE, min(self._largest, capacity // 4))

    def room(self, capacity: int, used: int) -> int:
        """Returns the bytes of a tier that shares may still take; negative if they have too many."""
        return capacity - self.window(capacity) - (used - self._transient_used)

    def enter(self, block: BlockId, share: MemoryPool, band: int, cost: int) -> None:
        """Makes a block part of a share."""
        self._shares[block] = (share, band)
        share.add(block, band, cost)
        self.used += cost
        self._largest = max(self._largest, cost)

    def mark_transient(self, block: BlockId, cost: int) -> None:
        """Makes a block a transient one."""
        self._transient[block] = cost
        self._transient_used += cost
        self.used += cost
        self._largest = max(self._largest, cost)

    def leave(self, block: BlockId) -> bool:
        """Makes a block a plain one, or forgets it. Returns False if it was neither in a share nor transient."""
        if (entry := self._shares.pop(block, None)) is not None:
            self.used -= entry[0].remove(block, entry[1])
            return True
        if (cost := self._transient.pop(block, None)) is not None:
            self._transient_used -= cost
            self.used -= cost
            return True
        return False

    def next_to_go(self, capacity: int, plain: int) -> BlockId | None:
        """Returns the block to be evicted from a full tier; None: the oldest plain one. `plain`: bytes of these."""
        if self._transient_used > self.window(capacity) or (self._transient and not self._shares and not plain):
            return next(iter(self._transient))
        while (giving := self._population_to_evict(plain)) is not None and isinstance(giving, MemoryPool):
            if not is_idle(giving, self._clock()):
                return giving.first_to_go()
            plain += self._release_share(giving)
        return None

    def _population_to_evict(self, plain: int) -> Population | None:
        now = self._clock()
        self._plain.used = plain
        populations: list[Population] = [self._plain, *self._pools.values()]
        return giving_way(populations, now)

    def _release_share(self, share: MemoryPool) -> int:
        """Makes some blocks of a share plain ones, and returns their bytes."""
        before = self.used
        for _ in range(_DISSOLVED_AT_ONCE):
            if share.top is not None:
                self.leave(share.first_to_go())
        return before - self.used

    def _seed(self, name: ObjectName) -> int:
        digest = self._hash.copy()
        digest.update(f"{len(name.bucket)}:{name.bucket}{name.key}".encode("utf-8", "surrogatepass"))
        return int.from_bytes(digest.digest(), "big")

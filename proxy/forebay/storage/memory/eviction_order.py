"""The eviction order of a memory tier's blocks: which goes next, and whether a stable share may still grow.

    transient blocks ──> the shares' top bands, or plain blocks, as policy.pools decides ──> LRU order

Decides only: the tier passes its capacity and its used bytes, and drops the block that is returned.
"""

from collections import OrderedDict

from forebay.core.buffers import Buffer
from forebay.core.names import BlockId
from forebay.storage.memory.memory_heads import MemoryHeads
from forebay.storage.memory.pooled_blocks import MemoryPool, PooledBlocks


class EvictionOrder:
    """The order of the blocks of one tier."""

    def __init__(self, blocks: OrderedDict[BlockId, Buffer], heads: MemoryHeads, pooled: PooledBlocks) -> None:
        """`blocks`: all of them, the least recently used first; also changed here, in their order."""
        self._blocks = blocks
        self._heads = heads
        self._pooled = pooled

    def next_to_go(self, capacity: int, used: int) -> BlockId:
        """Returns the block that is evicted next. There must be one."""
        pooled = self._pooled
        if pooled.used:
            block = pooled.next_to_go(capacity, self._plain_used(used))
            if block is not None:
                return block
            # The blocks of shares are in the LRU order as well. They go round: plain ones are at least about as many
            # bytes as the largest share whenever they are to give way, so few are met before one of these.
            for _ in range(len(self._blocks)):
                block = next(iter(self._blocks))
                if block not in pooled:
                    return block
                self._blocks.move_to_end(block)
        return next(iter(self._blocks))

    def has_room(self, share: MemoryPool, cost: int, capacity: int, used: int) -> bool:
        """Returns whether a share may take a block that costs `cost`, without giving up another one of its own."""
        if share.used + cost > share_quota(share, capacity):
            return False
        room = self._pooled.room(capacity, used - self._heads.transient_excess(capacity))
        return cost <= room or self._pooled.may_grow(share, self._plain_used(used))

    def _plain_used(self, used: int) -> int:
        """Returns the bytes of the blocks that are in LRU order only."""
        if len(self._blocks) == len(self._pooled):
            return 0
        return max(0, used - self._heads.used - self._pooled.used)


def share_quota(share: MemoryPool, capacity: int) -> int:
    """Returns the bytes that a share may have in a tier of `capacity`."""
    return capacity if share.pool.quota is None else share.pool.quota

"""The eviction order: passing blocks first, then shares or plain blocks, plain ones in LRU order."""

from collections import OrderedDict

from forebay.core.buffers import Buffer
from forebay.core.names import BlockId, Generation, ObjectName
from forebay.policy.pools import Pool
from forebay.storage.memory.eviction_order import EvictionOrder
from forebay.storage.memory.memory_heads import MemoryHeads
from forebay.storage.memory.pooled_blocks import PooledBlocks

COST = 1000
CAPACITY = 10 * COST


class OrderOf:
    """The order of `plain` blocks, the least recently used first, and of a pool's."""

    def __init__(self, plain: int, shared: int = 0, passing: int = 0, quota: int | None = None) -> None:
        self.now = 0.0
        self.pooled = PooledBlocks(b"key", lambda: self.now)
        self.share = self.pooled.share_of(Pool("set", "epoch", quota))
        self.blocks = OrderedDict[BlockId, Buffer]((block(number), memoryview(b"")) for number in range(plain))
        for number in range(100, 100 + shared):
            self.blocks[block(number)] = memoryview(b"")
            self.pooled.enter(block(number), self.share, number, COST)
        for number in range(200, 200 + passing):
            self.blocks[block(number)] = memoryview(b"")
            self.pooled.mark_transient(block(number), COST)
        self.order = EvictionOrder(self.blocks, MemoryHeads(), self.pooled)
        self.used = len(self.blocks) * COST

    def next_to_go(self) -> int:
        return self.order.next_to_go(CAPACITY, self.used).number

    def has_room(self) -> bool:
        return self.order.has_room(self.share, COST, CAPACITY, self.used)


def block(number: int) -> BlockId:
    return BlockId(ObjectName("bucket", "key"), Generation(bytes(8)), number)


def test_the_least_recently_used_goes_first() -> None:
    assert OrderOf(3).next_to_go() == 0


def test_passing_blocks_go_before_all_others() -> None:
    assert OrderOf(3, shared=3, passing=4).next_to_go() == 200


def test_a_share_gives_way_by_its_top_band() -> None:
    assert OrderOf(1, shared=9).next_to_go() == 100


def test_plain_blocks_go_before_a_smaller_share() -> None:
    order = OrderOf(9, shared=1)
    order.blocks.move_to_end(block(100), last=False)  # the share's is the least recently used
    assert order.next_to_go() == 0


def test_a_share_has_room_until_the_tier_is_full() -> None:
    assert OrderOf(0, shared=3).has_room()
    assert not OrderOf(0, shared=10).has_room()


def test_a_share_has_no_more_room_than_its_quota() -> None:
    assert OrderOf(0, shared=2, quota=3 * COST).has_room()
    assert not OrderOf(0, shared=3, quota=3 * COST).has_room()

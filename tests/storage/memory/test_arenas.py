"""Arenas: what they count for, and how their memory is returned."""

import gc
import mmap
import os
import resource
from collections.abc import Sequence
from threading import Thread
from weakref import WeakKeyDictionary

from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.core.buffers import Buffer
from forebay.core.names import BlockId, ObjectName
from forebay.storage.memory.arenas import SHARED_OVERHEAD, ArenaExtent
from forebay.storage.memory.memory_tier import BLOCK_OVERHEAD, MemoryTier
from forebay.storage.memory.shared_blocks import HUGE, Arena, SharedBlock, copy_out
from harness.ssd_rig import MIB, block_id

SIZE = 256 << 10
EACH = HUGE // SIZE
CAPACITY = 128 * MIB
RESERVE = CAPACITY // 32
"""Two files' worth."""
OVERHEAD = BLOCK_OVERHEAD + SHARED_OVERHEAD


def bytes_of(block: BlockId, length: int) -> Buffer:
    return memoryview((repr(block).encode() * (length // 50))[:length])


class Promoter:
    """Does what forebay.storage.memory.promotion does, step by step."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.tier = MemoryTier(capacity)
        self.tier.demote = self._demote
        self.retired: list[Sequence[tuple[BlockId, Buffer]]] = []
        self.arenas = WeakKeyDictionary[Arena, int]()
        """The end of what was written to each."""

    def _demote(self, kept: Sequence[tuple[BlockId, Buffer]]) -> None:
        self.retired.append(kept)

    def keep(self, block: BlockId, size: int = SIZE) -> None:
        self.tier.admit(block, bytes_of(block, size))

    def begin(self, block: BlockId) -> tuple[ArenaExtent, Buffer] | None:
        """Copies a block to an extent and returns both, without replacing the block."""
        buffer = self.tier.get(block)
        if buffer is None or isinstance(buffer.obj, SharedBlock) or (extent := self.tier.allocate(len(buffer))) is None:
            return None
        assert extent.offset % mmap.PAGESIZE == 0
        assert extent.offset >= self.arenas.get(extent.arena, 0)
        self.arenas[extent.arena] = extent.offset + len(buffer)
        copy = extent.arena.write(extent.offset, buffer)
        assert copy is not None
        assert bytes(copy) == bytes(buffer)
        return extent, copy

    def promote(self, block: BlockId) -> Arena | None:
        begun = self.begin(block)
        if begun is not None:
            extent, copy = begun
            old = self.tier.get(block)
            assert old is not None
            assert self.tier.replace(block, old, copy)
            return extent.arena
        return None

    def filled(self, blocks: int) -> list[BlockId]:
        """Admits and promotes so many blocks."""
        names = [block_id(f"{number}") for number in range(blocks)]
        for block in names:
            self.keep(block)
            self.promote(block)
        return names

    def copy_back(self) -> None:
        while self.retired:
            for block, buffer in self.retired.pop():
                self.tier.replace(block, buffer, copy_out(buffer))
                del buffer

    def emptied(self) -> bool:
        """Drops all blocks and returns whether nothing is counted or open."""
        self.retired.clear()
        self.tier.purge("bucket", "")
        return (self.used, len(self.arenas), len(self.tier.arenas)) == (0, 0, 0)

    @property
    def used(self) -> int:
        return self.tier.occupancy().used

    def taken_bytes(self) -> int:
        """Returns the bytes that common arenas really take."""
        return sum(os.fstat(arena.fd).st_blocks * 512 for arena in self.arenas if arena.counted)


def test_an_arena_counts_whole_from_first_to_last_block() -> None:
    promoter = Promoter()
    first, *others = promoter.filled(EACH)
    blocks = EACH * OVERHEAD
    assert (len(promoter.arenas), promoter.used) == (1, HUGE + RESERVE + blocks)
    for block in others:
        promoter.tier.forget(block.object)
    assert promoter.used == HUGE + RESERVE + OVERHEAD
    assert promoter.tier.get(first) == bytes_of(first, SIZE)
    promoter.tier.forget(first.object)
    assert (len(promoter.arenas), promoter.used, len(promoter.tier.arenas)) == (0, 0, 0)


def test_the_last_block_may_run_over_the_huge_page() -> None:
    promoter, size = Promoter(), 602_112
    blocks = [block_id(f"{number}") for number in range(5)]
    arenas = []
    for block in blocks:
        promoter.keep(block, size)
        arenas.append(promoter.promote(block))
    assert arenas[0] is arenas[1] is arenas[2] is arenas[3] is not arenas[4]
    assert promoter.taken_bytes() <= 4 * size + HUGE
    assert promoter.used == 4 * size + HUGE + RESERVE + 5 * OVERHEAD
    assert all(promoter.tier.get(block) == bytes_of(block, size) for block in blocks)


def test_a_long_block_has_an_arena_of_its_own() -> None:
    promoter, size = Promoter(), 2 * HUGE + 5000
    promoter.keep(block_id("a"), size)
    promoter.promote(block_id("a"))
    assert promoter.used == size + OVERHEAD
    assert promoter.tier.get(block_id("a")) == bytes_of(block_id("a"), size)
    promoter.tier.forget(ObjectName("bucket", "a"))
    assert (len(promoter.arenas), promoter.used) == (0, 0)


def test_an_eviction_from_a_full_tier_spares_arena_neighbours() -> None:
    """Neighbours are copied and the arena is closed. What it takes until then is in the reserve."""
    promoter = Promoter()
    blocks = promoter.filled((CAPACITY - RESERVE) // (SIZE + OVERHEAD))
    assert sum(1 for arena in promoter.arenas if arena.counted) >= 60
    for number in range(EACH):
        new = block_id(f"new-{number}")
        promoter.keep(new)
        assert promoter.used <= CAPACITY
        assert promoter.taken_bytes() <= promoter.used
        promoter.copy_back()
        assert promoter.tier.has(new)
    gone = [block for block in blocks if not promoter.tier.has(block)]
    assert gone == blocks[: len(gone)]
    assert len(gone) <= EACH + 1
    assert all(promoter.tier.get(block) == bytes_of(block, SIZE) for block in blocks[len(gone) :])
    assert promoter.emptied()


def test_a_retiring_arena_counts_until_it_is_closed() -> None:
    promoter = Promoter()
    blocks = promoter.filled(2 * EACH)
    promoter.tier.forget(blocks[0].object)
    promoter.tier.forget(blocks[EACH].object)
    promoter.keep(block_id("large"), CAPACITY - RESERVE - HUGE)
    assert len(promoter.retired) == 2
    promoter.tier.purge("bucket", "")
    promoter.tier.resize(0)
    assert 2 * HUGE <= promoter.taken_bytes() <= promoter.used
    assert promoter.emptied()


def test_without_timely_demotion_evictions_are_bounded() -> None:
    """The LRU order goes through the arenas in turns: by evictions alone no arena would ever be empty."""
    promoter = Promoter()
    blocks = promoter.filled((CAPACITY - RESERVE) // (SIZE + OVERHEAD))
    for start in range(EACH):
        for block in blocks[start::EACH]:
            promoter.tier.get(block)
    for number in range(3 * EACH):
        promoter.keep(block_id(f"new-{number}"))
        assert promoter.used <= CAPACITY
        assert promoter.taken_bytes() <= promoter.used
    assert len(promoter.retired) == 2
    assert len([block for block in blocks if not promoter.tier.has(block)]) <= 6 * EACH
    promoter.copy_back()
    assert promoter.taken_bytes() <= promoter.used - RESERVE
    assert promoter.emptied()


def test_a_hot_block_does_not_keep_dead_neighbours() -> None:
    promoter = Promoter()
    blocks = promoter.filled(20 * EACH)
    hot = blocks[::EACH]
    for block in blocks:
        if block not in hot:
            promoter.tier.forget(block.object)
    assert promoter.used >= 20 * HUGE
    for number in range((CAPACITY - RESERVE) // (SIZE + OVERHEAD) - 2 * len(hot)):
        promoter.keep(block_id(f"new-{number}"))
        promoter.copy_back()
        assert promoter.used <= CAPACITY
    assert all(promoter.tier.has(block) for block in hot)
    assert promoter.tier.has(block_id("new-0"))
    assert promoter.emptied()


def test_without_demotion_an_arena_is_evicted_whole() -> None:
    promoter = Promoter()
    promoter.tier.demote = None
    blocks = promoter.filled((CAPACITY - RESERVE) // (SIZE + OVERHEAD))
    for number in range(EACH + 1):
        promoter.keep(block_id(f"new-{number}"))
    assert promoter.used <= CAPACITY
    assert [promoter.tier.has(block) for block in blocks[: 2 * EACH + 1]] == [False] * 2 * EACH + [True]


def test_a_full_tier_gives_each_block_a_file_of_its_own() -> None:
    promoter = Promoter()
    blocks = [block_id(f"{number}") for number in range((CAPACITY - OVERHEAD) // (SIZE + BLOCK_OVERHEAD))]
    for block in blocks:
        promoter.keep(block)
    used = promoter.used
    arena = promoter.promote(blocks[-1])
    assert arena is not None
    assert not arena.counted
    assert promoter.used == used + SHARED_OVERHEAD
    assert promoter.tier.has(blocks[0])
    del arena
    promoter.tier.forget(blocks[-1].object)
    assert promoter.used == used - SIZE - BLOCK_OVERHEAD


def test_a_small_tier_has_no_files_that_are_shared() -> None:
    promoter = Promoter(60 * MIB)
    promoter.filled(EACH)
    assert len(promoter.arenas) == EACH
    assert promoter.used == EACH * (SIZE + OVERHEAD)


def test_a_block_dropped_or_replaced_during_promotion_is_not_kept() -> None:
    promoter = Promoter()
    promoter.filled(1)
    for drop in (
        lambda: promoter.tier.forget(ObjectName("bucket", "a")),
        lambda: promoter.keep(block_id("a")),
        lambda: promoter.tier.purge("bucket", ""),
    ):
        promoter.keep(block_id("a"))
        old, begun = promoter.tier.get(block_id("a")), promoter.begin(block_id("a"))
        assert begun is not None
        assert old is not None
        drop()
        extent, copy = begun
        assert not promoter.tier.replace(block_id("a"), old, copy)
        promoter.tier.arenas.mark_wasted(extent.arena)
        del begun, extent, copy, old
    assert promoter.emptied()


def test_a_block_is_not_promoted_to_a_retiring_arena() -> None:
    promoter = Promoter()
    blocks = promoter.filled(3)
    promoter.keep(block_id("a"))
    old, begun = promoter.tier.get(block_id("a")), promoter.begin(block_id("a"))
    assert begun is not None
    assert old is not None
    promoter.tier.forget(blocks[0].object)
    promoter.keep(block_id("large"), CAPACITY - RESERVE - HUGE)
    assert len(promoter.retired) == 1
    assert not promoter.tier.replace(block_id("a"), old, begun[1])
    promoter.tier.arenas.mark_wasted(begun[0].arena)
    assert promoter.tier.get(block_id("a")) is old
    del begun
    promoter.copy_back()
    assert len(promoter.arenas) == 0


def test_an_arena_counts_until_its_last_reader_drops_it() -> None:
    promoter = Promoter()
    blocks = promoter.filled(EACH)
    reader = [promoter.tier.get(blocks[3])]
    promoter.tier.purge("bucket", "")
    assert promoter.used == HUGE + RESERVE
    assert promoter.taken_bytes() >= SIZE
    promoter.tier.resize(0)
    assert not promoter.tier.evict_some()  # there is nothing to wait for
    thread = Thread(target=reader.clear)
    thread.start()
    thread.join()
    assert promoter.used == 0


def test_groups_fill_files_of_their_own() -> None:
    tier = MemoryTier(256 * MIB)

    def arenas_of(*groups: str) -> list[Arena]:
        extents = [tier.allocate(SIZE, group) for group in groups]
        return [extent.arena for extent in extents if extent is not None]

    a, b, a2, b2, c, d, c2 = arenas_of("a", "b", "a", "b", "c", "d", "c")
    assert a is a2
    assert b is b2
    assert c is d is c2, "there are two groups at most, so all others share a file"
    assert len({a, b, c}) == 3
    *rest, after = arenas_of(*["a"] * (EACH - 1))
    assert {*rest} == {a}
    assert after is not a
    assert a.is_full
    assert not after.is_full
    small = MemoryTier(64 * MIB)
    assert len({extent.arena for extent in (small.allocate(SIZE, group) for group in "abcd") if extent}) == 1


def test_there_are_no_more_files_than_the_process_may_open() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    promoter = Promoter(60 * MIB)
    gc.collect()  # files that earlier tests left in cycles are this process's too
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        blocks = promoter.filled(256 // 8 + 5)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(promoter.arenas) == len(promoter.tier.arenas) == 256 // 8
    assert promoter.tier.has(blocks[-1])


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(("keep", "promote")), st.integers(0, 40)),
        st.tuples(st.sampled_from(("keep", "promote", "forget", "read", "drop")), st.integers(0, 40)),
        st.tuples(st.sampled_from(("resize", "copy back")), st.integers(0, 4)),
    ),
    min_size=20,
    max_size=120,
)


@settings(max_examples=25)
@given(STEPS)
def test_no_extent_is_used_twice_and_all_memory_is_counted(steps: list[tuple[str, int]]) -> None:
    promoter, size = Promoter(64 * MIB), 1_900_000
    readers: dict[int, Buffer] = {}
    for deed, number in steps:
        block = block_id(f"{number}")
        match deed:
            case "keep":
                promoter.keep(block, size)
            case "promote":
                promoter.promote(block)
            case "forget":
                promoter.tier.forget(block.object)
            case "read":
                if (found := promoter.tier.get(block)) is not None:
                    readers[number] = found
                found = None
            case "drop":
                readers.pop(number, None)
            case "resize":
                promoter.tier.resize((64 - 8 * number) * MIB)
                while promoter.tier.evict_some(5):
                    pass
            case _:
                promoter.copy_back()
        occupancy = promoter.tier.occupancy()
        assert occupancy.used <= occupancy.capacity or not occupancy.blocks
        assert promoter.taken_bytes() <= occupancy.used
        assert all(buffer == bytes_of(block_id(f"{at}"), size) for at, buffer in readers.items())
    readers.clear()
    assert promoter.emptied()

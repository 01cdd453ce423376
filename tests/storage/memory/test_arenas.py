"""Files that blocks of a memory tier share: what they count for, and how their memory comes back."""

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


class Mover:
    """What forebay.storage.memory.promotion does, but not before it is told."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.tier = MemoryTier(capacity)
        self.tier.demote = self._demote
        self.left: list[Sequence[tuple[BlockId, Buffer]]] = []
        self.arenas = WeakKeyDictionary[Arena, int]()
        """And up to where they were written to."""

    def _demote(self, kept: Sequence[tuple[BlockId, Buffer]]) -> None:
        self.left.append(kept)

    def keep(self, block: BlockId, size: int = SIZE) -> None:
        self.tier.admit(block, bytes_of(block, size))

    def begin(self, block: BlockId) -> tuple[ArenaExtent, Buffer] | None:
        """A block is to be moved: its place, and its bytes, which lie there already."""
        buffer = self.tier.get(block)
        if buffer is None or isinstance(buffer.obj, SharedBlock) or (place := self.tier.allocate(len(buffer))) is None:
            return None
        assert place.offset % mmap.PAGESIZE == 0
        assert place.offset >= self.arenas.get(place.arena, 0)
        self.arenas[place.arena] = place.offset + len(buffer)
        copy = place.arena.write(place.offset, buffer)
        assert copy is not None
        assert bytes(copy) == bytes(buffer)
        return place, copy

    def move(self, block: BlockId) -> Arena | None:
        begun = self.begin(block)
        if begun is not None:
            place, copy = begun
            old = self.tier.get(block)
            assert old is not None
            assert self.tier.replace(block, old, copy)
            return place.arena
        return None

    def filled(self, blocks: int) -> list[BlockId]:
        """So many blocks, kept and moved."""
        names = [block_id(f"{number}") for number in range(blocks)]
        for block in names:
            self.keep(block)
            self.move(block)
        return names

    def copy_back(self) -> None:
        while self.left:
            for block, buffer in self.left.pop():
                self.tier.replace(block, buffer, copy_out(buffer))
                del buffer

    def emptied(self) -> bool:
        """Whether nothing is counted and nothing is open once all have left."""
        self.left.clear()
        self.tier.purge("bucket", "")
        return (self.used, len(self.arenas), len(self.tier.arenas)) == (0, 0, 0)

    @property
    def used(self) -> int:
        return self.tier.occupancy().used

    def held(self) -> int:
        """Bytes that files which blocks share really take."""
        return sum(os.fstat(arena.fd).st_blocks * 512 for arena in self.arenas if arena.counted)


def test_an_arena_counts_whole_from_first_to_last_block() -> None:
    mover = Mover()
    first, *others = mover.filled(EACH)
    blocks = EACH * OVERHEAD
    assert (len(mover.arenas), mover.used) == (1, HUGE + RESERVE + blocks)
    for block in others:
        mover.tier.forget(block.object)
    assert mover.used == HUGE + RESERVE + OVERHEAD
    assert mover.tier.get(first) == bytes_of(first, SIZE)
    mover.tier.forget(first.object)
    assert (len(mover.arenas), mover.used, len(mover.tier.arenas)) == (0, 0, 0)


def test_the_last_block_may_run_over_the_huge_page() -> None:
    mover, size = Mover(), 602_112
    blocks = [block_id(f"{number}") for number in range(5)]
    arenas = []
    for block in blocks:
        mover.keep(block, size)
        arenas.append(mover.move(block))
    assert arenas[0] is arenas[1] is arenas[2] is arenas[3] is not arenas[4]
    assert mover.held() <= 4 * size + HUGE
    assert mover.used == 4 * size + HUGE + RESERVE + 5 * OVERHEAD
    assert all(mover.tier.get(block) == bytes_of(block, size) for block in blocks)


def test_a_long_block_has_an_arena_of_its_own() -> None:
    mover, size = Mover(), 2 * HUGE + 5000
    mover.keep(block_id("a"), size)
    mover.move(block_id("a"))
    assert mover.used == size + OVERHEAD
    assert mover.tier.get(block_id("a")) == bytes_of(block_id("a"), size)
    mover.tier.forget(ObjectName("bucket", "a"))
    assert (len(mover.arenas), mover.used) == (0, 0)


def test_an_eviction_from_a_full_tier_spares_arena_neighbours() -> None:
    """They are copied, and their file is closed. What it takes until then is in the reserve."""
    mover = Mover()
    blocks = mover.filled((CAPACITY - RESERVE) // (SIZE + OVERHEAD))
    assert sum(1 for arena in mover.arenas if arena.counted) >= 60
    for number in range(EACH):
        new = block_id(f"new-{number}")
        mover.keep(new)
        assert mover.used <= CAPACITY
        assert mover.held() <= mover.used
        mover.copy_back()
        assert mover.tier.has(new)
    gone = [block for block in blocks if not mover.tier.has(block)]
    assert gone == blocks[: len(gone)]
    assert len(gone) <= EACH + 1
    assert all(mover.tier.get(block) == bytes_of(block, SIZE) for block in blocks[len(gone) :])
    assert mover.emptied()


def test_a_retiring_arena_counts_until_it_is_closed() -> None:
    mover = Mover()
    blocks = mover.filled(2 * EACH)
    mover.tier.forget(blocks[0].object)
    mover.tier.forget(blocks[EACH].object)
    mover.keep(block_id("large"), CAPACITY - RESERVE - HUGE)
    assert len(mover.left) == 2
    mover.tier.purge("bucket", "")
    mover.tier.resize(0)
    assert 2 * HUGE <= mover.held() <= mover.used
    assert mover.emptied()


def test_without_timely_demotion_evictions_are_bounded() -> None:
    """One from each file, in turns, is what has not been used for the longest time: no file would ever be empty."""
    mover = Mover()
    blocks = mover.filled((CAPACITY - RESERVE) // (SIZE + OVERHEAD))
    for start in range(EACH):
        for block in blocks[start::EACH]:
            mover.tier.get(block)
    for number in range(3 * EACH):
        mover.keep(block_id(f"new-{number}"))
        assert mover.used <= CAPACITY
        assert mover.held() <= mover.used
    assert len(mover.left) == 2
    assert len([block for block in blocks if not mover.tier.has(block)]) <= 6 * EACH
    mover.copy_back()
    assert mover.held() <= mover.used - RESERVE
    assert mover.emptied()


def test_a_hot_block_does_not_keep_dead_neighbours() -> None:
    mover = Mover()
    blocks = mover.filled(20 * EACH)
    hot = blocks[::EACH]
    for block in blocks:
        if block not in hot:
            mover.tier.forget(block.object)
    assert mover.used >= 20 * HUGE
    for number in range((CAPACITY - RESERVE) // (SIZE + OVERHEAD) - 2 * len(hot)):
        mover.keep(block_id(f"new-{number}"))
        mover.copy_back()
        assert mover.used <= CAPACITY
    assert all(mover.tier.has(block) for block in hot)
    assert mover.tier.has(block_id("new-0"))
    assert mover.emptied()


def test_without_demotion_an_arena_is_evicted_whole() -> None:
    mover = Mover()
    mover.tier.demote = None
    blocks = mover.filled((CAPACITY - RESERVE) // (SIZE + OVERHEAD))
    for number in range(EACH + 1):
        mover.keep(block_id(f"new-{number}"))
    assert mover.used <= CAPACITY
    assert [mover.tier.has(block) for block in blocks[: 2 * EACH + 1]] == [False] * 2 * EACH + [True]


def test_a_full_tier_gives_each_block_a_file_of_its_own() -> None:
    mover = Mover()
    blocks = [block_id(f"{number}") for number in range((CAPACITY - OVERHEAD) // (SIZE + BLOCK_OVERHEAD))]
    for block in blocks:
        mover.keep(block)
    used = mover.used
    arena = mover.move(blocks[-1])
    assert arena is not None
    assert not arena.counted
    assert mover.used == used + SHARED_OVERHEAD
    assert mover.tier.has(blocks[0])
    del arena
    mover.tier.forget(blocks[-1].object)
    assert mover.used == used - SIZE - BLOCK_OVERHEAD


def test_a_small_tier_has_no_files_that_are_shared() -> None:
    mover = Mover(60 * MIB)
    mover.filled(EACH)
    assert len(mover.arenas) == EACH
    assert mover.used == EACH * (SIZE + OVERHEAD)


def test_a_block_dropped_or_replaced_during_promotion_is_not_kept() -> None:
    mover = Mover()
    mover.filled(1)
    for leave in (
        lambda: mover.tier.forget(ObjectName("bucket", "a")),
        lambda: mover.keep(block_id("a")),
        lambda: mover.tier.purge("bucket", ""),
    ):
        mover.keep(block_id("a"))
        old, begun = mover.tier.get(block_id("a")), mover.begin(block_id("a"))
        assert begun is not None
        assert old is not None
        leave()
        place, copy = begun
        assert not mover.tier.replace(block_id("a"), old, copy)
        mover.tier.arenas.mark_wasted(place.arena)
        del begun, place, copy, old
    assert mover.emptied()


def test_a_block_is_not_promoted_to_a_retiring_arena() -> None:
    mover = Mover()
    blocks = mover.filled(3)
    mover.keep(block_id("a"))
    old, begun = mover.tier.get(block_id("a")), mover.begin(block_id("a"))
    assert begun is not None
    assert old is not None
    mover.tier.forget(blocks[0].object)
    mover.keep(block_id("large"), CAPACITY - RESERVE - HUGE)
    assert len(mover.left) == 1
    assert not mover.tier.replace(block_id("a"), old, begun[1])
    mover.tier.arenas.mark_wasted(begun[0].arena)
    assert mover.tier.get(block_id("a")) is old
    del begun
    mover.copy_back()
    assert len(mover.arenas) == 0


def test_an_arena_counts_until_its_last_reader_drops_it() -> None:
    mover = Mover()
    blocks = mover.filled(EACH)
    reader = [mover.tier.get(blocks[3])]
    mover.tier.purge("bucket", "")
    assert mover.used == HUGE + RESERVE
    assert mover.held() >= SIZE
    mover.tier.resize(0)
    assert not mover.tier.evict_some()  # there is nothing to wait for
    thread = Thread(target=reader.clear)
    thread.start()
    thread.join()
    assert mover.used == 0


def test_there_are_no_more_files_than_the_process_may_open() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    mover = Mover(60 * MIB)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        blocks = mover.filled(256 // 8 + 5)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(mover.arenas) == len(mover.tier.arenas) == 256 // 8
    assert mover.tier.has(blocks[-1])


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(("keep", "move")), st.integers(0, 40)),
        st.tuples(st.sampled_from(("keep", "move", "forget", "read", "let go")), st.integers(0, 40)),
        st.tuples(st.sampled_from(("resize", "copy back")), st.integers(0, 4)),
    ),
    min_size=20,
    max_size=120,
)


@settings(max_examples=25)
@given(STEPS)
def test_no_extent_is_used_twice_and_all_memory_is_counted(steps: list[tuple[str, int]]) -> None:
    mover, size = Mover(64 * MIB), 1_900_000
    readers: dict[int, Buffer] = {}
    for deed, number in steps:
        block = block_id(f"{number}")
        match deed:
            case "keep":
                mover.keep(block, size)
            case "move":
                mover.move(block)
            case "forget":
                mover.tier.forget(block.object)
            case "read":
                if (found := mover.tier.get(block)) is not None:
                    readers[number] = found
                found = None
            case "let go":
                readers.pop(number, None)
            case "resize":
                mover.tier.resize((64 - 8 * number) * MIB)
                while mover.tier.evict_some(5):
                    pass
            case _:
                mover.copy_back()
        occupancy = mover.tier.occupancy()
        assert occupancy.used <= occupancy.capacity or not occupancy.blocks
        assert mover.held() <= occupancy.used
        assert all(buffer == bytes_of(block_id(f"{at}"), size) for at, buffer in readers.items())
    readers.clear()
    assert mover.emptied()

"""Blocks of repeated large hits are promoted by a thread, and demoted when their arena is retired."""

import resource

from forebay.core.names import BlockId
from forebay.storage.memory.memory_tier import MemoryTier
from forebay.storage.memory.promotion import MAPPED_HITS, MAX_WAITING
from forebay.storage.memory.shared_blocks import HUGE, SharedBlock
from harness.inspection import run_loop_until
from harness.ssd_rig import MIB, block_id, content_of

SIZE = HUGE // 2


def is_promoted(tier: MemoryTier, block: BlockId) -> bool:
    buffer = tier.get(block)
    return buffer is not None and isinstance(buffer.obj, SharedBlock)


def hit(tier: MemoryTier, block: BlockId, times: int) -> None:
    assert tier.has(block)
    for _ in range(times):
        tier.promotion.record_hit(block.object, lambda: [block], MAPPED_HITS)


async def test_all_blocks_of_an_answer_are_promoted_at_once() -> None:
    tier = MemoryTier(64 * MIB)
    blocks = [block_id("a", number) for number in range(8)]
    for block in blocks:
        tier.admit(block, content_of(block, SIZE))
    for _ in range(3):
        tier.promotion.record_hit(blocks[0].object, lambda: blocks, MAPPED_HITS)
    await run_loop_until(lambda: all(is_promoted(tier, block) for block in blocks))
    assert all(tier.get(block) == content_of(block, SIZE) for block in blocks)


async def test_an_arena_is_sparse_if_a_block_is_dropped_while_copied() -> None:
    tier = MemoryTier(64 * MIB)
    blocks = [block_id("a"), block_id("b")]
    for block in blocks:
        tier.admit(block, content_of(block, SIZE))
    for _ in range(3):
        tier.promotion.record_hit(blocks[1].object, lambda: blocks, MAPPED_HITS)
    tier.forget(blocks[0].object)  # while the thread copies it
    await run_loop_until(lambda: is_promoted(tier, blocks[1]))
    assert len(tier.arenas.sparse) == 1
    tier.admit(block_id("large"), memoryview(bytes(60 * MIB)))
    await run_loop_until(lambda: not tier.arenas.charged())
    assert tier.get(blocks[1]) == content_of(blocks[1], SIZE)


async def test_the_third_large_hit_promotes_one_object_at_a_time() -> None:
    tier = MemoryTier(128 * MIB)
    blocks = [block_id(key) for key in "ab"]
    for block in blocks:
        tier.admit(block, content_of(block, SIZE))
        hit(tier, block, 2)
    assert not tier.arenas.charged()
    for block in blocks:
        hit(tier, block, 2)
    assert not is_promoted(tier, blocks[0])  # the loop copies nothing
    await run_loop_until(lambda: is_promoted(tier, blocks[0]))
    assert not is_promoted(tier, blocks[1])
    await run_loop_until(lambda: is_promoted(tier, blocks[1]))
    assert len(tier.arenas) == 2
    assert all(tier.get(block) == content_of(block, SIZE) for block in blocks)


async def test_so_many_promotions_wait_and_no_more() -> None:
    tier = MemoryTier(256 * MIB)
    blocks = [block_id(f"{number}") for number in range(MAX_WAITING + 2)]
    for block in blocks:
        tier.admit(block, content_of(block, SIZE))
        hit(tier, block, 3)
    tier.forget(blocks[1].object)  # nothing is left to promote of it
    others = [blocks[0], *blocks[2:-1]]
    await run_loop_until(lambda: all(is_promoted(tier, block) for block in others))
    assert len(tier.arenas) == len(others)
    assert not is_promoted(tier, blocks[-1])
    hit(tier, blocks[-1], 1)
    await run_loop_until(lambda: is_promoted(tier, blocks[-1]))


async def test_blocks_of_several_retired_arenas_are_all_demoted() -> None:
    tier = MemoryTier(128 * MIB)
    blocks = [block_id(f"{number}") for number in range(4)]
    for block in blocks:
        tier.admit(block, content_of(block, SIZE))
        hit(tier, block, 3)
        await run_loop_until(lambda block=block: is_promoted(tier, block))  # type: ignore[misc]  # bound, as the loop goes on
    tier.forget(blocks[0].object)
    tier.forget(blocks[2].object)
    tier.admit(block_id("large"), memoryview(bytes(121 * MIB)))
    await run_loop_until(lambda: not tier.arenas.charged())
    assert [tier.has(block) for block in blocks] == [False, True, False, True]
    assert not any(is_promoted(tier, block) for block in blocks)
    assert tier.get(blocks[3]) == content_of(blocks[3], SIZE)


async def test_a_failed_promotion_leaves_the_block_and_counts_nothing() -> None:
    tier = MemoryTier(128 * MIB)
    block = block_id("a")
    tier.admit(block, content_of(block, SIZE))
    used = tier.used
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (SIZE, hard))
        hit(tier, block, 3)
        assert tier.used > used
        await run_loop_until(lambda: tier.used == used)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not is_promoted(tier, block)
    hit(tier, block, 1)
    await run_loop_until(lambda: is_promoted(tier, block))

"""The tiers of one worker of several: blocks of other owners do not displace its own."""

from pathlib import Path

from forebay.core.names import BlockId, Generation, ObjectName
from forebay.storage.memory.memory_tier import BLOCK_OVERHEAD, MemoryTier
from forebay.storage.ssd.recovery import SsdOptions
from forebay.storage.tiers import Tiers
from harness.ssd_rig import block_id, content_of, head_for, open_tier

GENERATION = Generation(b"12345678")
SIZE = 1000
BLOCKS = 4


def block(key: str, number: int) -> BlockId:
    return BlockId(ObjectName("bucket", key), GENERATION, number)


def worker() -> Tiers:
    """Owns objects whose names begin with `ours`; memory fits BLOCKS blocks."""
    return Tiers(MemoryTier(BLOCKS * (SIZE + BLOCK_OVERHEAD)), None, lambda name: name.key == "ours")


def admit(tiers: Tiers, *blocks: BlockId) -> None:
    for each in blocks:
        tiers.admit(each, memoryview(bytes(SIZE)))


def test_blocks_of_other_owners_fill_free_space_only() -> None:
    tiers = worker()
    ours = [block("ours", number) for number in range(BLOCKS - 1)]
    admit(tiers, *ours)
    theirs = [block("theirs", number) for number in range(20)]
    admit(tiers, *theirs)
    assert [each for each in theirs if tiers.has(each)] == theirs[:1]
    assert all(tiers.has(each) for each in ours)


def test_a_block_of_another_owner_is_admitted_on_its_second_hit() -> None:
    tiers = worker()
    admit(tiers, *(block("ours", number) for number in range(BLOCKS)))
    hot = block("theirs", 0)
    admit(tiers, hot)
    assert not tiers.has(hot)
    admit(tiers, hot)
    assert tiers.has(hot)


def test_own_blocks_displace_those_of_other_owners() -> None:
    tiers = worker()
    admit(tiers, *(block("theirs", number) for number in range(BLOCKS)))
    ours = [block("ours", number) for number in range(BLOCKS)]
    admit(tiers, *ours)
    assert all(tiers.has(each) for each in ours)


async def test_an_object_put_at_once_is_in_both_tiers(tmp_path: Path) -> None:
    tiers = Tiers(MemoryTier(1 << 20), open_tier(tmp_path / "ssd", options=SsdOptions(queue_bytes=8_000)))
    assert tiers.ssd is not None
    (name, head), (large_name, large_head) = head_for("a"), head_for("large")
    tiers.put_object(name, head, block_id("a"), content_of(block_id("a"), 100))
    tiers.put_object(large_name, large_head, block_id("large"), content_of(block_id("large"), 9_000))
    await tiers.flush()
    assert [tier.head(name) for tier in (tiers.memory, tiers.ssd)] == [head, head]
    assert [tier.has(block_id("a")) for tier in (tiers.memory, tiers.ssd)] == [True, True]
    assert tiers.ssd.head(large_name) == large_head, "its block did not fit into the queue"
    assert [tier.has(block_id("large")) for tier in (tiers.memory, tiers.ssd)] == [True, False]
    await tiers.ssd.close()


async def test_an_object_of_another_owner_put_at_once_is_not_written(tmp_path: Path) -> None:
    tiers = Tiers(MemoryTier(1 << 20), open_tier(tmp_path / "ssd"), lambda _: False)
    assert tiers.ssd is not None
    name, head = head_for("a")
    tiers.put_object(name, head, block_id("a"), content_of(block_id("a"), 100))
    await tiers.flush()
    assert (tiers.memory.head(name), tiers.ssd.head(name)) == (head, None)
    assert (tiers.memory.has(block_id("a")), tiers.ssd.has(block_id("a"))) == (True, False)
    await tiers.ssd.close()

"""The tiers of one worker of several: blocks of other owners do not displace its own."""

from forebay.core.names import BlockId, Generation, ObjectName
from forebay.storage.memory.memory_tier import BLOCK_OVERHEAD, MemoryTier
from forebay.storage.tiers import Tiers

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

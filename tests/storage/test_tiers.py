"""The tiers as one, where a node has several workers: what came over another worker has the second place."""

from forebay.core.names import BlockId, Generation, ObjectName
from forebay.storage.memory.memory_tier import BLOCK_OVERHEAD, MemoryTier
from forebay.storage.tiers import Tiers

GENERATION = Generation(b"12345678")
SIZE = 1000
ROOM = 4


def block(key: str, number: int) -> BlockId:
    return BlockId(ObjectName("bucket", key), GENERATION, number)


def worker() -> Tiers:
    """Owns what is called `ours`; has room for ROOM blocks."""
    return Tiers(MemoryTier(ROOM * (SIZE + BLOCK_OVERHEAD)), None, lambda name: name.key == "ours")


def admit(tiers: Tiers, *blocks: BlockId) -> None:
    for one in blocks:
        tiers.admit(one, memoryview(bytes(SIZE)))


def test_copies_of_what_others_own_fill_what_room_there_is_and_displace_nothing() -> None:
    tiers = worker()
    ours = [block("ours", number) for number in range(ROOM - 1)]
    admit(tiers, *ours)
    theirs = [block("theirs", number) for number in range(20)]
    admit(tiers, *theirs)
    assert [one for one in theirs if tiers.has(one)] == theirs[:1]
    assert all(tiers.has(one) for one in ours)


def test_a_copy_that_is_read_again_soon_is_worth_its_place() -> None:
    tiers = worker()
    admit(tiers, *(block("ours", number) for number in range(ROOM)))
    hot = block("theirs", 0)
    admit(tiers, hot)
    assert not tiers.has(hot)
    admit(tiers, hot)
    assert tiers.has(hot)


def test_what_is_ours_displaces_copies() -> None:
    tiers = worker()
    admit(tiers, *(block("theirs", number) for number in range(ROOM)))
    ours = [block("ours", number) for number in range(ROOM)]
    admit(tiers, *ours)
    assert all(tiers.has(one) for one in ours)

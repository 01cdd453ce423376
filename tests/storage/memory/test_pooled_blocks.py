"""Blocks of pools in the memory tier: the stable share, what passes, and who gives way."""

from random import Random

import pytest

from forebay.core.events import AdmissionRefused
from forebay.core.heads import ObjectFacts, head_of
from forebay.core.names import BlockId, Generation, ObjectName, Version
from forebay.policy.pools import IDLE_SECONDS, Pool
from forebay.storage.memory.memory_tier import BLOCK_OVERHEAD, MemoryTier
from harness.manual_timers import Clock
from harness.ssd_rig import RecordedEvents

SIZE = 4_000
COST = SIZE + BLOCK_OVERHEAD
SHARE = Pool("set/**", "epoch", None)
OTHER = Pool("other/**", "epoch", None)


def block(number: int, key: str = "set") -> BlockId:
    return BlockId(ObjectName("bucket", f"{key}/{number}"), Generation(b"12345678"), 0)


BLOCKS = [block(number) for number in range(3_000)]


def tier_of(blocks: float, events: RecordedEvents | None = None, clock: Clock | None = None) -> MemoryTier:
    """A tier for so many blocks."""
    events = RecordedEvents() if events is None else events
    return MemoryTier(int(blocks * COST), events, clock or Clock(), b"key")


def read(tier: MemoryTier, wanted: BlockId, pool: Pool | None = SHARE, size: int = SIZE) -> bool:
    """Reads a block, and admits it if it is not there. Returns whether it was."""
    if tier.get(wanted) is not None:
        return True
    buffer = memoryview(bytes(size))
    if pool is None:
        tier.admit(wanted, buffer)
    else:
        tier.admit_pooled(wanted, buffer, pool, share=True)
    return False


def epoch(tier: MemoryTier, order: list[BlockId], pool: Pool | None = SHARE) -> list[int]:
    """Reads all blocks once, and returns the misses in each tenth."""
    tenths = [0] * 10
    for nth, wanted in enumerate(order):
        tenths[nth * 10 // len(order)] += not read(tier, wanted, pool)
    return tenths


@pytest.mark.parametrize("is_shuffled", [True, False])
@pytest.mark.parametrize("share", [0.2, 0.35, 0.5, 0.65, 0.8])
def test_the_hit_share_is_what_fits(share: float, is_shuffled: bool) -> None:
    order = [block(number) for number in range(12_000)]
    tier, random = tier_of(share * len(order)), Random(1)
    for number in range(4):
        if is_shuffled:
            random.shuffle(order)
        tenths = epoch(tier, order)
        if number >= 2:
            assert 1 - sum(tenths) / len(order) == pytest.approx(share, abs=0.02)
            assert max(tenths) <= 1.2 * sum(tenths) / 10


def test_lru_keeps_far_less_of_it() -> None:
    tier, random, order = tier_of(0.5 * len(BLOCKS)), Random(1), list(BLOCKS)
    for _ in range(4):
        random.shuffle(order)
        misses = sum(epoch(tier, order, None))
    assert 1 - misses / len(BLOCKS) < 0.2


def test_after_the_first_epoch_the_share_is_the_same_for_good() -> None:
    events = RecordedEvents()
    tier, random, order = tier_of(1_000, events), Random(2), list(BLOCKS)
    epoch(tier, order)
    epoch(tier, order)
    kept = [each for each in BLOCKS if tier.has(each)]
    events.clear()
    for _ in range(3):
        random.shuffle(order)
        epoch(tier, order)
    assert len(set(kept).intersection(each for each in BLOCKS if tier.has(each))) >= len(kept) - 20
    assert len(events.of(AdmissionRefused)) > 5_000


def test_sizes_may_differ() -> None:
    random = Random(3)
    sizes = {wanted: random.choice([500, 4_000, 40_000]) for wanted in BLOCKS}
    total = sum(sizes.values()) + BLOCK_OVERHEAD * len(sizes)
    tier, order = MemoryTier(total // 2, RecordedEvents(), Clock(), b"key"), list(BLOCKS)
    for _ in range(4):
        random.shuffle(order)
        hits = sum(sizes[wanted] for wanted in order if read(tier, wanted, size=sizes[wanted]))
    assert hits / sum(sizes.values()) == pytest.approx(0.5, abs=0.02)


def test_the_share_follows_a_set_that_grows() -> None:
    tier = tier_of(900)
    for size in (500, 1_500, 3_000):
        for _ in range(3):
            misses = sum(epoch(tier, BLOCKS[:size]))
        assert 1 - misses / size == pytest.approx(min(1.0, 900 / size), abs=0.02)


def test_another_key_keeps_other_blocks() -> None:
    def kept(key: bytes) -> set[BlockId]:
        tier = MemoryTier(300 * COST, RecordedEvents(), Clock(), key)
        epoch(tier, BLOCKS)
        epoch(tier, BLOCKS)
        return {wanted for wanted in BLOCKS if tier.has(wanted)}

    assert kept(b"one") == kept(b"one")
    assert len(kept(b"one") & kept(b"other")) < 60


def test_the_blocks_of_one_object_are_kept_one_by_one() -> None:
    large = [BlockId(ObjectName("bucket", "large"), Generation(b"12345678"), number) for number in range(1_000)]
    tier = tier_of(500)
    epoch(tier, large)
    epoch(tier, large)
    for start in range(0, 1_000, 100):
        assert 45 <= sum(tier.has(wanted) for wanted in large[start : start + 100]) <= 55


def test_a_block_that_nobody_keeps_can_be_read_in_several_ranges() -> None:
    tier = tier_of(100)
    for wanted in BLOCKS:
        read(tier, wanted)
        assert tier.has(wanted)


def test_blocks_that_pass_fill_free_space_and_give_way_to_the_share() -> None:
    tier = tier_of(100)
    passing = [block(number, "copies") for number in range(60)]
    for wanted in passing:
        tier.admit_pooled(wanted, memoryview(bytes(SIZE)), SHARE, share=False)
    assert all(map(tier.has, passing))
    for _ in range(2):
        epoch(tier, BLOCKS[:500])
    assert sum(map(tier.has, passing)) <= 1
    assert sum(map(tier.has, BLOCKS)) >= 98


def test_a_refused_block_costs_no_head() -> None:
    tier = tier_of(40)
    facts = ObjectFacts(Version('"one"'), SIZE, "Thu, 01 Jan 1970 00:00:00 GMT", ())
    for wanted in BLOCKS[:30]:
        tier.put_head(wanted.object, head_of(facts, 1 << 20, 0.0))
    for _ in range(2):
        epoch(tier, BLOCKS[:300])
    assert all(tier.heads.peek(wanted.object) is not None for wanted in BLOCKS[:30])


def test_a_quota_bounds_a_pool() -> None:
    bounded = Pool("set/**", "epoch", 200 * COST)
    tier = tier_of(1_000)
    for _ in range(3):
        epoch(tier, BLOCKS, bounded)
    (share,) = tier.pooled.pools()
    assert 198 * COST <= share.used <= 200 * COST
    epoch(tier, BLOCKS, Pool("set/**", "epoch", 100 * COST))  # lowered while serving
    read(tier, block(9_999), Pool("set/**", "epoch", 100 * COST))


def test_two_pools_have_half_of_the_tier_each() -> None:
    tier, random = tier_of(1_000), Random(4)
    others = [block(number, "other") for number in range(3_000)]
    for _ in range(4):
        order = [(wanted, SHARE) for wanted in BLOCKS] + [(wanted, OTHER) for wanted in others]
        random.shuffle(order)
        for wanted, pool in order:
            read(tier, wanted, pool)
    one, other = tier.pooled.pools()
    assert one.used + other.used > 0.98 * 1_000 * COST
    assert 0.7 < one.used / other.used < 1.4


def test_a_pool_and_plain_blocks_share_the_tier() -> None:
    tier = tier_of(1_000)
    plain = [block(number, "plain") for number in range(3_000)]
    for wanted in plain:
        read(tier, wanted, None)
    for _ in range(3):
        epoch(tier, BLOCKS)
    (share,) = tier.pooled.pools()
    assert 0.4 < share.used / (1_000 * COST) < 0.65
    before = share.used
    for wanted in plain:  # a scan in LRU order displaces plain blocks only
        read(tier, wanted, None)
    assert share.used > 0.9 * before


def test_a_pool_takes_what_others_do_not_want() -> None:
    tier = tier_of(1_000)
    plain = [block(number, "plain") for number in range(100)]
    for _ in range(3):
        for wanted in plain:
            read(tier, wanted, None)
        epoch(tier, BLOCKS)
    assert all(map(tier.has, plain))
    assert sum(map(tier.has, BLOCKS)) > 880


def test_a_set_that_nobody_reads_gives_way_for_good() -> None:
    clock = Clock()
    tier = tier_of(1_000, clock=clock)
    for _ in range(2):
        epoch(tier, BLOCKS)
    clock.now = IDLE_SECONDS + 1
    others = [block(number, "other") for number in range(3_000)]
    for _ in range(3):
        epoch(tier, others, OTHER)
    assert sum(map(tier.has, BLOCKS)) <= 20
    assert sum(map(tier.has, others)) > 970


def test_a_set_that_is_only_hit_keeps_its_place_as_it_is_used() -> None:
    """Hits are not noted, so its pool seems idle. Its blocks then count as any that were used lately."""
    clock = Clock()
    tier = tier_of(1_000, clock=clock)
    few = BLOCKS[:300]
    epoch(tier, few)
    plain = [block(number, "plain") for number in range(5_000)]
    clock.now = IDLE_SECONDS + 1
    for nth, wanted in enumerate(plain):
        read(tier, wanted, None)
        if nth % 500 == 0:
            assert sum(epoch(tier, few)) == 0


def test_what_is_forgotten_is_no_part_of_the_share() -> None:
    tier = tier_of(100)
    epoch(tier, BLOCKS[:300])
    for wanted in BLOCKS[:300]:
        tier.forget(wanted.object)
    assert (tier.occupancy().blocks, tier.used, tier.pooled.used, len(tier.pooled)) == (0, 0, 0, 0)


def test_a_shrunk_tier_evicts_from_the_share() -> None:
    tier = tier_of(1_000)
    epoch(tier, BLOCKS)
    tier.resize(100 * COST)
    while tier.evict_some():
        pass
    assert tier.used <= 100 * COST
    assert tier.counts.evicted["resize"]
    assert sum(map(tier.has, BLOCKS)) >= 95


def test_each_eviction_is_told_also_where_the_new_block_is_refused() -> None:
    tier, dice = tier_of(40), Random(4)
    for wanted in dice.choices(BLOCKS, k=2_000):
        read(tier, wanted, size=dice.choice((500, SIZE, 8 * SIZE)))
    assert tier.counts.admitted - sum(tier.counts.evicted.values()) == tier.occupancy().blocks

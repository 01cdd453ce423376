"""Pools on the SSD: the stable share, what it appends, who gives way, and what a restart finds."""

import fcntl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from random import Random

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.events import AdmissionThrottled, BlocksAdmitted, Event
from forebay.core.names import BlockId, Generation, ObjectName
from forebay.policy.pools import IDLE_SECONDS, Pool
from forebay.storage.memory.memory_tier import MemoryTier
from forebay.storage.ssd.index.index import Index
from forebay.storage.ssd.recovery import SsdOptions
from forebay.storage.ssd.ssd_tier import SsdTier
from forebay.storage.tiers import Tiers
from harness.ssd_rig import MIB, NOW, RecordedEvents, head_for, open_tier

SIZE = 16_000
FINE = SsdOptions(segment_floor=64 << 10)
SHARE = Pool("set/**", "epoch", None)
READS_AT_ONCE = 50


def block(number: int, key: str = "set", generation: int = 1) -> BlockId:
    return BlockId(ObjectName("bucket", f"{key}/{number}"), Generation(generation.to_bytes(8, "big")), 0)


N = 1_000
BLOCKS = [block(number) for number in range(N)]
TOTAL = SIZE * N
SLACK = 0.07
"""How far a share may be from its tier's after that has changed: in a tier as small as this one the space kept free for
reclaim, and a segment that is partly dead, are several hundredths of it."""
MANY = [block(number) for number in range(2 * N)]
"""Of a tier for so many, little is kept free for reclaim."""


def appended(events: list[Event]) -> int:
    return sum(event.size for event in events if isinstance(event, BlocksAdmitted) and event.tier == "ssd")


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Holds a lock of the directory, as another process does."""
    with file.open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Reads:
    """A reader of blocks through the tiers, which admits what it did not find."""

    def __init__(self, ssd: SsdTier, memory: int = 0) -> None:
        self.ssd = ssd
        self.memory = MemoryTier(memory, hash_key=b"key")
        self.pool: Pool | None = SHARE
        self.tiers = Tiers(self.memory, ssd, pool_of=lambda _: self.pool)

    async def epoch(self, order: list[BlockId], pool: Pool | None = SHARE, size: int = SIZE) -> list[int]:
        """Reads all once, and returns the misses in each tenth."""
        self.pool = pool
        tenths = [0] * 10
        for nth, wanted in enumerate(order):
            if self.memory.get(wanted) is None and await self.tiers.read(wanted, size, Span(0, size)) is None:
                tenths[nth * 10 // len(order)] += 1
                self.tiers.admit(wanted, memoryview(bytes(size)))
            if nth % READS_AT_ONCE == 0:
                await self.ssd.flush()
        for _ in range(3):
            await self.ssd.settle()
        return tenths

    async def epoch_ahead(self, order: list[BlockId]) -> int:
        """Reads all once, what is not there fetched ahead, as a plan does; returns how many these are."""
        ahead, fetched = self.memory.ahead, 0
        ahead.budget.resize(4 * SIZE)
        for nth, wanted in enumerate(order):
            if self.memory.get(wanted) is None and await self.tiers.read(wanted, SIZE, Span(0, SIZE)) is None:
                fetched += 1
                assert ahead.claim(wanted, SIZE)
                self.tiers.admit(wanted, memoryview(bytes(SIZE)))
                assert not self.ssd.has(wanted)
                assert self.memory.get(wanted) is not None
                buffer, _ = ahead.release(wanted)
                assert buffer is not None
                self.tiers.admit(wanted, buffer)
            if nth % READS_AT_ONCE == 0:
                await self.ssd.flush()
        await self.ssd.settle()
        assert ahead.budget.in_use == 0
        return fetched

    def kept(self, order: list[BlockId]) -> int:
        return sum(map(self.ssd.has, order))

    def used(self, name: str) -> int:
        return sum(pool.used for pool in self.ssd.pools() if pool.name == name)


@asynccontextmanager
async def reads_of(
    path: Path, share: float, events: RecordedEvents | None = None, memory: float = 0, now: list[float] | None = None
) -> AsyncIterator[Reads]:
    """Reads through tiers that have this share of the set's bytes."""
    clock = (lambda: now[0]) if now is not None else None
    tier = open_tier(path / "ssd", events, capacity=int(share * TOTAL), options=FINE, clock=clock)
    try:
        yield Reads(tier, int(memory * TOTAL))
    finally:
        await tier.close()


@pytest.mark.parametrize("share", [pytest.param(0.35, marks=pytest.mark.long), 0.65])
async def test_the_hit_share_is_what_fits_and_then_nothing_is_written(tmp_path: Path, share: float) -> None:
    events, random, order = RecordedEvents(), Random(1), list(MANY)
    async with reads_of(tmp_path, 2 * share, events) as reads:
        written = []
        for number in range(5):
            random.shuffle(order)
            events.clear()
            misses = sum(await reads.epoch(order))
            written.append(appended(events) / (2 * TOTAL))
            if number >= 2:
                assert 1 - misses / len(order) == pytest.approx(share, abs=0.03)
    # The share shrinks without a copy, so the first epoch appends less than the set, which LRU appends each time.
    assert written[0] < 1
    assert sum(written[1:3]) < 0.15  # a band that gave way, and was not needed for all of it
    assert written[3:] == [0, 0]


async def test_a_process_makes_room_while_another_keeps_house(tmp_path: Path) -> None:
    """The other one is idle, and need not know that there is no room."""
    events, random, order = RecordedEvents(), Random(4), list(MANY)
    tier = open_tier(tmp_path / "ssd", events, capacity=TOTAL, family="node", options=FINE)
    await tier.close()
    with locked(tmp_path / "ssd" / "keeper.lock"):
        tier = open_tier(tmp_path / "ssd", events, capacity=TOTAL, family="node", options=FINE)
        reads = Reads(tier)
        for _ in range(3):
            random.shuffle(order)
            misses = sum(await reads.epoch(order))
        assert tier.occupancy().used <= TOTAL
        await tier.close()
    assert 1 - misses / len(order) == pytest.approx(0.5, abs=0.03)
    assert events.of(AdmissionThrottled) == []


async def test_a_batch_is_given_up_where_another_process_reclaims_for_long(tmp_path: Path) -> None:
    """It may have been stopped."""
    events, capacity = RecordedEvents(), TOTAL // 2
    tier = open_tier(tmp_path / "ssd", events, capacity=capacity, family="node", options=FINE)
    reads = Reads(tier)
    with locked(tmp_path / "ssd" / "reclaim.lock"):
        for wanted in BLOCKS:
            reads.tiers.admit(wanted, memoryview(bytes(SIZE)))
            if events.of(AdmissionThrottled):
                break
            await tier.flush()
        assert events.of(AdmissionThrottled)
    events.clear()
    await reads.epoch(BLOCKS)
    assert tier.occupancy().used <= capacity
    assert events.of(AdmissionThrottled) == []
    await tier.close()


async def test_a_fixed_order_is_hit_as_a_random_one_is(tmp_path: Path) -> None:
    async with reads_of(tmp_path, 1.0) as reads:
        for _ in range(3):
            tenths = await reads.epoch(MANY)
    assert 1 - sum(tenths) / len(MANY) == pytest.approx(0.5, abs=0.03)
    assert max(tenths) <= 1.25 * sum(tenths) / 10  # 100 misses each, which differ by chance


async def test_memory_keeps_what_the_ssd_does_not(tmp_path: Path) -> None:
    random, order = Random(2), list(BLOCKS)
    async with reads_of(tmp_path, 0.3, memory=0.2) as reads:
        for _ in range(4):
            random.shuffle(order)
            misses = sum(await reads.epoch(order))
        assert 1 - misses / len(order) == pytest.approx(0.5, abs=SLACK)  # what blocks cost beside their bytes included
        both = [wanted for wanted in BLOCKS if reads.memory.has(wanted) and reads.ssd.has(wanted)]
        assert len(both) < 10


async def test_blocks_fetched_ahead_make_the_same_share(tmp_path: Path) -> None:
    """Each is admitted once it was read, and refused where it is not part of the share."""
    random, order = Random(4), list(BLOCKS)
    events = RecordedEvents()
    async with reads_of(tmp_path, 0.3, events, memory=0.2) as reads:
        for _ in range(3):
            random.shuffle(order)
            await reads.epoch_ahead(order)
        kept = {wanted for wanted in BLOCKS if reads.ssd.has(wanted)}
        events.clear()
        random.shuffle(order)
        fetched = await reads.epoch_ahead(order)
        assert 1 - fetched / len(order) == pytest.approx(0.5, abs=SLACK)
        assert {wanted for wanted in BLOCKS if reads.ssd.has(wanted)} == kept
        assert appended(events) == 0
        random.shuffle(order)
        assert sum(await reads.epoch(order)) == pytest.approx(fetched, rel=0.02), "as without a plan"


async def test_a_restart_goes_on_with_the_share(tmp_path: Path) -> None:
    async with reads_of(tmp_path, 0.5) as reads:
        for _ in range(3):
            await reads.epoch(BLOCKS)
        kept, pools = {wanted for wanted in BLOCKS if reads.ssd.has(wanted)}, reads.ssd.pools()
    events = RecordedEvents()
    async with reads_of(tmp_path, 0.5, events) as reads:
        await reads.ssd.flush()
        await reads.ssd.flush()
        assert reads.ssd.pools() == pools
        misses = sum(await reads.epoch(BLOCKS))
        after = {wanted for wanted in BLOCKS if reads.ssd.has(wanted)}
    assert kept <= after
    assert len(after - kept) <= N // 100, "a reclaim that ends behind the restart frees room for a few"
    assert misses == len(BLOCKS) - len(kept)
    assert appended(events) <= SIZE * 2 * len(after - kept)


async def test_the_share_follows_a_set_that_grows(tmp_path: Path) -> None:
    async with reads_of(tmp_path, 0.3) as reads:
        for size in (200, 600, N):
            for _ in range(3):
                misses = sum(await reads.epoch(BLOCKS[:size]))
            assert 1 - misses / size == pytest.approx(min(1.0, 0.3 * N / size), abs=SLACK)


async def test_a_set_that_shrinks_leaves_its_space_to_the_rest(tmp_path: Path) -> None:
    async with reads_of(tmp_path, 0.4) as reads:
        for _ in range(2):
            await reads.epoch(BLOCKS)
        for wanted in BLOCKS[N // 2 :]:
            await reads.ssd.forget(wanted.object)
        for _ in range(12):  # there is room as segments with dead blocks are compacted
            misses = sum(await reads.epoch(BLOCKS[: N // 2]))
    assert 1 - misses / (N // 2) == pytest.approx(0.8, abs=SLACK)


async def test_a_larger_tier_is_filled_in_an_epoch_or_two(tmp_path: Path) -> None:
    async with reads_of(tmp_path, 0.3) as reads:
        for _ in range(2):
            await reads.epoch(BLOCKS)
        reads.ssd.resize(int(0.6 * TOTAL))
        for _ in range(3):  # that of the change is hit as the ones before
            misses = sum(await reads.epoch(BLOCKS))
    assert 1 - misses / len(BLOCKS) == pytest.approx(0.6, abs=SLACK)


async def test_replaced_versions_take_no_space_for_good(tmp_path: Path) -> None:
    async with reads_of(tmp_path, 0.5) as reads:
        for generation in (1, 2):
            order = [block(number, generation=generation) for number in range(N)]
            for wanted in order:
                await reads.ssd.forget(wanted.object) if generation > 1 else None
            for _ in range(3):
                misses = sum(await reads.epoch(order))
            assert 1 - misses / len(order) == pytest.approx(0.5, abs=SLACK)


async def test_a_quota_bounds_a_pool_and_may_change(tmp_path: Path) -> None:
    async with reads_of(tmp_path, 0.8) as reads:
        for quota, low in ((0.3, 0.28), (0.2, 0.16), (0.4, 0.37)):
            bounded = Pool("set/**", "epoch", int(quota * TOTAL))
            for _ in range(4):
                await reads.epoch(BLOCKS, bounded)
            assert low <= reads.used("set/**") / TOTAL <= quota


async def test_a_quota_bounds_objects_in_lru_order(tmp_path: Path) -> None:
    bounded = Pool("logs/**", "lru", int(0.2 * TOTAL))
    async with reads_of(tmp_path, 0.8) as reads:
        await reads.epoch(BLOCKS, bounded)
        assert 0.15 <= reads.used("logs/**") / TOTAL <= 0.2
        latest, oldest = BLOCKS[-100:], BLOCKS[:100]
        assert (reads.kept(latest), reads.kept(oldest)) == (100, 0)


@pytest.mark.long
async def test_several_pools_and_plain_objects_share_the_tier(tmp_path: Path) -> None:
    """Each wants all of it; each has a third, within a quarter."""
    second = Pool("other/**", "epoch", None)
    others, plain = [block(n, "other") for n in range(N)], [block(n, "plain") for n in range(N)]
    async with reads_of(tmp_path, 0.6) as reads:
        for _ in range(3):
            for start in range(0, N, N // 10):
                await reads.epoch(BLOCKS[start : start + N // 10])
                await reads.epoch(others[start : start + N // 10], second)
                await reads.epoch(plain[start : start + N // 10], None)
        sizes = [reads.used(name) / TOTAL for name in ("set/**", "other/**", "")]
    assert sum(sizes) > 0.55
    assert min(sizes) > 0.14


@pytest.mark.long
async def test_plain_objects_that_are_scanned_leave_the_share_alone(tmp_path: Path) -> None:
    plain = [block(number, "plain") for number in range(2 * N)]
    async with reads_of(tmp_path, 0.5) as reads:
        await reads.epoch(plain[:N], None)
        for _ in range(2):
            await reads.epoch(BLOCKS)
        before = reads.used("set/**")
        assert before > 0.2 * TOTAL
        await reads.epoch(plain, None)
        assert reads.used("set/**") > 0.75 * before


async def test_a_set_that_nobody_reads_gives_way(tmp_path: Path) -> None:
    now = [NOW]
    second, others = Pool("other/**", "epoch", None), [block(number, "other") for number in range(N)]
    async with reads_of(tmp_path, 0.5, now=now) as reads:
        for _ in range(2):
            await reads.epoch(BLOCKS)
        for _ in range(6):  # it was read since it was looked at, so it counts as idle at the second look
            now[0] += IDLE_SECONDS + 1
            await reads.epoch(others, second)
        assert reads.used("set/**") < 0.05 * TOTAL
        assert reads.used("other/**") > 0.44 * TOTAL


async def test_a_set_that_is_only_hit_is_not_idle(tmp_path: Path) -> None:
    now = [NOW]
    plain = [block(number, "plain") for number in range(400)]
    async with reads_of(tmp_path, 0.5, now=now) as reads:
        await reads.epoch(BLOCKS[:200])
        for _ in range(3):
            now[0] += IDLE_SECONDS + 1
            assert sum(await reads.epoch(BLOCKS[:200])) == 0
            await reads.epoch(plain, None)
        assert sum(await reads.epoch(BLOCKS[:200])) == 0


async def test_a_block_that_gives_way_costs_no_head(tmp_path: Path) -> None:
    async with reads_of(tmp_path, 0.3) as reads:
        for wanted in BLOCKS[:200]:
            name, head = head_for(wanted.object.key)
            reads.ssd.put_head(name, head)
        for _ in range(2):
            await reads.epoch(BLOCKS)
        assert reads.kept(BLOCKS[:200]) < 100
        assert all(reads.ssd.head(wanted.object) is not None for wanted in BLOCKS[:200])


async def test_the_blocks_of_a_large_object_are_kept_one_by_one(tmp_path: Path) -> None:
    large = [BlockId(ObjectName("bucket", "large"), Generation(b"12345678"), number) for number in range(N)]
    async with reads_of(tmp_path, 0.5) as reads:
        for _ in range(2):
            await reads.epoch(large)
        for start in range(0, N, N // 10):
            assert 42 <= reads.kept(large[start : start + N // 10]) <= 54


async def test_labels_outlive_a_rebuild_of_the_index(tmp_path: Path) -> None:
    async with reads_of(tmp_path, 0.5) as reads:
        for _ in range(2):
            await reads.epoch(BLOCKS)
        pools = reads.ssd.pools()
    index = Index.open(tmp_path / "ssd" / "index", 16 * MIB, exclusive=True)
    labels, rows = index.labels(), index.pools()
    index.close()
    assert labels
    assert [row.name for row in rows.values()] == ["set/**"]
    (tmp_path / "ssd" / "STATE").write_text('{"closed_by": "", "unclean_starts": 9, "trusted_from": 0}')
    async with reads_of(tmp_path, 0.5) as reads:
        await reads.ssd.flush()
        await reads.ssd.flush()
        assert reads.ssd.pools() == pools


async def test_a_full_tier_takes_one_segment_of_the_marginal_band_at_a_time(tmp_path: Path) -> None:
    """Not all of the band, an eighth of the share, for what a few new heads need in the index."""
    async with reads_of(tmp_path, 1.0) as reads:
        for _ in range(3):
            await reads.epoch(MANY)
        before, heads = reads.kept(MANY), 0
        while reads.kept(MANY) == before:
            for _ in range(100):
                heads += 1
                reads.ssd.put_head(*head_for(f"head-{heads}"))
            await reads.ssd.settle()
        assert before - reads.kept(MANY) <= 8

"""Pins on the SSD: what they keep, whatever else comes, how much that may be, and what goes when they go."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from forebay.core.events import CorruptionFound, TierFailed
from forebay.core.heads import Head, ObjectFacts, head_of
from forebay.core.names import BlockId, ObjectName, Version
from forebay.policy.pins import DEFAULT_SHARE, NO_PINS, Pin, PinSet
from forebay.policy.pools import Pool
from forebay.storage.ssd.recovery import SsdOptions
from forebay.storage.ssd.segments.record import record_size
from forebay.storage.ssd.ssd_tier import SsdTier
from harness.ssd_rig import NOW, RecordedEvents, content_of, open_tier, read_block

SIZE = 16_000
RECORD = record_size(SIZE)
CAPACITY = 2 << 20
"""Of some 125 blocks; about 110 last."""
FINE = SsdOptions(segment_floor=64 << 10)
BATCH = 25
"""Blocks at once: a batch may be a quarter of the tier."""
TURNS = 400
"""Of the writer, at most, until it has nothing to do."""
A = Pin("bucket", "a/", NOW)
A_B = Pin("bucket", "a/b/", NOW)
SHARE = Pool("b/**", "epoch", None)
BOUNDED = Pool("b/**", "lru", CAPACITY // 2)


def objects(prefix: str, count: int) -> list[ObjectName]:
    return [ObjectName("bucket", f"{prefix}{number:05}") for number in range(count)]


def version(name: ObjectName, etag: str = '"one"') -> Head:
    return head_of(ObjectFacts(Version(etag), SIZE, "Thu, 01 Jan 1970 00:00:00 GMT", ()), 1 << 20, NOW)


def block_of(name: ObjectName, etag: str = '"one"') -> BlockId:
    return BlockId(name, version(name, etag).generation, 0)


class PinnedTier:
    """A small tier, and what is written to it and read from it."""

    def __init__(self, tier: SsdTier) -> None:
        self.tier = tier

    async def write(self, names: Iterable[ObjectName], pool: Pool | None = None, etag: str = '"one"') -> None:
        for nth, name in enumerate(names):
            self.tier.admit(block_of(name, etag), content_of(block_of(name, etag), SIZE), pool)
            self.tier.put_head(name, version(name, etag))
            if nth % BATCH == BATCH - 1:
                await self.tier.flush()
        await self.settle()

    async def scan(self, pool: Pool | None = None, times: int = 3) -> None:
        """Writes several times what the tier holds, each object once."""
        await self.write(objects("scan/", times * CAPACITY // RECORD), pool)

    async def settle(self) -> None:
        for _ in range(6):
            await self.tier.settle()

    async def until_pinned(self, blocks: int) -> None:
        """Until so many blocks are pinned: each flush is a turn of the writer."""
        for _ in range(TURNS):
            if self.pinned == blocks:
                break
            await self.tier.flush()
        assert self.pinned == blocks

    @property
    def pinned(self) -> int:
        """How many blocks are pinned."""
        return round(sum(self.tier.pins.used_by().values()) / RECORD)

    async def kept(self, names: Iterable[ObjectName], etag: str = '"one"') -> int:
        """How many of the objects are hits, with their own bytes."""
        count = 0
        for name in names:
            if self.tier.head(name) is None:
                continue
            found = await read_block(self.tier, block_of(name, etag), SIZE)
            assert found is None or found == content_of(block_of(name, etag), SIZE)
            count += found is not None
        return count


@asynccontextmanager
async def opened(path: Path, pins: PinSet = NO_PINS, events: RecordedEvents | None = None) -> AsyncIterator[PinnedTier]:
    events = events if events is not None else RecordedEvents()
    tier = open_tier(path / "ssd", events, capacity=CAPACITY, options=FINE, pins=pins)
    try:
        yield PinnedTier(tier)
    finally:
        await tier.close()
    assert not [event for event in events if isinstance(event, TierFailed | CorruptionFound)]


@pytest.mark.parametrize(("pool", "times"), [(None, 10), (SHARE, 3), (BOUNDED, 3)], ids=["lru", "epoch", "quota"])
async def test_a_scan_leaves_what_is_pinned(tmp_path: Path, pool: Pool | None, times: int) -> None:
    kept = objects("a/", 40)
    async with opened(tmp_path, PinSet([A])) as pinned:
        await pinned.write(kept)
        await pinned.scan(pool, times=times)
        assert await pinned.kept(kept) == 40
        assert pinned.pinned == 40
    async with opened(tmp_path, PinSet([A])) as pinned:
        assert await pinned.kept(kept) == 40
        await pinned.scan(pool, times=1)
        assert await pinned.kept(kept) == 40


async def test_without_the_pin_a_scan_leaves_nothing(tmp_path: Path) -> None:
    kept = objects("a/", 40)
    async with opened(tmp_path) as pinned:
        await pinned.write(kept)
        await pinned.scan()
        assert await pinned.kept(kept) == 0


@pytest.mark.parametrize("pool", [None, SHARE], ids=["lru", "epoch"])
async def test_what_was_cached_before_is_pinned_as_well(tmp_path: Path, pool: Pool | None) -> None:
    kept = objects("a/", 40)
    async with opened(tmp_path) as pinned:
        await pinned.write(objects("b/", 40), pool)
        await pinned.write(kept, pool)
        pinned.tier.use_pins(PinSet([A]))
        await pinned.until_pinned(40)
        await pinned.scan(pool)
        assert await pinned.kept(kept) == 40


async def test_an_eviction_before_it_is_gathered_spares_it(tmp_path: Path) -> None:
    """Reclaim looks at each record itself."""
    kept = objects("a/", 40)
    async with opened(tmp_path) as pinned:
        await pinned.write(kept)
        for _ in range(20):  # each time all begins anew, and gets no further than a step or two
            pinned.tier.use_pins(PinSet([A]))
            await pinned.write(objects("scan/", 20))
        await pinned.scan()
        assert await pinned.kept(kept) == 40


async def test_unpinned_blocks_give_way(tmp_path: Path) -> None:
    kept = objects("a/", 40)
    async with opened(tmp_path, PinSet([A])) as pinned:
        await pinned.write(kept)
        pinned.tier.use_pins(NO_PINS)
        assert (pinned.pinned, await pinned.kept(kept)) == (0, 40)
        await pinned.scan()
        assert await pinned.kept(kept) == 0
        assert sum(pool.used for pool in pinned.tier.pools()) > CAPACITY // 2


async def test_of_two_that_overlap_the_other_one_keeps(tmp_path: Path) -> None:
    inner, outer = objects("a/b/", 20), objects("a/c/", 20)
    async with opened(tmp_path, PinSet([A_B])) as pinned:
        await pinned.write(inner)
        pinned.tier.use_pins(PinSet([A, A_B]))
        await pinned.write(outer)
        assert pinned.pinned == 40
        pinned.tier.use_pins(PinSet([A]))  # the blocks of the inner one become those of the outer
        await pinned.until_pinned(40)
        await pinned.scan()
        assert await pinned.kept([*inner, *outer]) == 40
        pinned.tier.use_pins(PinSet([A_B]))
        await pinned.until_pinned(20)
        await pinned.scan()
        assert (await pinned.kept(inner), await pinned.kept(outer)) == (20, 0)


async def test_more_than_the_quota_is_kept_as_other_blocks_are(tmp_path: Path) -> None:
    kept = objects("a/", 60)
    async with opened(tmp_path, PinSet([A], quota=30 * RECORD)) as pinned:
        await pinned.write(kept)
        assert pinned.pinned == 30
        assert pinned.tier.pins.is_over_quota(A)
        assert await pinned.kept(kept) == 60
        await pinned.scan()
        assert await pinned.kept(kept) == pinned.pinned
        pinned.tier.use_pins(PinSet([A], quota=50 * RECORD))
        await pinned.write(kept)
        await pinned.scan()
        assert await pinned.kept(kept) == pinned.pinned == 50


async def test_room_that_comes_free_is_used_again(tmp_path: Path) -> None:
    kept = objects("a/", 40)
    async with opened(tmp_path, PinSet([A], quota=30 * RECORD)) as pinned:
        await pinned.write(kept)
        assert pinned.tier.pins.is_over_quota(A)
        for name in [name for name in kept if pinned.pinned > 10]:
            await pinned.tier.forget(name)
        rest = [name for name in kept if pinned.tier.head(name) is not None]
        await pinned.until_pinned(len(rest))
        assert not pinned.tier.pins.is_over_quota(A)


async def test_replaced_versions_take_no_room(tmp_path: Path) -> None:
    kept = objects("a/", 40)
    async with opened(tmp_path, PinSet([A], quota=50 * RECORD)) as pinned:
        for etag in ('"one"', '"two"', '"three"', '"four"', '"five"'):
            for name in kept:
                await pinned.tier.forget(name)
            await pinned.write(kept, etag=etag)
            await pinned.scan(times=1)
            assert pinned.pinned == await pinned.kept(kept, etag) == 40
            assert not pinned.tier.pins.is_over_quota(A)


async def test_a_smaller_tier_keeps_what_it_can(tmp_path: Path) -> None:
    """What is pinned then has the quota of a tier of that size."""
    kept = objects("a/", 80)
    async with opened(tmp_path, PinSet([A])) as pinned:
        await pinned.write(kept)
        pinned.tier.resize(CAPACITY // 2)
        await pinned.scan()
        left = await pinned.kept(kept)
        assert left > 20
        assert left * RECORD <= DEFAULT_SHARE * CAPACITY // 2
        assert left == pinned.pinned
        assert pinned.tier.occupancy().used <= CAPACITY // 2


async def test_a_block_of_another_version_is_not_pinned(tmp_path: Path) -> None:
    """Nothing leads to it: its head names another one."""
    kept = objects("a/", 30)
    async with opened(tmp_path) as pinned:
        await pinned.write(kept, etag='"old"')
        for name in kept:
            pinned.tier.put_head(name, version(name, '"new"'))
        await pinned.tier.flush()
        pinned.tier.use_pins(PinSet([A]))
        await pinned.scan()
        assert pinned.pinned == 0

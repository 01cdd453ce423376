"""The tiers of one worker of several: blocks of other owners do not displace its own."""

from pathlib import Path
from typing import Any

import pytest

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span
from forebay.core.heads import Head
from forebay.core.names import BlockId, Generation, ObjectName
from forebay.policy.pools import Pool
from forebay.storage.journal.pending_objects import Deleted
from forebay.storage.memory.memory_tier import BLOCK_OVERHEAD, MemoryTier
from forebay.storage.ssd.recovery import SsdOptions
from forebay.storage.tier_contract import BUSY, MISS, Busy, Miss
from forebay.storage.tiers import Tiers
from harness.held_ssd import HeldSsd
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


class Disk(HeldSsd):
    """An SSD tier with blocks. `is_busy`: it reads none without waiting."""

    def __init__(self, *, is_busy: bool = False, admits: bool = True) -> None:
        super().__init__()
        self.blocks: dict[BlockId, Buffer] = {}
        self.is_busy = is_busy
        self.admits = admits
        self.waiting: Any = None
        """Called while a removal waits for the disk."""

    def has(self, block: BlockId) -> bool:
        return block in self.blocks

    def admit(self, block: BlockId, buffer: Any, pool: object = None, head: Head | None = None) -> bool:
        if self.admits:
            self.blocks[block] = buffer
        return self.admits

    def read_nowait(self, block: BlockId, length: int, within: Any) -> Any:
        if block not in self.blocks:
            return MISS
        return BUSY if self.is_busy else self.blocks[block][within.start : within.stop]

    async def read(self, block: BlockId, length: int, within: Span) -> Buffer | None:
        return self.blocks[block][within.start : within.stop] if block in self.blocks else None

    async def forget(self, name: ObjectName, keep: Generation | None = None) -> None:
        self.waiting()
        await super().forget(name, keep)

    async def forget_bucket(self, bucket: str) -> None:
        self.waiting()
        self.heads.clear()


class Pending:
    """A write that is pending of one object, of one block."""

    def __init__(self, name: ObjectName, head: Head | Deleted, content: Buffer | None = None) -> None:
        self.name, self.shown, self.content = name, head, content
        self.damaged = "a checksum"

    def head(self, name: ObjectName) -> Head | Deleted | None:
        return self.shown if name == self.name else None

    def has(self, block: BlockId) -> bool:
        return block.object == self.name and self.content is not None

    def damage(self, name: ObjectName, _generation: Generation) -> str | None:
        return self.damaged if name == self.name else None

    async def read(self, block: BlockId, within: Span) -> Buffer | None:
        if self.content is None:
            raise OSError("gone")
        return self.content[within.start : within.stop] if block.object == self.name else None


def over(disk: Disk | None = None, pending: Pending | None = None, memory: int = 1 << 20, **options: Any) -> Tiers:
    below: Any = disk
    writes: Any = pending
    return Tiers(MemoryTier(memory), below, pending=writes, **options)


def test_a_pending_write_hides_what_the_tiers_know() -> None:
    (name, old), (other, head) = head_for("a"), head_for("other")
    for shown, expected in ((head, head), (Deleted(), None)):
        tiers = over(Disk(), Pending(name, shown))
        for each in (name, other):
            tiers.put_head(each, old)
        assert (tiers.head(name), tiers.head(other)) == (expected, old)


def test_a_head_of_the_ssd_is_kept_in_memory() -> None:
    (name, head), (other, _) = head_for("a"), head_for("other")
    tiers = over(disk := Disk())
    disk.put_head(name, head)
    assert (tiers.head(name), tiers.memory.head(name)) == (head, head)
    newer = head.with_validation(head.validated_at + 1)
    tiers.memory.put_head(name, newer)
    assert tiers.head(name) == newer, "memory has the later one"
    assert (tiers.head(other), over().head(name)) == (None, None)


@pytest.mark.parametrize("owned", [False, True])
def test_only_the_owner_writes_a_head_to_the_ssd(owned: bool) -> None:
    name, head = head_for("a")
    tiers = over(disk := Disk(), owns=lambda _: owned)
    tiers.put_head(name, head)
    assert (tiers.memory.head(name), disk.head(name)) == (head, head if owned else None)
    tiers.admit(block_id("a"), content_of(block_id("a"), SIZE))
    assert disk.has(block_id("a")) == owned
    tiers.put_object(name, head, block_id("a", 1), content_of(block_id("a", 1), SIZE))
    assert disk.has(block_id("a", 1)) == owned
    memory_only = over(owns=lambda _: owned)
    memory_only.put_head(name, head)
    memory_only.admit(block_id("a"), content_of(block_id("a"), SIZE))
    assert (memory_only.memory.head(name), memory_only.has(block_id("a"))) == (head, True)


@pytest.mark.parametrize("source", ["ready", "busy", "pending"])
@pytest.mark.parametrize("within", [Span(0, SIZE), Span(0, 10), Span(SIZE - 10, SIZE)])
async def test_only_a_block_read_whole_is_promoted(within: Span, source: str) -> None:
    block, whole = block_id("a"), content_of(block_id("a"), SIZE)
    disk = Disk(is_busy=source == "busy")
    if source != "pending":
        disk.admit(block, whole)
    tiers = over(disk, Pending(block.object, head_for("a")[1], whole) if source == "pending" else None)
    found = tiers.read_nowait(block, SIZE, within)
    assert isinstance(found, Busy) == (source != "ready")
    for _ in range(2):
        assert await tiers.read(block, SIZE, within) == whole[within.start : within.stop]
    assert tiers.has_in_memory(block) == (within == (0, SIZE))
    assert not tiers.has_in_memory(block) or tiers.memory.get(block) == whole


async def test_what_no_tier_has_is_a_miss() -> None:
    block, other = block_id("a"), block_id("other")
    for tiers in (over(), over(Disk()), over(None, Pending(block.object, Deleted()))):
        assert isinstance(tiers.read_nowait(block, SIZE, Span(0, SIZE)), Miss)
        assert await tiers.read(block, SIZE, Span(0, SIZE)) is None
        assert not tiers.has(block)
    pending = over(Disk(), Pending(block.object, Deleted(), content_of(block, SIZE)))
    assert (pending.has(block), pending.has(other), pending.has_in_memory(block)) == (True, False, False)
    assert isinstance(pending.read_nowait(other, SIZE, Span(0, SIZE)), Miss)
    assert (pending.damage(block.object, block.generation), over().damage(block.object, block.generation)) == (
        "a checksum",
        None,
    )


async def test_a_block_that_is_not_admissible_is_read_and_not_promoted() -> None:
    for is_busy in (False, True):
        tiers = over(disk := Disk(is_busy=is_busy), memory=SIZE + BLOCK_OVERHEAD)
        tiers.memory.admit(block_id("hot"), content_of(block_id("hot"), SIZE))
        disk.admit(block_id("a"), whole := content_of(block_id("a"), SIZE))
        assert await tiers.read(block_id("a"), SIZE, Span(0, SIZE)) == whole
        assert (tiers.has_in_memory(block_id("a")), tiers.has_in_memory(block_id("hot"))) == (False, True)


@pytest.mark.parametrize("by_bucket", [False, True])
async def test_a_head_copied_while_it_is_forgotten_is_not_left(by_bucket: bool) -> None:
    name, head = head_for("a")
    tiers = over(disk := Disk())
    tiers.put_object(name, head, block_id("a"), content_of(block_id("a"), SIZE))
    disk.put_head(name, head)

    def copy() -> None:
        assert tiers.memory.head(name) is None
        assert tiers.head(name) == head, "the SSD has it still"

    disk.waiting = copy
    await (tiers.forget_bucket(name.bucket) if by_bucket else tiers.forget(name))
    assert (tiers.head(name), tiers.memory.head(name), tiers.has_in_memory(block_id("a"))) == (None, None, False)
    without = over()
    without.put_head(name, head)
    await (without.forget_bucket(name.bucket) if by_bucket else without.forget(name))
    assert without.head(name) is None


STABLE = Pool("stable", "epoch", None)
RECENT = Pool("recent", "lru", None)


@pytest.mark.parametrize("pool", [STABLE, RECENT, None])
@pytest.mark.parametrize("admits", [False, True])
@pytest.mark.parametrize("owned", [False, True])
def test_memory_shares_what_the_ssd_does_not_have_of_a_stable_share(
    pool: Pool | None, admits: bool, owned: bool
) -> None:
    name, head = head_for("a")
    disk = Disk(admits=admits)
    tiers = over(disk, owns=lambda _: owned, pool_of=lambda _: pool)
    tiers.put_object(name, head, block_id("a"), content_of(block_id("a"), SIZE))
    tiers.stage(block_id("b"), content_of(block_id("b"), SIZE))
    tiers.stage(block_id("part\0"), content_of(block_id("part\0"), SIZE))
    assert [tiers.has_in_memory(block_id(key)) for key in ("a", "b", "part\0")] == [True] * 3
    assert [disk.has(block_id(key)) for key in ("a", "b", "part\0")] == [admits and owned, admits, admits]
    shared = [] if pool is not STABLE or admits else [block_id("b")] if not owned else [block_id("a"), block_id("b")]
    assert tiers.memory.pooled.share_of(STABLE).used == len(shared) * (SIZE + BLOCK_OVERHEAD)
    assert pool is STABLE or tiers.memory.pooled.used == 0
    assert (tiers.memory.head(name), disk.head(name)) == (head, head if owned and (pool or not admits) else None)


async def test_a_block_of_a_stable_share_on_the_ssd_passes_through_memory() -> None:
    for pool in (STABLE, RECENT):
        tiers = over(disk := Disk(), pool_of=lambda _, pool=pool: pool)
        disk.admit(block_id("a"), whole := content_of(block_id("a"), SIZE))
        assert await tiers.read(block_id("a"), SIZE, Span(0, SIZE)) == whole
        assert tiers.has_in_memory(block_id("a"))
        assert (tiers.memory.pooled.share_of(STABLE).used, tiers.memory.pooled.used > 0) == (0, pool is STABLE)


def test_a_head_of_another_owner_is_kept_where_its_block_is_not() -> None:
    tiers = over(None, memory=3 * (SIZE + BLOCK_OVERHEAD), owns=lambda name: name.key == "ours")
    for number in range(2):
        tiers.admit(block_id("ours", number), content_of(block_id("ours", number), SIZE))
    name, head = head_for("theirs")
    tiers.put_object(name, head, block_id("theirs"), content_of(block_id("theirs"), SIZE + 500))
    assert (tiers.memory.head(name), tiers.has(block_id("theirs")), tiers.has(block_id("ours"))) == (head, False, True)
    own = block_id("ours", 2)
    tiers.put_object(own.object, head, own, content_of(own, SIZE + 500))
    assert tiers.has(own), "it displaces others"

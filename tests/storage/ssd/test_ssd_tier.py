import asyncio
import errno
import os
from pathlib import Path

import pytest

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span
from forebay.core.errors import SsdUnusable
from forebay.core.events import AdmissionThrottled, BlocksAdmitted, BlocksEvicted, CorruptionFound, TierFailed
from forebay.core.names import BlockId, Generation, ObjectName
from forebay.storage.ssd.recovery import SsdOptions
from forebay.storage.ssd.segments.record import SLICE, header_size
from forebay.storage.tier_contract import Busy, Miss
from harness.file_calls import FileCalls
from harness.journal_points import FailOnce
from harness.ssd_rig import (
    MIB,
    NOW,
    RecordedEvents,
    block_id,
    commit_blocks,
    content_of,
    drop_page_cache,
    head_for,
    open_tier,
    read_block,
    wait_for_reclaim,
)


async def test_a_block_is_what_was_admitted_and_nothing_else_is(tmp_path: Path) -> None:
    tier = open_tier(tmp_path / "ssd")
    await commit_blocks(tier, (block_id("a"), 5000))
    assert await read_block(tier, block_id("a"), 5000) == content_of(block_id("a"), 5000)
    assert await tier.read(block_id("a"), 5000, Span(0, 5000)) == content_of(block_id("a"), 5000)
    assert tier.has(block_id("a"))
    for other in (block_id("b"), block_id("a", 1), block_id("a", 0, 2), block_id("a", bucket="other")):
        assert await read_block(tier, other, 5000) is None
        assert await tier.read(other, 5000, Span(0, 5000)) is None
        assert not tier.has(other)
    await tier.close()


@pytest.mark.parametrize("length", [1, 4096, SLICE, SLICE + 1, MIB, 3 * SLICE - 1])
async def test_any_range_of_a_block_can_be_read(tmp_path: Path, length: int) -> None:
    tier = open_tier(tmp_path / "ssd")
    await commit_blocks(tier, (block_id("a"), length))
    whole = content_of(block_id("a"), length)
    cuts = sorted({0, 1, SLICE - 1, SLICE, SLICE + 1, 2 * SLICE, length // 2, length - 1, length})
    for start in cuts:
        for stop in cuts:
            if start < stop <= length:
                assert await read_block(tier, block_id("a"), length, Span(start, stop)) == whole[start:stop]
                assert await tier.read(block_id("a"), length, Span(start, stop)) == whole[start:stop]
    for span in (Span(0, 0), Span(0, length + 1), Span(2, 1), Span(-1, 1)):
        assert await read_block(tier, block_id("a"), length, span) is None
    await tier.close()


async def test_a_returned_buffer_is_read_only(tmp_path: Path) -> None:
    tier = open_tier(tmp_path / "ssd")
    await commit_blocks(tier, (block_id("a"), 100))
    found = await read_block(tier, block_id("a"), 100)
    assert found is not None
    assert found.readonly
    await tier.close()


async def test_a_range_of_a_large_block_does_not_read_the_block(tmp_path: Path) -> None:
    tier = open_tier(tmp_path / "ssd")
    await commit_blocks(tier, (block_id("a"), MIB))
    (segment,) = (tmp_path / "ssd" / "segments").iterdir()
    with segment.open("r+b") as file:
        file.seek(header_size(MIB) + 5 * SLICE)
        file.write(b"damaged!")
    assert await read_block(tier, block_id("a"), MIB, Span(4 * SLICE, 5 * SLICE)) is not None
    assert await read_block(tier, block_id("a"), MIB, Span(5 * SLICE, 5 * SLICE + 1)) is None
    await tier.close()


async def test_bytes_outside_the_page_cache_are_busy(tmp_path: Path) -> None:
    tier = open_tier(tmp_path / "ssd")
    await commit_blocks(tier, (block_id("a"), MIB))
    (segment,) = (tmp_path / "ssd" / "segments").iterdir()
    drop_page_cache(segment)
    found = tier.read_nowait(block_id("a"), MIB, Span(0, MIB))
    if not isinstance(found, Busy):
        pytest.skip("this file system lives in memory")
    assert await tier.read(block_id("a"), MIB, Span(0, MIB)) == content_of(block_id("a"), MIB)
    assert await read_block(tier, block_id("a"), MIB) == content_of(block_id("a"), MIB)
    await tier.close()


async def test_a_block_half_in_the_page_cache_is_not_corrupt(tmp_path: Path) -> None:
    heard = RecordedEvents()
    tier = open_tier(tmp_path / "ssd", heard)
    await commit_blocks(tier, (block_id("a"), MIB))
    (segment,) = (tmp_path / "ssd" / "segments").iterdir()
    with segment.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)  # else the kernel reads ahead
        os.pread(file.fileno(), MIB // 2, 0)
    if not isinstance(tier.read_nowait(block_id("a"), MIB, Span(0, MIB)), Busy):
        pytest.skip("this file system lives in memory")
    assert heard.of(CorruptionFound) == []
    assert await read_block(tier, block_id("a"), MIB) == content_of(block_id("a"), MIB)
    await tier.close()


@pytest.mark.parametrize("at", [0, 4, 8, 12, 28, 36, 40, 48, 56 - 1, 56, 1000, 4999 + 56])
async def test_damage_in_a_record_is_a_miss_and_drops_the_block(tmp_path: Path, at: int) -> None:
    heard = RecordedEvents()
    tier = open_tier(tmp_path / "ssd", heard)
    await commit_blocks(tier, (block_id("a"), 5000))
    (segment,) = (tmp_path / "ssd" / "segments").iterdir()
    content = bytearray(segment.read_bytes())
    content[at] ^= 0x10
    segment.write_bytes(content)
    assert await read_block(tier, block_id("a"), 5000) is None
    assert len(heard.of(CorruptionFound)) == 1
    await tier.flush()
    assert not tier.has(block_id("a"))
    await commit_blocks(tier, (block_id("a"), 5000))
    assert await read_block(tier, block_id("a"), 5000) == content_of(block_id("a"), 5000)
    await tier.close()


async def test_a_damaged_block_is_replaced_by_the_next_admission(tmp_path: Path) -> None:
    tier = open_tier(tmp_path / "ssd")
    await commit_blocks(tier, (block_id("a"), 5000))
    (segment,) = (tmp_path / "ssd" / "segments").iterdir()
    content = bytearray(segment.read_bytes())
    content[1000] ^= 0x10
    segment.write_bytes(content)
    # In one go, so that the drop and the admission that replaces it are in one batch.
    assert await read_block(tier, block_id("a"), 5000) is None
    await commit_blocks(tier, (block_id("a"), 5000))
    assert await read_block(tier, block_id("a"), 5000) == content_of(block_id("a"), 5000)
    await tier.close()


async def test_a_segment_that_ends_early_is_a_miss(tmp_path: Path) -> None:
    heard = RecordedEvents()
    tier = open_tier(tmp_path / "ssd", heard)
    await commit_blocks(tier, (block_id("a"), 5000))
    (segment,) = (tmp_path / "ssd" / "segments").iterdir()
    os.truncate(segment, 1000)
    assert await tier.read(block_id("a"), 5000, Span(0, 5000)) is None
    assert heard.of(CorruptionFound)
    await tier.flush()
    assert not tier.has(block_id("a"))
    await tier.close()


async def test_a_segment_that_is_gone_is_a_miss(tmp_path: Path) -> None:
    tier = open_tier(tmp_path / "ssd")
    await commit_blocks(tier, (block_id("a"), 5000))
    (segment,) = (tmp_path / "ssd" / "segments").iterdir()
    segment.unlink()
    assert await read_block(tier, block_id("a"), 5000) is None
    await tier.flush()
    assert not tier.has(block_id("a"))
    await tier.close()


async def test_a_block_of_another_length_than_expected_is_a_miss(tmp_path: Path) -> None:
    heard = RecordedEvents()
    tier = open_tier(tmp_path / "ssd", heard)
    await commit_blocks(tier, (block_id("a"), 5000))
    assert await read_block(tier, block_id("a"), 4999) is None
    assert heard.of(CorruptionFound)
    await tier.close()


async def test_admitted_twice_it_is_written_once(tmp_path: Path) -> None:
    heard = RecordedEvents()
    tier = open_tier(tmp_path / "ssd", heard)
    await commit_blocks(tier, (block_id("a"), 5000), (block_id("a"), 5000))
    await commit_blocks(tier, (block_id("a"), 5000))
    assert [event.blocks for event in heard.of(BlocksAdmitted)] == [1]
    assert tier.occupancy().blocks == 1
    await tier.close()


@pytest.mark.parametrize(
    ("block", "length"),
    [
        (block_id("a"), 0),
        (block_id("a"), 16 * MIB),
        (BlockId(ObjectName("b", "k"), Generation(b"short"), 0), 10),
    ],
)
async def test_blocks_that_do_not_fit_are_refused(tmp_path: Path, block: BlockId, length: int) -> None:
    tier = open_tier(tmp_path / "ssd")
    assert not tier.admit(block, memoryview(bytes(length)))
    await tier.close()


async def test_a_tier_of_few_blocks_gives_hits(tmp_path: Path) -> None:
    """Blocks are larger than a ninth of it, which would be a segment."""
    tier = open_tier(tmp_path / "ssd", capacity=8 * MIB)
    for number in range(20):
        await commit_blocks(tier, (block_id("a", number), MIB))
    assert await read_block(tier, block_id("a", 19), MIB) == content_of(block_id("a", 19), MIB)
    assert tier.occupancy().blocks >= 4
    await tier.close()


async def test_a_full_queue_throttles_admissions(tmp_path: Path) -> None:
    heard = RecordedEvents()
    tier = open_tier(tmp_path / "ssd", heard, options=SsdOptions(queue_bytes=10_000))
    kept = [tier.admit(block_id("a", number), memoryview(bytes(4000))) for number in range(3)]
    assert kept == [True, True, False]
    assert heard.of(AdmissionThrottled) == [AdmissionThrottled("ssd", 4000)]
    await tier.close()


async def test_heads_are_kept_and_replaced(tmp_path: Path) -> None:
    tier = open_tier(tmp_path / "ssd")
    name, head = head_for("a")
    assert tier.head(name) is None
    tier.put_head(name, head)
    await tier.flush()
    assert tier.head(name) == head
    newer = head_for("a", '"two"', NOW + 1)[1]
    tier.put_head(name, newer)
    await tier.flush()
    assert tier.head(name) == newer
    assert tier.head(ObjectName("bucket", "b")) is None
    await tier.close()


async def test_forget_removes_the_head_and_blocks_of_one_object(tmp_path: Path) -> None:
    tier = open_tier(tmp_path / "ssd")
    for key in "ab":
        tier.put_head(*head_for(key))
        await commit_blocks(tier, *((block_id(key, number), 100) for number in range(5)))
    await tier.forget(ObjectName("bucket", "a"))
    assert tier.head(ObjectName("bucket", "a")) is None
    assert not any(tier.has(block_id("a", number)) for number in range(5))
    assert tier.head(ObjectName("bucket", "b")) is not None
    assert await read_block(tier, block_id("b", 4), 100) is not None
    await tier.close()


async def test_forget_removes_a_head_that_was_just_put(tmp_path: Path) -> None:
    tier = open_tier(tmp_path / "ssd")
    tier.put_head(*head_for("a"))
    tier.admit(block_id("a"), content_of(block_id("a"), 100))
    await tier.forget(ObjectName("bucket", "a"))
    await tier.flush()
    assert tier.head(ObjectName("bucket", "a")) is None
    assert not tier.has(block_id("a"))
    await tier.close()


async def test_a_head_put_after_forget_stays(tmp_path: Path) -> None:
    tier = open_tier(tmp_path / "ssd")
    tier.put_head(*head_for("a"))
    async with asyncio.TaskGroup() as group:
        group.create_task(tier.forget(ObjectName("bucket", "a")))
        await asyncio.sleep(0)
        tier.put_head(*head_for("a", '"two"'))
    await tier.flush()
    assert tier.head(ObjectName("bucket", "a")) == head_for("a", '"two"')[1]
    await tier.close()


async def test_a_cancelled_forget_is_carried_out_all_the_same(tmp_path: Path) -> None:
    tier = open_tier(tmp_path / "ssd")
    tier.put_head(*head_for("a"))
    async with asyncio.TaskGroup() as group:
        forgetting = group.create_task(tier.forget(ObjectName("bucket", "a")))
        await asyncio.sleep(0)
        forgetting.cancel()
    await tier.flush()
    assert tier.head(ObjectName("bucket", "a")) is None
    await tier.close()


async def test_forgetting_an_unknown_object_does_not_wait(tmp_path: Path) -> None:
    tier = open_tier(tmp_path / "ssd")
    tier.put_head(*head_for("other"))
    forgetting = tier.forget(ObjectName("bucket", "new"))
    with pytest.raises(StopIteration):  # it ran to its end without a turn of the loop
        forgetting.send(None)
    await tier.close()


async def test_forget_can_spare_a_generation_that_was_staged(tmp_path: Path) -> None:
    tier = open_tier(tmp_path / "ssd")
    tier.put_head(*head_for("a"))
    await commit_blocks(tier, (block_id("a", 0, 1), 100), (block_id("a", 0, 2), 100))
    await tier.forget(ObjectName("bucket", "a"), keep=block_id("a", 0, 2).generation)
    assert tier.head(ObjectName("bucket", "a")) is None
    assert not tier.has(block_id("a", 0, 1))
    assert await read_block(tier, block_id("a", 0, 2), 100) is not None
    await tier.close()


async def test_forget_removes_an_object_of_very_many_blocks(tmp_path: Path) -> None:
    tier = open_tier(tmp_path / "ssd")
    await commit_blocks(tier, *((block_id("a", number), 8) for number in range(2500)))
    assert tier.occupancy().blocks == 2500
    await tier.forget(ObjectName("bucket", "a"))
    assert tier.occupancy().blocks == 0
    await tier.close()


async def test_purge_and_forget_bucket(tmp_path: Path) -> None:
    tier = open_tier(tmp_path / "ssd")
    for bucket in ("bucket", "bucket2"):
        for key in ("x/1", "x/2", "y/1", "x" * 500 + "1", "x" * 500 + "2"):
            tier.put_head(*head_for(key, bucket=bucket))
            await commit_blocks(tier, (block_id(key, bucket=bucket), 10))
    assert await tier.purge("bucket", "x/") == 2
    assert await tier.purge("bucket", "x" * 500 + "1") == 1
    assert not tier.has(block_id("x/1"))
    assert tier.has(block_id("y/1"))
    assert tier.has(block_id("x" * 500 + "2"))
    await tier.forget_bucket("bucket")
    assert tier.occupancy().blocks == tier.occupancy().heads == 5
    await tier.close()


async def test_listing_and_what_is_cached(tmp_path: Path) -> None:
    tier = open_tier(tmp_path / "ssd")
    name, head = head_for("x/1")
    tier.put_head(name, head)
    tier.put_head(*head_for("x/2"))
    await commit_blocks(tier, (BlockId(name, head.generation, 0), 4096), (BlockId(name, head.generation, 2), 1808))
    await commit_blocks(tier, (block_id("x/1", 1, 77), 100))
    assert await tier.cached_bytes(name, head) == 4096 + 1808
    listed = await tier.listing("bucket", "x/", limit=1)
    assert [(each.name, each.head, each.cached) for each in listed] == [(name, head, 4096 + 1808)]
    rest = await tier.listing("bucket", "x/", listed[0].cursor)
    assert [each.name.key for each in rest] == ["x/2"]
    assert await tier.listing("bucket", "x/", rest[0].cursor) == []
    await tier.close()


async def test_the_tier_never_exceeds_its_capacity(tmp_path: Path) -> None:
    heard = RecordedEvents()
    tier = open_tier(tmp_path / "ssd", heard, capacity=4 * MIB)
    for number in range(300):
        await commit_blocks(tier, (block_id(f"key-{number}"), 50_000))
        assert tier.occupancy().used <= 4 * MIB
    assert heard.of(BlocksEvicted)
    assert await read_block(tier, block_id("key-299"), 50_000) is not None
    assert await read_block(tier, block_id("key-0"), 50_000) is None
    assert tier.occupancy().blocks >= 30
    assert not heard.of(TierFailed)
    await tier.close()  # from here on nothing is reclaimed
    assert sum(file.stat().st_size for file in (tmp_path / "ssd" / "segments").iterdir()) <= 4 * MIB


async def test_referenced_blocks_survive_reclaim_and_others_do_not(tmp_path: Path) -> None:
    tier = open_tier(tmp_path / "ssd", capacity=4 * MIB)
    hot = [block_id("hot", number) for number in range(5)]
    cold = [block_id("cold", number) for number in range(5)]
    await commit_blocks(tier, *((block, 20_000) for block in [*hot, *cold]))
    for number in range(300):
        for block in hot:
            assert await read_block(tier, block, 20_000) == content_of(block, 20_000)
        await commit_blocks(tier, (block_id(f"key-{number}"), 50_000))
    assert not any(tier.has(block) for block in cold)
    await tier.close()


async def test_a_full_tier_makes_room_for_a_burst(tmp_path: Path) -> None:
    heard = RecordedEvents()
    tier = open_tier(tmp_path / "ssd", heard, capacity=4 * MIB)
    for burst in range(20):
        await commit_blocks(tier, *((block_id(f"burst-{burst}", number), 50_000) for number in range(20)))
    assert not heard.of(AdmissionThrottled)
    await tier.close()


async def test_reclaim_makes_progress_when_everything_is_used(tmp_path: Path) -> None:
    tier = open_tier(tmp_path / "ssd", capacity=4 * MIB)
    for number in range(200):
        await commit_blocks(tier, (block_id("key", number), 50_000))
        for earlier in range(number):
            await read_block(tier, block_id("key", earlier), 50_000)
        assert tier.occupancy().used <= 4 * MIB
    assert await read_block(tier, block_id("key", 199), 50_000) is not None
    await tier.close()


async def test_reclaim_does_not_rewrite_damage(tmp_path: Path) -> None:
    heard = RecordedEvents()
    tier = open_tier(tmp_path / "ssd", heard, capacity=4 * MIB)
    await commit_blocks(tier, (block_id("hot"), 20_000))
    assert await read_block(tier, block_id("hot"), 20_000) is not None
    (segment,) = (tmp_path / "ssd" / "segments").iterdir()
    with segment.open("r+b") as file:
        file.seek(10_000)
        file.write(b"damaged!")
    for number in range(150):
        await commit_blocks(tier, (block_id(f"key-{number}"), 50_000))
    assert heard.of(CorruptionFound)
    assert not tier.has(block_id("hot"))
    await tier.close()


async def test_heads_go_with_their_last_block(tmp_path: Path) -> None:
    tier = open_tier(tmp_path / "ssd", capacity=4 * MIB)
    for number in range(300):
        tier.put_head(*head_for(f"key-{number}"))
        await commit_blocks(tier, (block_id(f"key-{number}"), 50_000))
    occupancy = tier.occupancy()
    assert occupancy.heads <= occupancy.blocks + 30
    assert tier.head(ObjectName("bucket", "key-0")) is None
    assert tier.head(ObjectName("bucket", "key-299")) is not None
    await tier.close()


async def test_heads_without_blocks_are_bounded(tmp_path: Path) -> None:
    tier = open_tier(tmp_path / "ssd", capacity=2 * MIB)
    await commit_blocks(tier, (block_id("with a block"), 100))
    tier.put_head(*head_for("with a block"))
    for number in range(5000):
        tier.put_head(*head_for(f"key-{number}"))
        if number % 100 == 0:
            await tier.flush()
    for _ in range(20):
        await tier.flush()
    assert tier.occupancy().heads < 2500
    assert tier.occupancy().used <= 2 * MIB
    assert tier.head(ObjectName("bucket", "with a block")) is not None
    await tier.close()


async def test_growing_is_at_once_and_shrinking_in_the_background(tmp_path: Path) -> None:
    heard = RecordedEvents()
    tier = open_tier(tmp_path / "ssd", heard, capacity=4 * MIB)
    tier.resize(16 * MIB)
    await commit_blocks(tier, *((block_id("a", number), 50_000) for number in range(70)))
    await commit_blocks(tier, *((block_id("b", number), 50_000) for number in range(70)))
    assert tier.occupancy().blocks == 140
    assert not heard.of(BlocksEvicted)
    tier.resize(3 * MIB)
    await wait_for_reclaim(tier, 3 * MIB)
    assert tier.occupancy().capacity == 3 * MIB
    assert "resize" in {event.reason for event in heard.of(BlocksEvicted)}
    await commit_blocks(tier, (block_id("c"), 50_000))
    assert await read_block(tier, block_id("c"), 50_000) == content_of(block_id("c"), 50_000)
    await tier.close()


async def test_a_reader_finishes_a_reclaimed_block(tmp_path: Path) -> None:
    tier = open_tier(tmp_path / "ssd", capacity=4 * MIB)
    await commit_blocks(tier, (block_id("a"), 50_000))
    reads: list[asyncio.Task[Buffer | None]] = []
    async with asyncio.TaskGroup() as group:
        for number in range(150):
            reads.append(group.create_task(tier.read(block_id("a"), 50_000, Span(0, 50_000))))
            await commit_blocks(tier, (block_id(f"key-{number}"), 50_000))
    expected = content_of(block_id("a"), 50_000)
    assert all(read.result() is None or read.result() == expected for read in reads)
    assert reads[0].result() == expected
    await tier.close()


async def test_a_closed_tier_returns_and_admits_nothing(tmp_path: Path) -> None:
    tier = open_tier(tmp_path / "ssd")
    await commit_blocks(tier, (block_id("a"), 100))
    await tier.close()
    await tier.close()
    assert isinstance(tier.read_nowait(block_id("a"), 100, Span(0, 100)), Miss)
    assert await tier.read(block_id("a"), 100, Span(0, 100)) is None
    assert not tier.admit(block_id("b"), content_of(block_id("b"), 100))
    assert not tier.has(block_id("a"))
    tier.put_head(*head_for("a"))
    await tier.forget(ObjectName("bucket", "a"))
    await tier.flush()
    assert await tier.purge("bucket", "") == 0
    assert await tier.listing("bucket", "") == []
    assert tier.occupancy().blocks == 0


async def test_the_queue_is_written_at_the_close(tmp_path: Path) -> None:
    tier = open_tier(tmp_path / "ssd")
    tier.admit(block_id("a"), content_of(block_id("a"), 100))
    await tier.close()
    tier = open_tier(tmp_path / "ssd")
    assert await read_block(tier, block_id("a"), 100) is not None
    await tier.close()


async def test_settling_leaves_what_lasts(tmp_path: Path) -> None:
    tier = open_tier(tmp_path / "ssd", capacity=4 * MIB)
    for number in range(64):
        block = block_id("key", number)
        tier.admit(block, content_of(block, 128 * 1024))
        await tier.flush()
    await tier.settle()
    assert tier.occupancy().used <= tier.lasting_capacity < 4 * MIB
    kept = [number for number in range(64) if tier.has(block_id("key", number))]
    await tier.settle()
    assert [number for number in range(64) if tier.has(block_id("key", number))] == kept
    assert 0 < len(kept) < 64
    await tier.close()


async def test_a_head_admitted_with_its_block_lasts_as_it_does(tmp_path: Path) -> None:
    tier = open_tier(tmp_path / "ssd")
    (a, head), (b, _) = head_for("a"), head_for("b")
    for key in "ab":
        assert tier.admit(block_id(key), content_of(block_id(key), 5000), None, head)
    await tier.forget(b)
    assert tier.admit(block_id("a"), content_of(block_id("a"), 5000), None, later := head.with_validation(NOW + 60))
    await tier.close()
    tier = open_tier(tmp_path / "ssd", now=NOW + 60)
    assert tier.head(a) == later, "also where the block was there already"
    assert await read_block(tier, block_id("a"), 5000) == content_of(block_id("a"), 5000)
    assert tier.head(b) is None
    assert not tier.has(block_id("b"))
    assert [stored.name for stored in await tier.listing("bucket", "")] == [a]
    await tier.close()


async def test_a_head_is_written_though_its_block_is_not(tmp_path: Path) -> None:
    tier = open_tier(tmp_path / "ssd", heard := RecordedEvents(), capacity=2 * MIB)
    wanted = [block_id(f"{number}") for number in range(40)]
    heads = [head_for(block.object.key) for block in wanted]
    for block, (_, head) in zip(wanted, heads, strict=True):
        tier.admit(block, content_of(block, MIB // 16), None, head)
    await tier.flush()
    assert heard.of(AdmissionThrottled), "a batch turns over a share of a small tier only"
    assert [tier.head(name) for name, _ in heads] == [head for _, head in heads]
    await tier.close()


async def test_any_call_may_fail_while_a_tier_opens(tmp_path: Path) -> None:
    """The tier can't be used, at the worst, and is there once the call succeeds."""
    path, block, length, calls = tmp_path / "ssd", block_id("k"), 1000, list[str]()
    tier = open_tier(path)
    await commit_blocks(tier, (block, length))
    await tier.close()
    with FileCalls(calls.append).watched():
        tier = open_tier(path)
    await tier.close()
    unusable = 0
    for nth in range(sum(call.startswith("before") for call in calls)):
        with FileCalls(FailOnce(None, nth, errno.EIO)).watched():
            try:
                tier = open_tier(path)
            except SsdUnusable:
                unusable += 1
                continue
        await tier.close()
    assert unusable > 5
    tier = open_tier(path)
    assert await read_block(tier, block, length) == content_of(block, length)
    await tier.close()

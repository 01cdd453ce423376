"""A file system that is really full. Needs the right to mount one."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.core.events import TierFailed
from forebay.core.names import ObjectName
from harness.ssd_rig import MIB, RecordedEvents, block_id, commit_blocks, content_of, head_for, open_tier, read_block


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "disk"
    path.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(path)],
        check=False,
        capture_output=True,
    )
    if done.returncode != 0:
        pytest.skip("may not mount")
    try:
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True)


async def test_a_disk_smaller_than_a_segment_gives_hits(small_disk: Path) -> None:
    heard = RecordedEvents()
    tier = open_tier(small_disk / "ssd", heard, capacity=64 * 1024 * MIB)
    for number in range(60):
        await commit_blocks(tier, (block_id("key", number), 500_000))
    assert not heard.of(TierFailed)
    assert tier.usable < 12 * MIB
    hits = 0
    for number in range(60):
        block = block_id("key", number)
        found = await read_block(tier, block, 500_000)
        assert found is None or found == content_of(block, 500_000)
        hits += found is not None
    assert hits >= 12  # half of the disk
    tier.put_head(*head_for("a"))
    await tier.forget(ObjectName("bucket", "a"))
    assert tier.head(ObjectName("bucket", "a")) is None
    await tier.close()
    tier = open_tier(small_disk / "ssd", capacity=64 * MIB)
    await commit_blocks(tier, (block_id("after"), 1000))
    await tier.close()


async def test_a_disk_that_is_full_from_the_start(small_disk: Path) -> None:
    with (small_disk / "ballast").open("wb") as ballast:
        ballast.write(bytes(11 * MIB + MIB // 2))
    heard = RecordedEvents()
    tier = open_tier(small_disk / "ssd", heard, capacity=64 * MIB)
    for number in range(10):
        tier.admit(block_id("key", number), content_of(block_id("key", number), 500_000))
        tier.put_head(*head_for(f"key-{number}"))
    await tier.flush()
    assert heard.of(TierFailed)
    await tier.forget(ObjectName("bucket", "key-1"))
    assert tier.head(ObjectName("bucket", "key-1")) is None
    await tier.close()

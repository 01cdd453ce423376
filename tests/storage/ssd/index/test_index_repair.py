"""Generated damages of a real index, each opened by a process of its own, and by this one."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from forebay.core.events import TierFailed
from forebay.core.names import ObjectName
from forebay.storage.ssd.index.lmdb_file import LmdbFile
from forebay.storage.ssd.ssd_tier import SsdTier
from harness.damaged_index import (
    BLOCKS,
    KEYS,
    KINDS,
    LENGTH,
    MOST_ROWS,
    copy_damaged,
    fill_directory,
    serve_damaged,
    serve_in_processes,
)
from harness.index_pages import PAGE, IndexPages
from harness.ssd_rig import NOW, RecordedEvents, block_id, head_for, open_tier, read_block, spawn_program

ALL = len(KEYS) * BLOCKS
FOUND_ALWAYS = {"swapped pages", "zeroed page", "truncated", "flipped meta", "copied page"}


@pytest.fixture(scope="module")
def workspace() -> Iterator[Path]:
    """A folder in memory where there is one: hundreds of directories are synced."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as path:
        yield Path(path)


@pytest.fixture(scope="module")
def whole(workspace: Path) -> Path:
    asyncio.run(fill_directory(workspace / "whole"))
    return workspace / "whole"


@pytest.fixture
def path(whole: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whole, tmp_path / "ssd")


def assert_served(report: dict[str, Any], kind: str) -> None:
    assert report["wrong"] == 0, report
    assert not report["off"], report
    assert report["forgotten"], report
    assert not [reason for reason in report["reasons"] if "discarded" in reason], report
    is_rebuilt = any("rebuilt" in reason for reason in report["reasons"])
    assert report["trusted"] == (0 if is_rebuilt else report["heads"]), report
    least = ALL if kind in FOUND_ALWAYS or is_rebuilt else ALL - MOST_ROWS
    assert report["found"] >= least, report


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.long) for part in range(1, 6))])
def test_no_damage_ends_the_process_or_loses_a_block(whole: Path, workspace: Path, part: int) -> None:
    size = 5 * len(KINDS)
    reports = serve_in_processes(whole, workspace, range(part * size, (part + 1) * size))
    assert len(reports) == size
    for report in reports:
        assert report["status"] == 0, report
        assert "raised" not in report, report["raised"]
        assert_served(report, report["kind"])


@pytest.mark.parametrize("seed", range(1000, 1000 + len(KINDS)))
async def test_damage_is_survived_in_this_process(whole: Path, workspace: Path, seed: int) -> None:
    kind = copy_damaged(whole, workspace / f"copy-{seed}", seed)
    assert_served(await serve_damaged(workspace / f"copy-{seed}"), kind)


def spoil_leaves(path: Path) -> None:
    """Changes the kind of the leaves of the blocks under the eyes of the processes that map them: LMDB then raises."""
    pages = IndexPages(path / "index")
    file = LmdbFile.open(path / "index")
    leaves = file.leaves(file.tables()["blocks"])
    file.close()
    with pages.data.open("r+b") as data:
        for leaf in leaves:
            data.seek(leaf.number * PAGE + 10)
            data.write(b"\0")


async def count_blocks(tier: SsdTier) -> int:
    """Counts the blocks that are found, after the rescan."""
    for _ in range(40):
        await tier.flush()
    blocks = [block_id(key, number) for key in KEYS for number in range(BLOCKS)]
    return sum([await read_block(tier, block, LENGTH) is not None for block in blocks])


async def test_damage_found_while_serving_is_misses_until_the_next_start(path: Path) -> None:
    heard = RecordedEvents()
    tier = open_tier(path, heard)
    spoil_leaves(path)
    assert await count_blocks(tier) == 0
    assert heard.of(TierFailed)
    assert tier.head(ObjectName("bucket", KEYS[0])) is None, "not even what is whole is used any more"
    tier.put_head(*head_for("new"))
    await tier.forget(ObjectName("bucket", KEYS[1]))
    await tier.close()
    tier = open_tier(path, now=NOW + 5)
    assert tier.doubt is not None, "the removal was not recorded"
    assert await count_blocks(tier) == ALL
    await tier.close()


async def test_damage_found_by_a_removal_discards_nothing(path: Path) -> None:
    heard = RecordedEvents()
    tier = open_tier(path, heard)
    spoil_leaves(path)
    await tier.forget(ObjectName("bucket", KEYS[1]))
    assert heard.of(TierFailed)
    assert tier.head(ObjectName("bucket", KEYS[1])) is None
    await tier.close()
    tier = open_tier(path)
    assert await count_blocks(tier) == ALL
    await tier.close()


def ask(process: "subprocess.Popen[str]", key: str) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError):  # it has ended before the question
        process.stdin.write(json.dumps([key, 0, LENGTH]) + "\n")
        process.stdin.flush()
    return process.stdout.readline().strip()


async def test_a_signal_while_serving_ends_one_process_and_no_more(path: Path) -> None:
    process = spawn_program("read-as-family", path)
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    assert ask(process, KEYS[0]) == "right"
    os.truncate(path / "index" / "data.mdb", 2 * PAGE)
    assert ask(process, KEYS[1]) == ""
    process.communicate()
    assert process.returncode == -signal.SIGBUS
    heard = RecordedEvents()
    tier = open_tier(path, heard)
    assert [event for event in heard.of(TierFailed) if "rebuilt" in event.reason]
    assert await count_blocks(tier) == ALL
    await tier.close()


def reading_worker(path: Path) -> "subprocess.Popen[str]":
    """A process of the family that has read, and waits."""
    process = spawn_program("read-as-family", path)
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    assert ask(process, KEYS[0]) == "right"
    return process


async def test_a_worker_that_replaces_a_killed_one_checks_the_index(path: Path) -> None:
    heard = RecordedEvents()
    tier = open_tier(path, heard, family="workers")
    await tier.flush()
    process = reading_worker(path)
    spoil_leaves(path)
    process.kill()
    process.communicate()
    successor = spawn_program("read-as-family", path)
    assert successor.communicate()[0] == ""
    assert successor.returncode == 1, "SsdUnusable: this worker serves without the tier"
    assert await read_block(tier, block_id(KEYS[0]), LENGTH) is None
    assert heard.of(TierFailed) == [], "no process has to find the damage by itself"
    again = spawn_program("read-as-family", path)
    assert again.communicate()[0] == "", "nor is it opened at the next attempt"
    await tier.close()
    tier = open_tier(path)
    assert await count_blocks(tier) == ALL
    await tier.close()


async def test_a_worker_that_reclaims_after_a_killed_one_checks_too(path: Path) -> None:
    process = reading_worker(path)
    heard = RecordedEvents()
    tier = open_tier(path, heard, family="workers")
    await tier.flush()
    spoil_leaves(path)
    process.kill()
    process.communicate()
    for _ in range(3):
        await tier.flush()
    assert [event.operation for event in heard.of(TierFailed)] == ["sweep"]
    assert await read_block(tier, block_id(KEYS[0]), LENGTH) is None
    await tier.close()
    tier = open_tier(path)
    assert await count_blocks(tier) == ALL
    await tier.close()

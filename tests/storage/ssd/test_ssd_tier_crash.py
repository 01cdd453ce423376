"""What survives a kill at any moment, and what processes of a family see of each other."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.heads import NEVER_VALIDATED
from forebay.core.names import ObjectName
from harness.ssd_rig import MIB, block_id, commit_blocks, content_of, head_for, open_tier, read_block, spawn_program


def line_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def kill(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def send_line(process: "subprocess.Popen[str]", line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


def ask(process: "subprocess.Popen[str]", question: object) -> str:
    send_line(process, json.dumps(question))
    return line_of(process)


@pytest.mark.parametrize("lines", [1, 2, 5, 9])
async def test_after_a_kill_while_writing_no_byte_is_wrong(tmp_path: Path, lines: int) -> None:
    process = spawn_program("write-for-ever", tmp_path / "ssd")
    last = 0
    for _ in range(lines):
        last = int(line_of(process))
        send_line(process, "go on")
    kill(process)
    tier = open_tier(tmp_path / "ssd", capacity=16 * MIB)
    for length in (100, 4096, 70_000):
        found = 0
        for number in range(last + 200):
            block = block_id(f"key-{length}", number)
            buffer = await read_block(tier, block, length)
            assert buffer is None or buffer == content_of(block, length)
            found += buffer is not None
        assert found > 0
    assert await read_block(tier, block_id("key-100", last), 100) is not None, "it was flushed just before"
    head = tier.head(ObjectName("bucket", "key-4096"))
    assert head is not None
    assert int(head.version.etag.strip('"')) >= last
    await commit_blocks(tier, (block_id("new"), 5000))
    assert await read_block(tier, block_id("new"), 5000) is not None
    await tier.close()


async def test_what_was_forgotten_stays_forgotten_after_a_kill(tmp_path: Path) -> None:
    process = spawn_program("forget-and-wait", tmp_path / "ssd")
    assert line_of(process) == "forgotten"
    kill(process)
    tier = open_tier(tmp_path / "ssd")
    assert tier.head(ObjectName("bucket", "gone")) is None
    assert not tier.has(block_id("gone"))
    assert tier.head(ObjectName("bucket", "kept")) == head_for("kept", now=NEVER_VALIDATED)[1]
    assert await read_block(tier, block_id("kept"), 4096) is not None
    await tier.close()


async def test_a_full_disk_is_a_pause_and_misses(tmp_path: Path) -> None:
    process = spawn_program("run-out-of-disk", tmp_path / "ssd")
    line = json.loads(line_of(process))
    assert process.wait() == 0
    process.communicate()
    assert "write" in line["failed"]
    assert "disown" not in line["failed"]
    assert line["after"] is False, "admissions rest after a failure"
    assert line["old head"] is False, "heads are committed although blocks can't be written"
    tier = open_tier(tmp_path / "ssd")
    for number in range(8):
        found = await read_block(tier, block_id("big", number), MIB // 2)
        assert found is None or found == content_of(block_id("big", number), MIB // 2)
    await commit_blocks(tier, (block_id("after"), 100))
    assert await read_block(tier, block_id("after"), 100) is not None
    await tier.close()


async def test_a_removal_that_can_not_be_committed_disowns_all(tmp_path: Path) -> None:
    process = spawn_program("fail-to-forget", tmp_path / "ssd")
    line = json.loads(line_of(process))
    assert process.wait() == 0
    process.communicate()
    assert line["found"] == [False, False]
    assert "disown" in line["failed"]
    assert not (tmp_path / "ssd" / "FORMAT").exists()
    tier = open_tier(tmp_path / "ssd")
    assert tier.head(ObjectName("bucket", "gone")) is None
    assert tier.occupancy().blocks == 0
    await tier.close()


async def test_processes_of_a_family_read_what_each_writes(tmp_path: Path) -> None:
    tier = open_tier(tmp_path / "ssd", family="workers")
    await commit_blocks(tier, (block_id("early"), 5000))
    process = spawn_program("read-as-family", tmp_path / "ssd")
    assert line_of(process) == "open"
    assert await read_block(tier, block_id("of the child"), 5000) == content_of(block_id("of the child"), 5000)
    await commit_blocks(tier, (block_id("late"), 200_000))
    tier.put_head(*head_for("late"))
    assert ask(process, ["early", 0, 5000]) == "right"
    assert ask(process, ["late", 0, 200_000]) == "right"
    assert ask(process, ["never", 0, 10]) == "miss"
    await tier.forget(ObjectName("bucket", "late"))
    assert ask(process, ["late", 0, 200_000]) == "miss"
    await tier.forget(ObjectName("bucket", "of the child"))
    assert not tier.has(block_id("of the child"))
    await tier.close()
    assert ask(process, ["early", 0, 5000]) == "right", "the first of them has left"
    process.communicate()
    assert process.returncode == 0
    tier = open_tier(tmp_path / "ssd")
    assert tier.doubt is None
    assert await tier.read(block_id("early"), 5000, Span(0, 5000)) == content_of(block_id("early"), 5000)
    await tier.close()

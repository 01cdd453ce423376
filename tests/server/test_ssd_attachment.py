"""The attachment of the SSD tier: a directory that can't be used at the start is attached while serving."""

import asyncio
from pathlib import Path

import pytest

from forebay.core.errors import SsdInUse
from forebay.core.events import TierFailed
from forebay.core.heads import NEVER_VALIDATED
from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.server.ssd_attachment import SsdAttachment
from forebay.settings.model import SsdSettings
from forebay.storage.cache_origin import CacheOrigins
from forebay.storage.memory.memory_tier import MemoryTier
from forebay.storage.run_record import begin_run
from forebay.storage.tiers import Tiers
from harness.ssd_rig import MIB, NOW, ORIGIN, RecordedEvents, block_id, commit_blocks, head_for, locked

NAME = ObjectName("bucket", "a")


class Attaching:
    """The tiers of one worker, and the attachment of their SSD. Each is another run of the same Forebay."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "ssd"
        self.tiers = Tiers(MemoryTier(MIB), None)
        self.events = RecordedEvents()
        self.now = NOW
        run = begin_run(str(directory / "state"), ORIGIN)
        self.attachment = SsdAttachment(
            self.tiers,
            SsdSettings(str(self.path), 64 * MIB),
            CacheOrigins.single(ORIGIN),
            run,
            self.events,
            family=None,
            clock=lambda: self.now,
        )

    async def close(self) -> None:
        assert self.tiers.ssd is not None
        await self.tiers.ssd.close()


async def fill(directory: Path) -> None:
    """A run that leaves an object."""
    first = Attaching(directory)
    first.attachment.attach_at_start()
    assert first.tiers.ssd is not None
    first.tiers.put_head(*head_for("a"))
    await commit_blocks(first.tiers.ssd, (block_id("a"), 5000))
    await first.close()


async def test_a_directory_that_is_free_is_attached_at_the_start(tmp_path: Path) -> None:
    await fill(tmp_path)
    second = Attaching(tmp_path)
    second.attachment.attach_at_start()
    assert second.tiers.head(NAME) == head_for("a")[1]
    await second.attachment.attach_while_serving(first_pause=-1.0)
    assert await second.attachment.attempt() is None
    assert second.events.of(TierFailed) == []
    await second.close()


async def test_a_busy_directory_is_attached_once_it_is_free(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await fill(tmp_path)
    second = Attaching(tmp_path)
    with locked(second.path):
        second.attachment.attach_at_start()
        for _ in range(3):
            assert isinstance(await second.attachment.attempt(), SsdInUse)
        assert second.tiers.head(NAME) is None
    second.now += 1
    assert await second.attachment.attempt() is None
    assert second.tiers.head(NAME) == head_for("a", now=NEVER_VALIDATED)[1], "it may have been written to meanwhile"
    assert second.tiers.has(block_id("a"))
    assert len(second.events.of(TierFailed)) == 1, "one reason is told once"
    assert "this run has served without it" in caplog.text
    await second.close()


async def test_heads_in_memory_stay_trusted_when_the_ssd_arrives(tmp_path: Path) -> None:
    await fill(tmp_path)
    second = Attaching(tmp_path)
    with locked(second.path):
        second.attachment.attach_at_start()
        name, head = head_for("a", '"two"', now=NOW + 1)
        second.tiers.put_head(name, head)
    second.now += 100
    await second.attachment.attempt()
    assert second.tiers.head(name) is head
    await second.close()


async def test_a_directory_that_can_not_be_written_is_tried_again(tmp_path: Path) -> None:
    await fill(tmp_path)
    second = Attaching(tmp_path)
    obstacle = second.path / "STATE.new"
    obstacle.mkdir()
    second.attachment.attach_at_start()
    assert not isinstance(await second.attachment.attempt(), SsdInUse | None)
    obstacle.rmdir()
    second.now += 1
    assert await second.attachment.attempt() is None
    assert second.tiers.head(NAME) == head_for("a", now=NEVER_VALIDATED)[1]
    await second.close()


async def test_what_was_seen_while_it_was_away_is_trusted_by_nobody(tmp_path: Path) -> None:
    """The run after one that was detached for a time trusts nothing either."""
    await fill(tmp_path)
    second = Attaching(tmp_path)
    with locked(second.path):
        second.attachment.attach_at_start()
    second.now += 1
    await second.attachment.attempt()
    await second.close()
    third = Attaching(tmp_path)
    third.attachment.attach_at_start()
    assert third.tiers.head(NAME) == head_for("a", now=NEVER_VALIDATED)[1]
    await third.close()


async def test_a_size_set_while_it_was_away_counts_when_it_arrives(tmp_path: Path) -> None:
    await fill(tmp_path)
    second = Attaching(tmp_path)
    with locked(second.path):
        second.attachment.attach_at_start()
        second.attachment.resize(32 * MIB)
        assert second.attachment.occupancy().capacity == 32 * MIB
    await second.attachment.attempt()
    assert second.attachment.occupancy().capacity == 32 * MIB
    assert second.attachment.occupancy().blocks == 1
    second.attachment.resize(48 * MIB)
    assert second.attachment.occupancy().capacity == 48 * MIB
    await second.close()


async def test_a_cancelled_attempt_gives_the_directory_back(tmp_path: Path) -> None:
    await fill(tmp_path)
    second, tasks = Attaching(tmp_path), TaskRegistry()
    with locked(second.path):
        second.attachment.attach_at_start()
    attempt = tasks.spawn(second.attachment.attempt(), "attempt")
    await asyncio.sleep(0)  # the thread has been started by now
    await tasks.close()
    assert attempt.cancelled()
    assert second.tiers.ssd is None
    third = Attaching(tmp_path)
    third.attachment.attach_at_start()
    assert third.tiers.ssd is not None
    await third.close()

"""The catalogue: recordings within bounds, under their names, across restarts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from forebay.core.errors import Throttled
from forebay.core.task_registry import TaskRegistry
from forebay.jobs.recordings.catalogue import RecordingCatalogue
from forebay.jobs.recordings.recording import RING_SIZE, Recording
from forebay.protocol.recordings.recording_page import RecordingPage
from harness.loader_orders import index_of, sample_keys, whole_reads
from harness.recording_content import filtered, keys_in, recording_of

KEYS = sample_keys(100)
MIB = 1 << 20


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@asynccontextmanager
async def opened(directory: Path | None, limit: int = MIB) -> AsyncIterator[tuple[RecordingCatalogue, list[int]]]:
    """A catalogue, and the reads that it dropped."""
    dropped: list[int] = []
    catalogue = RecordingCatalogue(directory, limit, TaskRegistry(), Clock(), dropped.append)
    await catalogue.open()
    yield catalogue, dropped
    await catalogue.close()


def files_in(directory: Path, suffix: str) -> int:
    return len(list(directory.glob(f"*{suffix}")))


def record(catalogue: RecordingCatalogue, keys: list[str] = KEYS, run: str = "run", epoch: int = 1) -> Recording:
    recording = catalogue.begin("bucket", "user", "set", run, epoch)
    catalogue.append(recording, RecordingPage.of(whole_reads(keys)))
    catalogue.end(recording, index_of(keys))
    return recording


async def test_a_recording_is_found_by_its_name_and_read(tmp_path: Path) -> None:
    async with opened(tmp_path) as (catalogue, _):
        recording = record(catalogue)
        assert catalogue.find("bucket", recording.name, "user") is recording
        assert catalogue.find("bucket", recording.name, "other") is None
        assert catalogue.find("other", recording.name, "user") is None
        assert keys_in(await catalogue.read(recording)) == KEYS
        assert (recording.state, recording.reads, recording.size) == ("automatic", 100, 100_000)
        assert recording.file_size > 100


async def test_recordings_survive_a_restart(tmp_path: Path) -> None:
    async with opened(tmp_path) as (catalogue, _):
        record(catalogue)
        saved = await catalogue.save(record(catalogue, run="other"), "nightly", "user")
        before = catalogue.recordings
    async with opened(tmp_path) as (catalogue, _):
        assert [each.id for each in catalogue.recordings] == [each.id for each in before]
        found = catalogue.find("bucket", "nightly", "user")
        assert found is not None
        assert (found.id, found.state) == (saved.id, "saved")
        assert keys_in(await catalogue.read(found)) == KEYS


async def test_without_a_directory_recordings_end_with_the_process() -> None:
    async with opened(None) as (catalogue, _):
        recording = record(catalogue)
        assert keys_in(await catalogue.read(recording)) == KEYS
    async with opened(None) as (catalogue, _):
        assert catalogue.recordings == []


async def test_a_directory_in_use_is_left_alone(tmp_path: Path) -> None:
    async with opened(tmp_path) as (first, _), opened(tmp_path) as (second, _):
        record(first)
        record(second)
        await first.flush()
        await second.flush()
        assert files_in(tmp_path, ".json") == 1


async def test_the_ring_keeps_so_many_of_a_track(tmp_path: Path) -> None:
    async with opened(tmp_path) as (catalogue, _):
        for epoch in range(1, RING_SIZE * 2):
            record(catalogue, epoch=epoch)
        await catalogue.flush()
        assert len(catalogue.recordings) == RING_SIZE
        assert files_in(tmp_path, ".recording") == RING_SIZE


async def test_a_few_reads_are_no_recording(tmp_path: Path) -> None:
    async with opened(tmp_path) as (catalogue, _):
        record(catalogue, KEYS[:15])
        await catalogue.flush()
        assert catalogue.recordings == []


async def test_automatic_recordings_give_way_to_the_limit(tmp_path: Path) -> None:
    async with opened(tmp_path, limit=1200) as (catalogue, _):
        first = record(catalogue, run="a")
        await catalogue.flush()
        second = record(catalogue, run="b")
        await catalogue.flush()
        size = first.file_size
        kept = 1200 // size
        assert 2 <= kept < RING_SIZE
        for run in "cdefgh":
            catalogue.mark_used(first)
            record(catalogue, run=run)
            await catalogue.flush()
        assert first in catalogue.recordings
        assert second not in catalogue.recordings
        assert catalogue.file_size <= 1200 + size


async def test_saved_recordings_are_never_dropped_and_refused_beyond(tmp_path: Path) -> None:
    content = filtered(recording_of(KEYS))
    async with opened(tmp_path, limit=len(content.content) * 2) as (catalogue, dropped):
        await catalogue.add("bucket", "a", "user", content)
        await catalogue.add("bucket", "b", "user", content)
        with pytest.raises(Throttled, match=r"limits\.recordings"):
            await catalogue.add("bucket", "c", "user", content)
        await catalogue.add("bucket", "b", "user", content)  # in place of itself
        recording = catalogue.begin("bucket", "user", "set", "run", 1)
        for _ in range(2):
            catalogue.append(recording, RecordingPage.of(whole_reads(KEYS)))
            await catalogue.flush()
        assert {each.name for each in catalogue.recordings if each.state == "saved"} == {"a", "b"}
        assert sum(dropped) == 100


async def test_saving_takes_the_name_from_another(tmp_path: Path) -> None:
    async with opened(tmp_path) as (catalogue, _):
        first, second = record(catalogue, run="a"), record(catalogue, run="b")
        await catalogue.save(first, "nightly", "user")
        await catalogue.save(second, "nightly", "user")
        assert catalogue.recordings == [second]
        await catalogue.save(second, "nightly", "")
        assert catalogue.find("bucket", "nightly", "") is second


async def test_a_removed_recording_is_recorded_no_further(tmp_path: Path) -> None:
    async with opened(tmp_path) as (catalogue, _):
        recording = catalogue.begin("bucket", "user", "set", "run", 1)
        catalogue.remove(recording)
        catalogue.append(recording, RecordingPage.of(whole_reads(KEYS)))
        catalogue.end(recording, index_of(KEYS))
        await catalogue.flush()
        assert catalogue.recordings == []
        assert files_in(tmp_path, ".recording") == 0

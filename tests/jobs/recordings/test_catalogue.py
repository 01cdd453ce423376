"""The catalogue: recordings within bounds, under their names, across restarts."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from forebay.core.errors import Throttled
from forebay.core.task_registry import TaskRegistry
from forebay.jobs.recordings.catalogue import MAX_COLLECTED, MAX_SAVED, MAX_UNWRITTEN, RecordingCatalogue
from forebay.jobs.recordings.recording import MAX_FILE_SIZE, RING_SIZE, Recording
from forebay.jobs.recordings.recording_access import recording_info
from forebay.protocol.recordings.recording_page import MAX_PAGE_BYTES, RecordingPage
from harness.file_limit import file_size_limit
from harness.inspection import run_loop_until
from harness.loader_orders import index_of, sample_keys, whole_reads
from harness.numbered_reads import NumberedReader
from harness.recording_content import filtered, keys_in, recording_of

KEYS = sample_keys(100)
MIB = 1 << 20


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.fixture(autouse=True)
def no_change_fails(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert [each.message for each in caplog.get_records("call") if each.levelno >= logging.ERROR] == []


@asynccontextmanager
async def opened(directory: Path | None, limit: int = MIB) -> AsyncIterator[tuple[RecordingCatalogue, list[int]]]:
    """A catalogue, and the reads that it dropped."""
    dropped: list[int] = []
    catalogue = RecordingCatalogue(directory, limit, TaskRegistry(), Clock(), dropped.append)
    await catalogue.open()
    yield catalogue, dropped
    await catalogue.close()


def contents_of(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.iterdir()}


def files_in(directory: Path, suffix: str) -> int:
    return len(list(directory.glob(f"*{suffix}")))


def size_in(directory: Path, suffix: str) -> int:
    return sum(path.stat().st_size for path in directory.glob(f"*{suffix}"))


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


async def test_what_goes_before_it_is_written_is_never_written(tmp_path: Path) -> None:
    reader = NumberedReader()
    async with opened(tmp_path) as (catalogue, _):
        for epoch in range(1, RING_SIZE * 2):
            recording = catalogue.begin("bucket", "user", "set", "run", epoch)
            catalogue.append(recording, reader.page(KEYS))
            catalogue.end(recording, index_of(KEYS))
        kept = catalogue.recordings
        assert (len(kept), files_in(tmp_path, ".recording")) == (RING_SIZE, 0)
        await catalogue.settle()
        assert files_in(tmp_path, ".recording") == files_in(tmp_path, ".anchors") == RING_SIZE
        assert all(each.size == 100_000 and each.file_size > 400 for each in kept)
        for each in kept:
            catalogue.remove(each)
        await catalogue.settle()
        assert files_in(tmp_path, "") == 1  # the lock


async def test_so_many_changes_wait_in_memory_and_no_more(tmp_path: Path) -> None:
    reader = NumberedReader()
    async with opened(tmp_path, limit=64 * MIB) as (catalogue, dropped):
        recording = catalogue.begin("bucket", "user", "set", "run", 1)
        for _ in range(MAX_COLLECTED - 1):
            catalogue.append(recording, reader.page(KEYS))
        assert recording.file_size == 0
        catalogue.append(recording, reader.page(KEYS))
        await run_loop_until(lambda: recording.file_size > 0)
        assert dropped == []


async def test_reads_that_are_events_do_not_wait_in_memory(tmp_path: Path) -> None:
    async with opened(tmp_path) as (catalogue, _):
        recording = catalogue.begin("bucket", "user", "set", "run", 1)
        catalogue.append(recording, RecordingPage.of(whole_reads(KEYS)))
        await run_loop_until(lambda: recording.file_size > 0)


async def test_a_prefix_is_copied_before_its_source_goes(tmp_path: Path) -> None:
    reader = NumberedReader()
    async with opened(tmp_path) as (catalogue, _):
        source = catalogue.begin("bucket", "user", "set", "run", 1)
        catalogue.append(source, reader.page(KEYS))
        catalogue.end(source, index_of(KEYS))
        recording = catalogue.begin("bucket", "user", "set", "run", 2)
        catalogue.append_prefix(recording, source, 60)
        catalogue.remove(source)
        catalogue.end(recording, index_of(KEYS[:60]))
        assert keys_in(await catalogue.read(recording)) == KEYS[:60]


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
        catalogue.append(recording, RecordingPage.of(whole_reads(KEYS)))
        catalogue.remove(recording)
        catalogue.append(recording, RecordingPage.of(whole_reads(KEYS)))
        catalogue.end(recording, index_of(KEYS))
        catalogue.mark_used(recording)
        await catalogue.flush()
        assert catalogue.recordings == []
        assert files_in(tmp_path, "") == 1  # the lock


async def test_a_use_is_noted_in_the_file(tmp_path: Path) -> None:
    async with opened(tmp_path) as (catalogue, _):
        recording = record(catalogue)
        await catalogue.flush()
        catalogue.mark_used(recording)
        used = recording.used
    async with opened(tmp_path) as (catalogue, _):
        assert [each.used for each in catalogue.recordings] == [used]


async def test_a_name_is_in_the_file_once_it_is_saved(tmp_path: Path) -> None:
    async with opened(tmp_path) as (catalogue, _):
        recording = record(catalogue)
        await catalogue.flush()
        for _ in range(2):  # under the name that it has, too
            await catalogue.save(recording, "nightly", "user")
        assert catalogue.recordings == [recording]
    async with opened(tmp_path) as (catalogue, _):
        assert [(each.name, each.state) for each in catalogue.recordings] == [("nightly", "saved")]


async def test_closing_waits_for_the_files(tmp_path: Path) -> None:
    async with opened(tmp_path) as (catalogue, _):
        for number in range(30):
            record(catalogue, run=str(number))
        kept = catalogue.recordings
    async with opened(tmp_path) as (catalogue, _):
        assert [each.id for each in catalogue.recordings] == [each.id for each in kept]


async def test_closing_writes_what_waits_in_memory(tmp_path: Path) -> None:
    async with opened(tmp_path) as (catalogue, _):
        recording = catalogue.begin("bucket", "user", "set", "run", 1)
        catalogue.append(recording, NumberedReader().page(KEYS))
        catalogue.end(recording, index_of(KEYS))
    assert files_in(tmp_path, ".recording") == files_in(tmp_path, ".anchors") == 1


async def test_pages_beyond_those_that_wait_for_the_disk_are_dropped(tmp_path: Path) -> None:
    async with opened(tmp_path, limit=64 * MIB) as (catalogue, dropped):
        recording = catalogue.begin("bucket", "user", "set", "run", 1)
        for _ in range(MAX_UNWRITTEN + 4):
            catalogue.append(recording, RecordingPage.of(whole_reads(KEYS)))
        assert dropped == [100] * 4
        await run_loop_until(lambda: recording.file_size > 0)
        await catalogue.flush()
        catalogue.append(recording, RecordingPage.of(whole_reads(KEYS)))
        assert len(dropped) == 4
        catalogue.end(recording, index_of(KEYS))
        assert len(keys_in(await catalogue.read(recording))) == recording.reads == (MAX_UNWRITTEN + 1) * 100


async def test_a_file_of_the_largest_size_grows_no_further(tmp_path: Path) -> None:
    async with opened(tmp_path, limit=4 * MAX_FILE_SIZE) as (catalogue, dropped):
        recording = catalogue.begin("bucket", "user", "set", "run", 1)
        await catalogue.flush()
        recording.file_size = MAX_FILE_SIZE - MAX_PAGE_BYTES + 1
        catalogue.append(recording, RecordingPage.of(whole_reads(KEYS)))
        assert (recording.reads, dropped) == (0, [100])


async def test_each_track_has_a_ring_of_its_own(tmp_path: Path) -> None:
    async with opened(tmp_path) as (catalogue, _):
        first = record(catalogue, epoch=RING_SIZE)
        for epoch in range(RING_SIZE):
            other = catalogue.begin("bucket", "user", "other", "run", epoch)
            catalogue.append(other, RecordingPage.of(whole_reads(KEYS)))
            catalogue.end(other, index_of(KEYS))
        assert first in catalogue.recordings


async def test_automatic_recordings_give_way_to_one_that_is_added(tmp_path: Path) -> None:
    content = filtered(recording_of(KEYS))
    async with opened(tmp_path, limit=len(content.content) + 10) as (catalogue, _):
        record(catalogue)
        await catalogue.flush()
        added = await catalogue.add("bucket", "a", "user", content)
        assert catalogue.recordings == [added]
    async with opened(tmp_path) as (catalogue, _):
        assert [(each.id, keys_in(await catalogue.read(each))) for each in catalogue.recordings] == [(added.id, KEYS)]


async def test_each_change_of_what_may_be_recognised_shows(tmp_path: Path) -> None:
    catalogue = RecordingCatalogue(tmp_path, MIB, TaskRegistry(), Clock())
    versions = [catalogue.version]
    await catalogue.open()
    versions.append(catalogue.version)
    recording = record(catalogue)
    versions.append(catalogue.version)
    await catalogue.add("bucket", "a", "user", filtered(recording_of(KEYS)))
    versions.append(catalogue.version)
    catalogue.remove(recording)
    versions.append(catalogue.version)
    assert versions == sorted(set(versions))
    await catalogue.close()


async def test_so_many_recordings_may_be_saved(tmp_path: Path) -> None:
    content = filtered(recording_of(KEYS[:20]))
    async with opened(tmp_path) as (catalogue, _):
        for number in range(MAX_SAVED):
            await catalogue.add("bucket", str(number), "user", content)
        await catalogue.add("bucket", "0", "user", content)  # in place of itself
        with pytest.raises(Throttled, match=str(MAX_SAVED)):
            await catalogue.add("bucket", "one more", "user", content)
        with pytest.raises(Throttled, match=str(MAX_SAVED)):
            await catalogue.save(record(catalogue), "one more", "user")


async def test_a_removed_recording_leaves_no_tail(tmp_path: Path) -> None:
    async with opened(tmp_path) as (catalogue, _):
        recording = catalogue.begin("bucket", "user", "set", "run", 1)
        page = RecordingPage.of(whole_reads(KEYS))
        catalogue.append(recording, page)
        catalogue.remove(recording)
        catalogue.save_tail(recording, [page])
        await catalogue.flush()
        assert files_in(tmp_path, "") == 1  # the lock


async def test_one_that_is_being_made_counts_its_tail(tmp_path: Path) -> None:
    async with opened(tmp_path) as (catalogue, _):
        recording = catalogue.begin("bucket", "user", "set", "run", 1)
        pages = [RecordingPage.of(whole_reads(keys)) for keys in (KEYS, KEYS[:3], KEYS[:7])]
        shown = list[tuple[int, int]]()
        steps: tuple[Callable[[], None], ...] = (
            lambda: catalogue.save_tail(recording, [pages[1]]),
            lambda: catalogue.append(recording, pages[0]),
            lambda: catalogue.save_tail(recording, [pages[1], pages[2]]),
            lambda: catalogue.end(recording, index_of(KEYS)),
        )
        for take in steps:
            take()
            await catalogue.flush()
            info = recording_info(recording)
            shown.append((info.reads, info.size))
        whole = len(KEYS)
        sizes = [sum(each.length for each in page.reads) for page in pages]
        assert [reads for reads, _ in shown] == [3, whole, whole + 10, whole]
        assert [size for _, size in shown] == [sizes[1], sizes[0], sum(sizes), sizes[0]]


async def test_names_count_as_bytes_of_recordings(tmp_path: Path) -> None:
    async with opened(tmp_path) as (catalogue, _):
        recording = catalogue.begin("bucket", "user", "set", "run", 1)
        catalogue.append(recording, NumberedReader().page(KEYS))
        catalogue.end(recording, index_of(KEYS))
        await catalogue.flush()
        assert catalogue.file_size == recording.file_size + size_in(tmp_path, ".names")
        assert keys_in(await catalogue.read(recording)) == KEYS
        catalogue.remove(recording)
        await catalogue.flush()
        assert catalogue.file_size == 0


async def test_an_upload_that_the_disk_refuses_leaves_the_one_before(tmp_path: Path) -> None:
    async with opened(tmp_path) as (catalogue, _):
        kept = await catalogue.add("bucket", "nightly", "user", filtered(recording_of(KEYS)))
        files = files_in(tmp_path, "")
        with file_size_limit(10), pytest.raises(Throttled, match="can't be kept: File too large"):
            await catalogue.add("bucket", "nightly", "user", filtered(recording_of(KEYS[:50])))
        assert catalogue.recordings == [kept]
        assert keys_in(await catalogue.read(kept)) == KEYS
        assert files_in(tmp_path, "") == files
        again = await catalogue.add("bucket", "nightly", "user", filtered(recording_of(KEYS[:50])))
        assert catalogue.recordings == [again]


async def test_a_name_that_the_disk_refuses_is_none(tmp_path: Path) -> None:
    async with opened(tmp_path) as (catalogue, _):
        kept = await catalogue.add("bucket", "nightly", "user", filtered(recording_of(KEYS)))
        recording = record(catalogue)
        await catalogue.flush()
        with file_size_limit(10), pytest.raises(Throttled, match="can't be kept"):
            await catalogue.save(recording, "nightly", "user")
        assert catalogue.find("bucket", "nightly", "user") is kept
        assert (recording.state, recording in catalogue.recordings) == ("automatic", True)


async def test_of_two_uploads_of_one_name_at_once_one_stays(tmp_path: Path) -> None:
    async with opened(tmp_path) as (catalogue, _):
        contents = [filtered(recording_of(KEYS[:count])) for count in (30, 40, 50)]
        added = await asyncio.gather(*(catalogue.add("bucket", "nightly", "user", each) for each in contents))
        assert catalogue.recordings == [added[-1]]


async def test_of_two_of_one_name_that_a_kill_left_the_later_stays(tmp_path: Path) -> None:
    async with opened(tmp_path) as (catalogue, _):
        await catalogue.add("bucket", "nightly", "user", filtered(recording_of(KEYS)))
        left = contents_of(tmp_path)
        later = await catalogue.add("bucket", "nightly", "user", filtered(recording_of(KEYS[:50])))
    for path, content in left.items():
        path.write_bytes(content)
    async with opened(tmp_path) as (catalogue, _):
        assert [each.id for each in catalogue.recordings] == [later.id]
        await catalogue.flush()
        assert files_in(tmp_path, ".json") == 1


async def test_what_would_end_with_the_process_is_not_saved(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    async with opened(tmp_path / "file") as (catalogue, _):
        recording = record(catalogue)
        assert keys_in(await catalogue.read(recording)) == KEYS
        with pytest.raises(Throttled, match="could not be used at the start"):
            await catalogue.add("bucket", "nightly", "user", filtered(recording_of(KEYS)))
        with pytest.raises(Throttled, match="could not be used at the start"):
            await catalogue.save(recording, "nightly", "user")
        assert (recording.state, catalogue.recordings) == ("automatic", [recording])

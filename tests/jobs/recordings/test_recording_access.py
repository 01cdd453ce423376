"""Recordings as the other workers reach them: every method by a call does what it does here."""

import errno
import json
from pathlib import Path

import pytest

from forebay.core.errors import PeerUnavailable, Throttled
from forebay.core.task_registry import TaskRegistry
from forebay.jobs.recordings.catalogue import RecordingCatalogue
from forebay.jobs.recordings.recording_access import (
    LocalRecordings,
    RecordingAccess,
    RemoteRecordings,
    admin_choice,
)
from forebay.peers.frames import Document
from forebay.protocol.recordings.recording_page import RecordingPage
from harness.file_calls import FileCalls
from harness.journal_points import FailOnce
from harness.loader_orders import index_of, sample_keys, whole_reads
from harness.numbered_reads import NumberedReader
from harness.recording_content import recording_of

FILE = recording_of(sample_keys(50))


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def take_away(directory: Path) -> None:
    """The file of the recording can't be read."""
    [file] = directory.glob("*.recording")
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize("is_remote", [False, True])
async def test_a_recording_is_stored_named_read_and_removed(tmp_path: Path, is_remote: bool) -> None:
    catalogue = RecordingCatalogue(tmp_path, 1 << 20, TaskRegistry(), lambda: 1_000_000.0)
    local = LocalRecordings(catalogue, lambda: None, lambda _: None, lambda _: None)

    async def call(request: Document) -> Document:
        answer: Document = json.loads(json.dumps(await local.answer(json.loads(json.dumps(request)))))
        return answer

    access: RecordingAccess = RemoteRecordings(call) if is_remote else local
    stored = await access.store("bucket", "name", "user", FILE)
    assert (stored.name, stored.reads, stored.state, stored.principal) == ("name", 50, "saved", "user")
    assert await access.content("bucket", "name", "user") == FILE
    assert await access.content("bucket", "name", "other") is None
    assert await access.infos("other") == []
    saved = await access.save("bucket", "name", "shared", "user", "")
    assert saved is not None
    assert await access.infos() == await access.infos("bucket") == [saved]
    assert (saved.name, saved.principal) == ("shared", "")
    assert await access.save("bucket", "gone", "x", "user", "user") is None
    assert not await access.remove("bucket", "name", "user")
    assert await access.remove("bucket", "shared", "")
    assert names_in(tmp_path) == ["lock"]
    assert await access.infos() == []
    await catalogue.close()


async def test_a_recording_that_can_not_be_removed_stays(tmp_path: Path) -> None:
    fail = FailOnce("before unlink jobs/recordings/recording_files", 0, errno.EIO)
    catalogue = RecordingCatalogue(tmp_path, 1 << 20, TaskRegistry(), lambda: 1_000_000.0)
    access = LocalRecordings(catalogue, lambda: None, lambda _: None, lambda _: None)
    with FileCalls(fail).watched():  # the thread of the files begins in here
        await access.store("bucket", "name", "user", FILE)
        with pytest.raises(Throttled, match="can't be removed: Input/output error"):
            await access.remove("bucket", "name", "user")
    assert await access.content("bucket", "name", "user") == FILE
    assert await access.remove("bucket", "name", "user")
    assert (await access.infos(), names_in(tmp_path)) == ([], ["lock"])
    await catalogue.close()


async def test_a_recording_that_can_not_be_read_is_refused(tmp_path: Path) -> None:
    catalogue = RecordingCatalogue(tmp_path, 1 << 20, TaskRegistry(), lambda: 1_000_000.0)
    access = LocalRecordings(catalogue, lambda: None, lambda _: None, lambda _: None)
    await access.store("bucket", "name", "user", FILE)
    take_away(tmp_path)
    with pytest.raises(Throttled, match="can't be read: Is a directory"):
        await access.content("bucket", "name", "user")
    await catalogue.close()


async def test_listings_have_the_sizes_of_what_is_not_written_yet(tmp_path: Path) -> None:
    catalogue, keys = RecordingCatalogue(tmp_path, 1 << 20, TaskRegistry(), lambda: 1_000_000.0), sample_keys(50)
    await catalogue.open()
    recording = catalogue.begin("bucket", "user", "set", "run", 1)
    catalogue.append(recording, NumberedReader().page(keys))
    catalogue.end(recording, index_of(keys))
    [info] = await LocalRecordings(catalogue, lambda: None, lambda _: None, lambda _: None).infos()
    assert (info.reads, info.size) == (50, 50_000)
    assert info.file_size > 200
    await catalogue.close()


async def test_the_latest_automatic_recording_is_saved_or_cut(tmp_path: Path) -> None:
    keys = sample_keys(50)
    catalogue = RecordingCatalogue(tmp_path, 1 << 20, TaskRegistry(), lambda: 1_000_000.0)
    await catalogue.open()
    recording = catalogue.begin("bucket", "user", "set", "run", 1)
    catalogue.append(recording, RecordingPage.of(whole_reads(keys)))
    cut: list[str] = []

    def end(bucket: str) -> None:
        cut.append(bucket)
        catalogue.end(recording, index_of(keys))

    local = LocalRecordings(catalogue, lambda: None, end, lambda _: None)
    assert await local.content("bucket", recording.name, "user") is None, "it is not ended"
    saved = await local.save("bucket", "", "nightly", "", "user")
    assert saved is not None
    assert (saved.name, saved.state, saved.reads, cut) == ("nightly", "saved", 50, ["bucket"])
    await catalogue.close()


async def test_a_collector_that_is_gone_is_tried_again_later() -> None:
    async def call(_: Document) -> Document:
        raise PeerUnavailable("gone")

    with pytest.raises(Throttled, match="is not there"):
        await RemoteRecordings(call).infos()


async def test_an_operator_means_what_belongs_to_nobody(tmp_path: Path) -> None:
    catalogue = RecordingCatalogue(tmp_path, 1 << 20, TaskRegistry(), lambda: 1_000_000.0)
    local = LocalRecordings(catalogue, lambda: None, lambda _: None, lambda _: None)
    for principal in ("a", "", "b"):
        await local.store("bucket", "name", principal, FILE)
    infos = await local.infos()
    chosen = admin_choice(infos, "name")
    assert chosen is not None
    assert chosen.principal == ""
    assert admin_choice(infos, "other") is None
    await catalogue.close()

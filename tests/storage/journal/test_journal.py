"""The journal's directory: one Forebay's, of one version; and what another process can do in it meanwhile."""

import asyncio
import errno
import json
import os
import re
from pathlib import Path

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.errors import JournalUnusable
from forebay.storage.journal.body_file import BodyRef
from forebay.storage.journal.journal import Journal
from forebay.storage.journal.journal_files import JournalFiles
from forebay.storage.journal.journal_layout import VERSION


async def test_bodies_and_records_come_back(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "j", "family")
    body = await journal.create_body()
    await body.append([b"large ", b"body"])
    ref = await body.finish()
    record = await journal.append({"bodies": [list(ref)]})
    body.release()
    small = await journal.append({}, b"small")
    await journal.close()
    again = Journal.open(tmp_path / "j", "another run")
    scan = await again.reclaim()
    assert {each.id: each.payload for each in scan.pending} == {record: b"", small: b"small"}
    assert bytes(await again.read(ref, Span(6, 10))) == b"body"
    assert again.try_become_drainer()
    await again.settle([record, small])
    assert await again.remove_bodies([ref]) == {}
    assert (await again.reclaim()).pending == []
    assert sorted(path.name for path in (tmp_path / "j" / "bodies").iterdir()) == []
    await again.close()


async def test_a_body_on_its_way_has_its_whole_size(tmp_path: Path) -> None:
    """Its room was given away: a measurement of the files must not give it to others."""
    journal = Journal.open(tmp_path / "j", "family")
    body = await journal.create_body(1000)
    await body.append([b"begun"])
    sizes = [await journal.size()]
    await body.discard()
    other = await journal.create_body(1000)
    await other.append([b"shorter"])
    sizes.append(await journal.size())
    await other.finish()
    sizes.append(await journal.size())
    assert sizes == [1000, 1000, len(b"shorter") + 8]
    await other.discard()
    await journal.close()


class OneKept(JournalFiles):
    """A disk that does not remove one file."""

    kept = ""

    def unlink(self, path: str) -> None:
        if path == self.kept:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().unlink(path)


async def test_a_body_that_cannot_be_removed_keeps_no_others(tmp_path: Path) -> None:
    files = OneKept()
    journal, refs = Journal.open(tmp_path / "j", "family", files), []
    for _ in range(3):
        body = await journal.create_body()
        await body.append([b"body"])
        refs.append(await body.finish())
        body.release()
    files.kept = str(tmp_path / "j" / "bodies" / f"{refs[0].id}.body")
    gone = BodyRef("gone", 4, 0)
    failures = await journal.remove_bodies([*refs, gone])
    assert {ref: error.errno for ref, error in failures.items()} == {refs[0]: errno.EIO}
    assert [str(path) for path in (tmp_path / "j" / "bodies").iterdir()] == [files.kept]
    files.kept = ""
    await journal.reclaim()
    assert list((tmp_path / "j" / "bodies").iterdir()) == []
    await journal.close()


async def test_later_runs_and_workers_share_a_clock(tmp_path: Path) -> None:
    first = Journal.open(tmp_path / "j", "one")
    beside = Journal.open(tmp_path / "j", "one")
    before = first.stamp()
    assert before < beside.stamp() < first.stamp()
    assert first.try_become_drainer()
    assert not beside.try_become_drainer()
    last = first.stamp()
    await first.close()
    assert beside.try_become_drainer()
    await beside.close()
    later = Journal.open(tmp_path / "j", "two")
    assert later.stamp() > last + 2**63
    await later.close()


class SyncedNames(JournalFiles):
    """Notes what is synced."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: list[str] = []

    def sync(self, fd: int) -> None:
        super().sync(fd)
        self.synced.append(str(Path(f"/proc/self/fd/{fd}").readlink()))

    def sync_directory(self, path: str) -> None:
        super().sync_directory(path)
        self.synced.append(path)


async def test_a_new_directory_is_durable_with_those_above_it(tmp_path: Path) -> None:
    """A power cut would take the whole journal with an entry that is not on the disk."""
    files, path = SyncedNames(), tmp_path / "a" / "b" / "j"
    await Journal.open(path, "one", files).close()
    assert {str(each) for each in (path, *path.parents[:3])} <= set(files.synced)
    assert str(tmp_path.parent) not in files.synced, "that was there"


async def test_the_number_of_a_run_is_durable_when_it_begins(tmp_path: Path) -> None:
    """A power cut would begin the next run with the same number, and have its clock go back."""
    for family in ("one", "two"):
        files = SyncedNames()
        journal = Journal.open(tmp_path / "j", family, files)
        assert str(tmp_path / "j" / "lock") in files.synced
        await journal.close()


@pytest.mark.parametrize("damage", ["emptied", "cut", "digit", "family", "garbage"])
async def test_a_damaged_lock_does_not_have_the_clock_go_back(tmp_path: Path, damage: str) -> None:
    """A write would count as older than what it replaces, and be dropped for it."""
    path = tmp_path / "j"
    for run in range(7):
        journal = Journal.open(path, f"family-{run}")
        last = journal.stamp()
        record = await journal.append({"write": "put", "bucket": "b", "key": f"{run}", "written": last, "etag": "e"})
        if run % 2:
            await journal.settle([record])
        await journal.close()
    line = (path / "lock").read_bytes()
    assert line.startswith(b"family-6 7 ")
    changed = {
        "emptied": b"",
        "cut": line[:9],
        "digit": line.replace(b" 7 ", b" 3 "),
        "family": line.replace(b"family-6", b"family-4"),
        "garbage": bytes(range(256)),
    }
    (path / "lock").write_bytes(changed[damage])
    later = Journal.open(path, "later")
    assert later.stamp() > last + 2**63
    beside = Journal.open(path, "later")
    assert beside.stamp() > later.stamp() - 2**63
    await later.close()
    await beside.close()


class ReadOnlyFiles(JournalFiles):
    """A file system that the kernel has made read-only."""

    def open_lock(self, path: str) -> int:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


async def test_a_worker_joins_a_run_on_a_read_only_disk(tmp_path: Path) -> None:
    """Its readers see what is pending, and what is pending can be carried out; a run can't begin there."""
    first = Journal.open(tmp_path / "j", "one")
    assert first.try_become_drainer()
    record = await first.append({"write": "put"}, b"pending")
    beside = Journal.open(tmp_path / "j", "one", ReadOnlyFiles())
    assert [each.id for each in (await beside.scan()).pending] == [record]
    assert not beside.try_become_drainer()
    await first.close()
    assert beside.try_become_drainer()
    await beside.close()
    for family in ("one", "two"):
        with pytest.raises(JournalUnusable, match=r"can't be used \(Read-only file system\)"):
            Journal.open(tmp_path / "j", family, ReadOnlyFiles())


class ReclaimedMeanwhile(JournalFiles):
    """Lists a log that is removed before it is opened."""

    def names(self, path: str) -> list[str]:
        return [f"{'0' * 32}.log", *super().names(path)]


async def test_a_log_that_is_reclaimed_meanwhile_had_nothing_pending(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "j", "one", ReclaimedMeanwhile())
    record = await journal.append({"write": "put"}, b"pending")
    scan = await journal.scan()
    assert ([each.id for each in scan.pending], scan.damages) == ([record], {})
    await journal.close()


async def test_workers_begin_a_directory_at_once(tmp_path: Path) -> None:
    for attempt in range(10):
        path = tmp_path / str(attempt) / "j"
        opened = await asyncio.gather(*(asyncio.to_thread(Journal.open, path, "one") for _ in range(4)))
        assert len({journal.stamp() >> 64 for journal in opened}) == 1
        for journal in opened:
            await journal.close()


async def test_another_forebay_is_kept_out(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "j", "one")
    with pytest.raises(JournalUnusable, match="in use by another Forebay"):
        Journal.open(tmp_path / "j", "two")
    await journal.close()
    await Journal.open(tmp_path / "j", "two").close()


async def test_a_directory_says_that_it_is_no_cache(tmp_path: Path) -> None:
    await Journal.open(tmp_path / "j", "one").close()
    said = (tmp_path / "j" / "README").read_text()
    assert "It is no cache" in said
    assert "forebay check-journal THIS_DIRECTORY" in said


async def test_a_scan_tells_what_was_carried_out_from_what_was_dropped(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path, "one")
    written = journal.stamp()
    put = {"write": "put", "bucket": "b", "key": "k", "etag": "e", "origin": "o"}
    carried_out = await journal.append({**put, "written": written})
    dropped = await journal.append({**put, "written": written + 1})
    await journal.settle([carried_out])
    await journal.settle([dropped], is_carried_out=False)
    scan = await journal.scan()
    assert (scan.pending, scan.settled) == ([], {("b", "k", '"o"'): (written, "e")})
    assert scan.last_written == written + 1
    await journal.close()


@pytest.mark.parametrize("is_carried_out", [False, True])
async def test_a_scan_finds_completions_that_were_refused(tmp_path: Path, is_carried_out: bool) -> None:
    """Those of which a part is settled. An upload has ended once one is carried out, and no other is pending."""
    journal = Journal.open(tmp_path, "one")
    parts = [await journal.append({"write": "part", "upload": upload}) for upload in "uvw"]
    completions = []
    for (log, number), upload in zip(parts, "uvw", strict=True):
        document = {"write": "complete", "bucket": "b", "key": upload, "upload": upload, "written": 1}
        completions.append(await journal.append({**document, "parts": [(1, "e", log, number)]}))
        if upload == "w":
            completions.append(await journal.append({**document, "parts": [(1, "e", log, number)]}))
    await journal.settle([parts[0]], is_carried_out=is_carried_out)
    await journal.settle([completions[1], parts[1]])
    await journal.settle([completions[2]])
    scan = await journal.scan()
    assert (scan.refused, scan.ended_uploads) == ({completions[0]}, {"v"})
    await journal.close()


async def test_what_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("somebody's")
    with pytest.raises(JournalUnusable, match="neither empty nor a journal"):
        Journal.open(tmp_path, "one")
    await Journal.open(tmp_path / "j", "one").close()
    versions: list[object] = [2, 99, []]
    for version in versions:
        content = json.dumps({"version": version})
        (tmp_path / "j" / "FORMAT").write_text(content)
        refusal = f"version {version}, and this Forebay reads {VERSION}: have the Forebay that wrote it carry out"
        with pytest.raises(JournalUnusable, match=re.escape(refusal)):
            Journal.open(tmp_path / "j", "one")
        assert (tmp_path / "j" / "FORMAT").read_text() == content
    (tmp_path / "j" / "FORMAT").write_text("{")
    with pytest.raises(JournalUnusable, match="damaged"):
        Journal.open(tmp_path / "j", "one")


async def test_a_copy_of_a_log_in_its_folder_is_none(tmp_path: Path) -> None:
    """As a person may make one before a repair."""
    journal = Journal.open(tmp_path / "j", "one")
    record = await journal.append({"written": 1}, b"pending")
    log = tmp_path / "j" / "logs" / f"{record.log}.log"
    copies = [log.with_name(name) for name in (f"{record.log}.copy.log", "backup.log", f"{record.log.upper()}x.log")]
    for copy in copies:
        copy.write_bytes(log.read_bytes())
    assert journal.try_become_drainer()
    for scan in (await journal.scan(), await journal.reclaim()):
        assert ([each.id for each in scan.pending], scan.damages, scan.torn) == ([record], {}, {})
    assert all(copy.exists() for copy in copies)
    await journal.close()


@pytest.mark.parametrize("is_lock_damaged", [False, True])
async def test_a_start_writes_a_missing_format_anew(tmp_path: Path, is_lock_damaged: bool) -> None:
    """All that was pending is there, and the node's clock goes on."""
    journal = Journal.open(tmp_path / "j", "one")
    before = journal.stamp()
    record = await journal.append({"written": before}, b"pending")
    await journal.close()
    (tmp_path / "j" / "FORMAT").unlink()
    if is_lock_damaged:
        (tmp_path / "j" / "lock").write_bytes(b"")
    again = Journal.open(tmp_path / "j", "two")
    assert [each.id for each in (await again.scan()).pending] == [record]
    assert again.stamp() > before
    await again.close()
    assert json.loads((tmp_path / "j" / "FORMAT").read_bytes()) == {"version": VERSION}

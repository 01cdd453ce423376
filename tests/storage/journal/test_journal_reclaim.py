"""Reclaim removes what no pending write needs, and nothing else."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from forebay.storage.journal.body_file import BodyRef, BodyWriter
from forebay.storage.journal.journal_files import JournalFiles
from forebay.storage.journal.journal_layout import JournalLayout
from forebay.storage.journal.journal_reclaim import reclaim
from forebay.storage.journal.journal_record import encode_document
from forebay.storage.journal.log_writer import LogWriter, NewRecord, RecordId
from forebay.storage.journal.recovery_scan import scan_journal
from forebay.storage.journal.settled_numbers import append_settled
from harness.crash_disk import CrashDisk


class _Files(JournalFiles):
    """Notes the calls that make rows durable and remove files. `on_lock` is called once, before a body is locked."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.on_lock: Callable[[], object] | None = None

    def lock(self, fd: int) -> bool:
        on_lock, self.on_lock = self.on_lock, None
        if on_lock is not None:
            on_lock()
        return super().lock(fd)

    def sync(self, fd: int) -> None:
        super().sync(fd)
        self.calls.append(f"sync {Path(f'/proc/self/fd/{fd}').readlink().suffix}")

    def unlink(self, path: str) -> None:
        super().unlink(path)
        self.calls.append(f"unlink {Path(path).suffix}")


class _Journal:
    def __init__(self, directory: Path) -> None:
        self.files, self.layout = _Files(), JournalLayout(str(directory))
        self.logs, self.bodies = Path(self.layout.logs), Path(self.layout.bodies)
        for folder in (self.logs, self.bodies):
            folder.mkdir()
        self.writer = LogWriter(JournalFiles(), self.layout)

    def append(self, *bodies: BodyRef) -> RecordId:
        [record] = self.writer.append([NewRecord(encode_document({"written": 1, "bodies": bodies}))])
        return record

    def body(self, *, is_released: bool = True) -> BodyRef:
        writer = BodyWriter(JournalFiles(), self.layout)
        writer.append([b"body"])
        ref = writer.finish()
        if is_released:
            writer.release()
        else:
            self.held = writer
        return ref

    def settle(self, record: RecordId) -> None:
        append_settled(JournalFiles(), self.layout, record.log, [record.number])

    def reclaim(self) -> list[RecordId]:
        return [each.id for each in reclaim(self.files, self.layout, nullcontext()).pending]

    def left(self) -> tuple[set[str], set[str]]:
        """The suffixes of the logs' files, and the ids of the bodies."""
        return {each.suffix for each in self.logs.iterdir()}, {each.stem for each in self.bodies.iterdir()}


@pytest.fixture
def journal(tmp_path: Path) -> _Journal:
    return _Journal(tmp_path)


def test_a_log_goes_with_its_last_pending_record(journal: _Journal) -> None:
    """And its settled numbers behind it. Not while it is written."""
    first, second = journal.append(), journal.append()
    journal.settle(first)
    journal.writer.close()
    assert (journal.reclaim(), journal.left()) == ([second], ({".log", ".settled"}, set()))
    journal.settle(second)
    assert (journal.reclaim(), journal.left()) == ([], (set(), set()))
    assert journal.files.calls == ["unlink .log", "unlink .settled"]
    journal.settle(journal.append())
    assert (journal.reclaim(), journal.left()) == ([], ({".log", ".settled"}, set()))


def test_a_body_that_no_record_has_is_removed(journal: _Journal) -> None:
    """Once all rows are durable: else a power cut might forget the one of its record. Not while it is written."""
    kept, settled, orphan, held = journal.body(), journal.body(), journal.body(), journal.body(is_released=False)
    pending, done = journal.append(kept), journal.append(settled)
    journal.settle(done)
    entered = list[int]()

    @contextmanager
    def writing() -> Iterator[None]:
        entered.append(len(journal.files.calls))
        yield
        entered.append(len(journal.files.calls))

    scan = reclaim(journal.files, journal.layout, writing())
    assert [each.id for each in scan.pending] == [pending]
    assert journal.left() == ({".log", ".settled"}, {kept.id, held.id})
    assert orphan.id not in journal.left()[1]
    assert journal.files.calls == ["sync .settled", "unlink .body", "unlink .body"]
    assert entered == [0, 1], "nobody else writes rows meanwhile"
    journal.held.release()
    journal.reclaim()
    assert journal.left()[1] == {kept.id}


def test_a_body_whose_record_comes_meanwhile_stays(journal: _Journal) -> None:
    """Its writer had it locked when the logs were read."""
    body = journal.body()
    journal.files.on_lock = lambda: journal.append(body)
    assert len(journal.reclaim()) == 1
    assert journal.left()[1] == {body.id}


def test_a_damaged_log_and_all_bodies_stay(journal: _Journal) -> None:
    """Even if none of its records that can be read is pending: what can't be read may have any body."""
    lost, read, body = journal.append(), journal.append(), journal.body()
    journal.writer.close()
    path = Path(journal.layout.log(lost.log))
    content = bytearray(path.read_bytes())
    content[41] ^= 1
    path.write_bytes(content)
    journal.settle(read)
    for _ in range(2):
        assert (journal.reclaim(), journal.left()) == ([], ({".log", ".settled"}, {body.id}))


def test_no_power_cut_brings_back_what_a_removed_log_had() -> None:
    disk, layout = CrashDisk(), JournalLayout("/j")
    disk.make_directory(layout.logs)
    disk.make_directory(layout.bodies)
    writer, body = LogWriter(disk, layout), BodyWriter(disk, layout)
    body.append([b"body"])
    ref = body.finish()
    [record] = writer.append([NewRecord(encode_document({"written": 1, "bodies": (ref,)}))])
    append_settled(disk, layout, record.log, [record.number])
    assert reclaim(disk, layout, nullcontext()).pending == []
    assert (len(disk.names(layout.logs)), len(disk.names(layout.bodies))) == (2, 1), "their writers hold them"
    writer.close()
    body.release()
    reclaim(disk, layout, nullcontext())
    assert (disk.names(layout.logs), disk.names(layout.bodies)) == ([], [])
    assert disk.descriptors == 0
    for after in disk.every_power_cut(most=10):
        assert scan_journal(after, layout).pending == []

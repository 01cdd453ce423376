"""A batch that fails is not found by a scan of the same run, even where nothing more can be written."""

import errno
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from forebay.core.buffers import Buffer
from forebay.storage.journal.journal_files import JournalFiles
from forebay.storage.journal.journal_layout import JournalLayout
from forebay.storage.journal.journal_record import encode_document
from forebay.storage.journal.log_writer import ROOM, JournalFailed, LogWriter, NewRecord
from forebay.storage.journal.recovery_scan import scan_journal


class _FullDisk(JournalFiles):
    """No space once `is_full`: the first piece of a write still fits."""

    is_full = False
    fails_syncs = False

    def create(self, path: str) -> int:
        self._check()
        return super().create(path)

    def write(self, fd: int, pieces: Sequence[Buffer | bytes], offset: int) -> None:
        if self.is_full:
            super().write(fd, pieces[:1], offset)
        self._check()
        super().write(fd, pieces, offset)

    def sync(self, fd: int) -> None:
        if self.fails_syncs:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().sync(fd)

    def _check(self) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _opened(path: Path) -> tuple[_FullDisk, JournalLayout, LogWriter]:
    files, layout = _FullDisk(), JournalLayout(str(path))
    Path(layout.logs).mkdir(parents=True)
    return files, layout, LogWriter(files, layout)


def _record(number: int) -> NewRecord:
    return NewRecord(encode_document({"write": number}), b"payload")


def _found(files: JournalFiles, layout: JournalLayout) -> list[int]:
    scan = scan_journal(files, layout)
    assert not scan.damages
    return sorted(record.document["write"] for record in scan.pending)


def test_a_batch_that_found_no_space_is_not_found_again(tmp_path: Path) -> None:
    files, layout, writer = _opened(tmp_path / "j")
    records = [_record(number) for number in range(4)]
    writer.append(records[:1])
    files.is_full = True
    with pytest.raises(JournalFailed) as failure:
        writer.append(records[1:3])
    assert not failure.value.voided
    files.is_full = False
    writer.append(records[3:])
    writer.close()
    assert _found(files, layout) == [0, 3]


def test_a_batch_in_the_room_leaves_the_size(tmp_path: Path) -> None:
    files, layout, writer = _opened(tmp_path / "j")
    writer.append([_record(0)])
    writer.make_room()
    [log] = Path(layout.logs).iterdir()
    before = log.stat()
    for number in range(1, 30):
        writer.append([_record(number)])
        writer.make_room()
    assert (log.stat().st_size, log.stat().st_blocks) == (before.st_size, before.st_blocks)
    assert before.st_size > ROOM
    writer.close()
    assert _found(files, layout) == list(range(30))


def test_small_batches_never_reach_the_end_of_the_room(tmp_path: Path) -> None:
    files, layout, writer = _opened(tmp_path / "j")
    payload = bytes(100_000)
    for number in range(30):
        writer.append([NewRecord(encode_document({"write": number}), payload)])
        writer.make_room()
        [log] = Path(layout.logs).iterdir()
        assert log.stat().st_size >= 100_000 * (number + 2)
    writer.close()
    assert _found(files, layout) == list(range(30))


def test_a_log_without_space_for_room_goes_on(tmp_path: Path) -> None:
    files, layout, writer = _opened(tmp_path / "j")
    writer.append([_record(0)])
    first, files.is_full = writer.log, True
    writer.make_room()
    files.is_full = False
    writer.append([_record(1)])
    assert writer.log == first
    writer.close()
    assert _found(files, layout) == [0, 1]


def test_a_log_ends_where_its_room_fails_to_sync(tmp_path: Path) -> None:
    files, layout, writer = _opened(tmp_path / "j")
    writer.append([_record(0)])
    first, files.fails_syncs = writer.log, True
    writer.make_room()
    files.fails_syncs = False
    writer.append([_record(1)])
    assert writer.log not in {first, None}
    writer.close()
    assert _found(files, layout) == [0, 1]


@pytest.mark.parametrize("how", ["removed", "moved", "replaced", "replaced by a file"])
def test_a_log_that_is_not_in_its_directory_takes_nothing(tmp_path: Path, how: str) -> None:
    """The open file is there still, and no later start would find it."""
    files, layout, writer = _opened(tmp_path / "journal")
    writer.append([_record(1)])
    if how == "removed":
        shutil.rmtree(tmp_path / "journal")
    else:
        (tmp_path / "journal").rename(tmp_path / "elsewhere")
    if how == "replaced":
        shutil.copytree(tmp_path / "elsewhere", tmp_path / "journal")
    elif how == "replaced by a file":
        (tmp_path / "journal").touch()
    with pytest.raises(JournalFailed):
        writer.append([_record(2)])
    if how != "removed":
        assert _found(files, JournalLayout(str(tmp_path / "elsewhere"))) == [1]
    if how == "replaced":
        writer.append([_record(3)])
        assert _found(files, layout) == [1, 3]

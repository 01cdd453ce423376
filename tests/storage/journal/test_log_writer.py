"""A batch that fails is not found by a scan of the same run, even where nothing more can be written."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from forebay.core.buffers import Buffer
from forebay.storage.journal.journal import Journal
from forebay.storage.journal.journal_files import JournalFiles
from forebay.storage.journal.journal_layout import JournalLayout
from forebay.storage.journal.journal_record import encode_document
from forebay.storage.journal.log_writer import JournalFailed, LogWriter, NewRecord
from forebay.storage.journal.recovery_scan import scan_journal


class _FullDisk(JournalFiles):
    """No space once `is_full`: the first piece of a write still fits."""

    is_full = False

    def create(self, path: str) -> int:
        self._check()
        return super().create(path)

    def write(self, fd: int, pieces: Sequence[Buffer | bytes], offset: int) -> None:
        if self.is_full:
            super().write(fd, pieces[:1], offset)
        self._check()
        super().write(fd, pieces, offset)

    def _check(self) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def test_a_batch_that_found_no_space_is_not_found_again(tmp_path: Path) -> None:
    await Journal.open(tmp_path / "j", "family").close()
    files, layout = _FullDisk(), JournalLayout(str(tmp_path / "j"))
    writer = LogWriter(files, layout)
    records = [NewRecord(encode_document({"write": number}), b"payload") for number in range(4)]
    writer.append(records[:1])
    files.is_full = True
    with pytest.raises(JournalFailed) as failure:
        writer.append(records[1:3])
    assert not failure.value.voided
    files.is_full = False
    writer.append(records[3:])
    writer.close()
    assert sorted(record.document["write"] for record in scan_journal(files, layout).pending) == [0, 3]

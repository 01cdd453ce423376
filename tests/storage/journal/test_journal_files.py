"""The system calls of the journal: that the kernel is asked to sync is seen by what it can't sync."""

import errno
import os
import time
from pathlib import Path

import pytest

from forebay.storage.journal.journal_files import JournalFiles


def test_a_sync_is_the_kernels() -> None:
    synced: list[float] = []
    files, (read, write) = JournalFiles(synced.append), os.pipe()
    try:
        with pytest.raises(OSError, match=os.strerror(errno.EINVAL)):
            files.sync(write)
    finally:
        os.close(read)
        os.close(write)
    assert synced == [], "it is no sync that was done"


def test_a_sync_of_a_directory_is_the_kernels() -> None:
    with pytest.raises(OSError, match=os.strerror(errno.EINVAL)):
        JournalFiles().sync_directory("/proc/self")


def test_a_look_at_a_name_leaves_the_next_write_its_time(tmp_path: Path) -> None:
    """Two writes in one tick of the kernel's clock have one time of change, unless it was asked for in between."""
    files, path = JournalFiles(), str(tmp_path / "file")
    fd = files.create(path)
    identity = files.identity(fd)

    def shares_a_tick(number: int) -> bool:
        files.write(fd, [b"first"], 10 * number)
        between = time.time_ns()
        assert files.has_name(identity, path)
        files.write(fd, [b"second"], 10 * number + 5)
        return os.fstat(fd).st_mtime_ns <= between

    assert any(map(shares_a_tick, range(200)))
    files.close(fd)


def test_a_file_is_known_by_its_name_alone(tmp_path: Path) -> None:
    files, path, another = JournalFiles(), tmp_path / "file", tmp_path / "another"
    fd, other = files.create(str(path)), files.create(str(another))
    assert files.has_name(files.identity(fd), str(path))
    assert not files.has_name(files.identity(other), str(path))
    path.unlink()
    assert not files.has_name(files.identity(fd), str(path))
    assert not files.has_name(files.identity(other), str(another / "below"))
    files.close(fd)
    files.close(other)

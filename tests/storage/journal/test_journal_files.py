"""The system calls of the journal: that the kernel is asked to sync is seen by what it can't sync."""

import errno
import os

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

import os
from pathlib import Path

import pytest

from forebay.storage.page_cache import PageCache

SIZE = 1 << 20


@pytest.mark.parametrize("has_cachestat", [True, False])
def test_cached_and_absent_bytes_are_distinguished(tmp_path: Path, has_cachestat: bool) -> None:
    cache, file = PageCache(has_cachestat=has_cachestat), tmp_path / "file"
    file.write_bytes(bytes(SIZE))
    with file.open("r+b") as opened:
        fd = opened.fileno()
        for start, length in ((0, SIZE), (0, 1), (SIZE - 1, 1), (4095, 2), (100_000, 65_536), (1, 300_000)):
            assert cache.is_resident(fd, start, length)
        # Bytes beyond the end are never resident, not even in part.
        assert not cache.is_resident(fd, SIZE - 10, 11)
        assert not cache.is_resident(fd, SIZE, 1)
        assert not cache.is_resident(fd, SIZE - 300_000, 400_000)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        if cache.is_resident(fd, 0, SIZE):
            pytest.skip("this file system lives in memory")
        assert not cache.is_resident(fd, SIZE // 2, 1)


def test_a_hole_in_the_middle_of_cached_pages_is_noticed(tmp_path: Path) -> None:
    cache, file = PageCache(), tmp_path / "file"
    file.write_bytes(bytes(SIZE))
    with file.open("r+b") as opened:
        fd = opened.fileno()
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        if cache.is_resident(fd, 0, SIZE):
            pytest.skip("this file system lives in memory")
        os.pread(fd, SIZE, 0)
        assert cache.is_resident(fd, 0, SIZE)
        os.posix_fadvise(fd, SIZE // 2, 64 << 10, os.POSIX_FADV_DONTNEED)
        # Only once: a look at an absent page has the kernel begin to read it.
        assert not cache.is_resident(fd, 0, SIZE)

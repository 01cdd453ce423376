"""Locks of uploads: one holder at a time in all workers, whatever becomes of it."""

import asyncio
import errno
import os
from collections.abc import Awaitable
from pathlib import Path

import pytest

from forebay.core.task_registry import TaskRegistry
from forebay.storage.journal.journal_files import JournalFiles
from forebay.storage.journal.journal_layout import JournalLayout
from forebay.storage.journal.upload_locks import UploadLocks
from harness.inspection import run_loop_until


class _Files(JournalFiles):
    def __init__(self, *, is_read_only: bool = False) -> None:
        super().__init__()
        self._is_read_only = is_read_only
        self.attempts = 0
        self.open_locks = 0

    def open_lock(self, path: str) -> int:
        lock = os.open("/dev/null", os.O_RDONLY) if self._is_read_only else super().open_lock(path)
        self.open_locks += 1
        return lock

    def lock_byte(self, fd: int, offset: int) -> bool:
        self.attempts += 1
        return super().lock_byte(fd, offset)

    def close(self, fd: int) -> None:
        self.open_locks -= 1
        super().close(fd)


class _Worker:
    def __init__(self, directory: Path, files: _Files | None = None) -> None:
        self.files = files or _Files()
        self.locks = UploadLocks(self.files, JournalLayout(str(directory)))
        self.held = 0
        self.may_end = asyncio.Event()

    async def hold(self, upload_id: str) -> None:
        async with self.locks.held(upload_id, self._wait):
            self.held += 1
            await self.may_end.wait()

    async def _wait(self, acquiring: Awaitable[None]) -> None:
        await acquiring


@pytest.mark.parametrize("is_one_worker", [False, True])
async def test_a_lock_has_one_holder_at_a_time(tmp_path: Path, is_one_worker: bool) -> None:
    first = _Worker(tmp_path)
    second = first if is_one_worker else _Worker(tmp_path)
    workers = {first, second}

    def held() -> int:
        return sum(each.held for each in workers)

    tasks = TaskRegistry()
    holding = tasks.spawn(first.hold("u"), "first")
    await run_loop_until(lambda: held() == 1)
    tasks.spawn(second.hold("u"), "second")
    await run_loop_until(lambda: second.files.attempts >= 3)
    assert held() == 1
    tasks.spawn(second.hold("v"), "another upload")
    await run_loop_until(lambda: held() == 2)
    holding.cancel()
    await run_loop_until(lambda: held() == 3)
    for each in workers:
        each.may_end.set()
    await tasks.wait_idle()
    assert [each.files.open_locks for each in workers] == [0] * len(workers)


async def test_a_wait_that_is_refused_leaves_no_lock(tmp_path: Path) -> None:
    first, second = _Worker(tmp_path), _Worker(tmp_path)
    tasks = TaskRegistry()
    tasks.spawn(first.hold("u"), "first")
    await run_loop_until(lambda: first.held == 1)

    async def refuse(acquiring: Awaitable[None]) -> None:
        acquiring.close()  # type: ignore[attr-defined] # a coroutine
        raise TimeoutError

    with pytest.raises(TimeoutError):
        async with second.locks.held("u", refuse):
            raise AssertionError("it is held")
    assert second.files.open_locks == 0
    first.may_end.set()
    await tasks.wait_idle()


async def test_nobody_waits_where_nothing_can_be_locked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    worker = _Worker(tmp_path, _Files(is_read_only=True))
    worker.may_end.set()
    await worker.hold("u")
    assert (worker.held, worker.files.open_locks) == (1, 0)
    assert f"can't be locked: {os.strerror(errno.EBADF)}" in caplog.text
    missing = _Worker(tmp_path / "none")
    missing.may_end.set()
    await missing.hold("u")
    assert missing.held == 1
    assert "can't be opened" in caplog.text

"""Group settlement: what waits during a sync shares the next one, and no row takes the place of another."""

import asyncio
import errno
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from forebay.core.task_registry import TaskRegistry
from forebay.storage.journal.group_settlement import GroupSettlement
from forebay.storage.journal.journal_files import JournalFiles
from forebay.storage.journal.journal_layout import JournalLayout, new_id
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.settled_numbers import encode_rows, read_settled
from harness.held_syncs import HeldSyncs
from harness.inspection import run_loop_until


class _SyncedFiles(HeldSyncs):
    """Notes the syncs of files, and fails those that it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.syncs: list[str] = []
        self.rows: list[int] = []
        """Of the file, at each of these."""
        self.failing = 0
        self.failure: Exception = OSError(errno.EIO, "EIO")

    def make_logs(self, layout: JournalLayout) -> None:
        Path(layout.logs).mkdir()

    def sync(self, fd: int) -> None:
        super().sync(fd)
        if self.failing:
            self.failing -= 1
            raise self.failure
        self.syncs.append(Path(f"/proc/self/fd/{fd}").readlink().name)
        self.rows.append(self.size(fd) // len(encode_rows(new_id(), [0])))


class _Rig(NamedTuple):
    files: _SyncedFiles
    layout: JournalLayout
    settlement: GroupSettlement


@asynccontextmanager
async def _settling(directory: Path) -> AsyncIterator[_Rig]:
    files, layout = _SyncedFiles(), JournalLayout(str(directory))
    files.make_logs(layout)
    with ThreadPoolExecutor(4) as threads:
        settlement = GroupSettlement(files, layout, threads)
        yield _Rig(files, layout, settlement)
        await settlement.close()


async def test_settlements_at_once_keep_the_rows_of_each_other(tmp_path: Path) -> None:
    log = new_id()
    async with _settling(tmp_path) as (files, layout, settlement):
        files.hold()
        first = settlement.submit([RecordId(log, 0)])
        await run_loop_until(lambda: files.held == 1)
        others = [settlement.submit([RecordId(log, nth)]) for nth in range(1, 100)]
        files.release()
        await asyncio.gather(first, *others)
        assert len(files.syncs) == 2, "one of the first, one of all the others"
        assert read_settled(JournalFiles(), layout, log) == set(range(100))


async def test_the_first_record_of_each_is_durable_before_the_rest(tmp_path: Path) -> None:
    one, two = new_id(), new_id()
    async with _settling(tmp_path) as (files, layout, settlement):
        files.hold()
        blocking = settlement.submit([RecordId(one, 0)])
        await run_loop_until(lambda: files.held == 1)
        waiting = [
            settlement.submit([RecordId(one, 1), RecordId(two, 1)]),
            settlement.submit([RecordId(two, 2), RecordId(one, 2)]),
        ]
        files.release()
        await asyncio.gather(blocking, *waiting)
        assert [name.removesuffix(".settled") for name in files.syncs] == [one, one, two, two, one]
        assert files.rows == [1, 2, 1, 2, 3]
        assert read_settled(files, layout, one) == {0, 1, 2}
        assert read_settled(files, layout, two) == {1, 2}


@pytest.mark.parametrize("failure", [OSError(errno.EIO, "EIO"), ValueError("a defect, not EIO")])
async def test_a_failure_reaches_all_of_its_batch_and_no_other(tmp_path: Path, failure: Exception) -> None:
    log = new_id()
    async with _settling(tmp_path) as (files, layout, settlement):
        files.failing, files.failure = 1, failure
        with pytest.raises(type(failure), match="EIO"):
            await settlement.submit([RecordId(log, 0)])
        await settlement.submit([RecordId(log, 0), RecordId(log, 1)])
        assert read_settled(files, layout, log) == {0, 1}


async def test_settling_goes_on_without_the_task_that_asked(tmp_path: Path) -> None:
    log = new_id()
    async with _settling(tmp_path) as (files, layout, settlement):
        files.hold()
        cancelled = settlement.submit([RecordId(log, 0)])
        await run_loop_until(lambda: files.held == 1)
        waiting = settlement.submit([RecordId(log, 1)])
        cancelled.cancel()
        files.release()
        await waiting
        assert read_settled(files, layout, log) == {0, 1}


async def test_the_end_waits_for_what_is_being_settled(tmp_path: Path) -> None:
    """The files' threads end after it."""
    log = new_id()
    async with _settling(tmp_path) as (files, layout, settlement):
        files.hold()
        settled = [settlement.submit([RecordId(log, nth)]) for nth in range(2)]
        ending = TaskRegistry().spawn(settlement.close(), "close")
        await run_loop_until(lambda: files.held == 1)
        assert not ending.done()
        files.release()
        await ending
        assert all(each.done() for each in settled)
        assert read_settled(files, layout, log) == {0, 1}

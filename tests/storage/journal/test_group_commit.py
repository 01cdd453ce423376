"""Group commit: what waits during a sync shares the next one; a failure is everybody's who waited for it."""

import asyncio
import errno
import threading
from collections.abc import Sequence

from forebay.storage.journal.group_commit import GroupCommit
from forebay.storage.journal.journal_layout import JournalLayout
from forebay.storage.journal.log_writer import JournalFailed, LogWriter, NewRecord, RecordId
from harness.crash_disk import CrashDisk


class _GatedWriter(LogWriter):
    """Notes its batches; each waits until it may go on."""

    def __init__(self, disk: CrashDisk, layout: JournalLayout) -> None:
        super().__init__(disk, layout)
        self.batches: list[int] = []
        self.gate = threading.Event()
        self.has_room = threading.Event()

    def append(self, batch: Sequence[NewRecord]) -> list[RecordId]:
        self.batches.append(len(batch))
        self.gate.wait(30)
        return super().append(batch)

    def make_room(self) -> None:
        super().make_room()
        self.has_room.set()


def _writer() -> tuple[CrashDisk, _GatedWriter]:
    disk, layout = CrashDisk(), JournalLayout("/j")
    disk.make_directory(layout.logs)
    return disk, _GatedWriter(disk, layout)


async def test_records_that_wait_share_a_batch() -> None:
    _, writer = _writer()
    commits = GroupCommit(writer)
    submitted = [commits.submit(NewRecord(b"{}", b"%d" % nth)) for nth in range(10)]
    writer.gate.set()
    ids = await asyncio.gather(*submitted)
    assert [each.number for each in ids] == list(range(10))
    assert writer.batches == [1, 9]
    await commits.close()


async def test_a_failure_reaches_all_of_its_batch() -> None:
    disk, writer = _writer()
    commits = GroupCommit(writer)
    writer.gate.set()
    await commits.submit(NewRecord(b"{}"))
    assert await asyncio.to_thread(writer.has_room.wait, 30), "or the room's failure ends the log first"
    disk.fail_at = lambda _: OSError(errno.EIO, "EIO")
    results = await asyncio.gather(*(commits.submit(NewRecord(b"{}")) for _ in range(3)), return_exceptions=True)
    assert all(isinstance(result, JournalFailed) for result in results)
    assert isinstance(results[0], JournalFailed)
    assert not results[0].voided, "its bytes are on the disk, and nothing can be said about them"
    disk.fail_at = lambda _: None
    assert (await commits.submit(NewRecord(b"{}"))).number == 0
    await commits.close()


async def test_a_cancelled_writer_disturbs_nobody() -> None:
    _, writer = _writer()
    commits = GroupCommit(writer)
    submitted = [commits.submit(NewRecord(b"{}")) for _ in range(3)]
    submitted[1].cancel()
    writer.gate.set()
    assert [(await submitted[0]).number, (await submitted[2]).number] == [0, 2]
    await commits.close()


async def test_the_log_has_room_when_nobody_waits() -> None:
    _, writer = _writer()
    commits = GroupCommit(writer)
    writer.gate.set()
    await commits.submit(NewRecord(b"{}"))
    assert await asyncio.to_thread(writer.has_room.wait, 30)
    await commits.close()

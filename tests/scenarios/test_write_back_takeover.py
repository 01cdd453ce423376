"""A worker takes over from a drainer that has ended: what it knows comes first."""

import fcntl
import os
from pathlib import Path
from threading import Event

import pytest

from forebay.core.task_registry import TaskRegistry
from forebay.storage.journal.journal import Journal
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.journal_points import PointedFiles
from harness.origin_history import RecordingStore
from harness.write_back_rig import WriteBackRig


class _HeldScan:
    """Holds the thread that lists the logs, or fails it."""

    def __init__(self) -> None:
        self.is_armed = self.is_failing = False
        self.held, self.released = Event(), Event()

    def __call__(self, point: str) -> None:
        if point == "before list logs" and self.is_failing:
            raise OSError(5, "EIO")
        if point == "before list logs" and self.is_armed:
            self.held.set()
            self.released.wait()


async def test_a_write_during_a_takeover_overtakes_nothing(tmp_path: Path) -> None:
    scan, store = _HeldScan(), RecordingStore()
    async with FakeOrigin() as origin:
        origin.store = store
        store.create_bucket("ckpt")
        rig = WriteBackRig(origin, tmp_path)
        rig.journal_files = PointedFiles(scan)
        await Journal.open(rig.journal, "made before").close()
        drainer = os.open(rig.journal / "drain.lock", os.O_RDWR | os.O_CREAT)
        fcntl.flock(drainer, fcntl.LOCK_EX)
        try:
            async with rig:
                await rig.put("a/first", b"1")
                assert not rig.write_back.is_draining
                os.close(drainer)
                drainer = -1
                scan.is_failing = True
                with pytest.raises(OSError, match="EIO"):
                    await rig.write_back.take_over()
                assert not rig.write_back.is_draining, "it tries again"
                scan.is_failing, scan.is_armed = False, True
                taking_over = TaskRegistry().spawn(rig.write_back.take_over(), "take over")
                await run_loop_until(scan.held.is_set)
                await rig.put("a/second", b"2")
                await rig.parts.tasks.wait_idle()
                scan.released.set()
                await taking_over
                await rig.settled()
                assert store.history == [("a/first", b"1"), ("a/second", b"2")]
        finally:
            scan.released.set()
            if drainer >= 0:
                os.close(drainer)

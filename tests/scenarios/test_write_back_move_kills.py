"""SIGKILL while an upload moves from the journal to the origin: its client goes on with it, and it arrives whole, once.

`make crash` kills at every call of the journal meanwhile.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

import pytest

from forebay.core.task_registry import TaskRegistry
from harness.fake.actions import HoldHead
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.fork_server import ForkedProcess, ForkServer, fork_server
from harness.journal_kills import NEVER, KilledWorker, configure, first_of
from harness.journal_writers import JournalWriters, write_through
from harness.kill_points import JournalPoint, KillPoint, Moment, OriginPoint
from harness.killed_node import KilledNode, killed_node
from harness.origin_history import RecordingStore
from harness.resumed_upload import ResumedUpload
from harness.write_back_rig import at_origin

SCALE: Final = int(os.environ.get("FOREBAY_CRASH_SCALE", "0"))
PART: Final = 5 << 20
PARTS: Final = 4
"""Two of them fit into the journal."""
SIZE: Final = "16MiB"
MOVE_POINTS: Final = {
    f"{step} {how}": OriginPoint(f"{operation} {how}", nth)
    for step, operation, nth in (
        ("create for the move", "CreateMultipartUpload", 1),  # the first is a probe's
        ("carry the first part", "UploadPart", 0),
        ("carry or pass a part", "UploadPart", 1),
        ("pass the last part", "UploadPart", 3),
        ("complete", "CompleteMultipartUpload", 0),
    )
    for how in ("lost", "late", "done")
}
"""Steps of a move at the origin: the request is lost, carried out after the kill, or carried out before it."""
CALLS: Final = 150
"""Of the journal, in one such upload."""


class _MovingWorker(KilledWorker):
    """A worker that is killed, and started again, while one client uploads more than the journal takes."""

    def __init__(self, origin: FakeOrigin, server: ForkServer, configuration: Path) -> None:
        super().__init__(origin, JournalWriters(RecordingStore(), Random(0)), server, configuration, 0)
        self.upload = _upload(0)
        self._endpoint = ""

    async def use(self, process: ForkedProcess, endpoint: str, point: KillPoint) -> None:
        self._endpoint = endpoint
        await first_of(process.wait_exit(), self.upload.run(lambda: self._endpoint))

    async def move(self, number: int, point: KillPoint) -> bool:
        """Uploads through a worker that is killed at this point, then through the next. Returns whether it was."""
        self.upload = _upload(number)
        is_killed = await self.round(point)
        if not self.upload.is_done:
            await self.round(NEVER)
        assert at_origin(self.origin, self.upload.key) == self.upload.content, point
        assert self.upload.has_moved or self.upload.lost, point
        self.origin.store.delete("ckpt", self.upload.key)
        return is_killed


def _upload(number: int) -> ResumedUpload:
    words = (b"%07d " % (number * PARTS + nth) for nth in range(PARTS))
    return ResumedUpload(f"upload/{number}", [word * (PART // len(word)) for word in words])


@asynccontextmanager
async def _moving_worker(directory: Path) -> AsyncIterator[_MovingWorker]:
    async with FakeOrigin(smallest_part=1) as origin, fork_server(directory / "log") as server:
        origin.store.create_bucket("ckpt")
        yield _MovingWorker(origin, server, await configure(origin, directory, SIZE))


@pytest.mark.parametrize("how", ["lost", "late", "done"])
async def test_a_kill_at_each_step_of_a_move_loses_nothing(tmp_path: Path, how: str) -> None:
    async with _moving_worker(tmp_path) as moving:
        names = [name for name in MOVE_POINTS if name.endswith(how)]
        reached = [await moving.move(number, MOVE_POINTS[name]) for number, name in enumerate(names)]
        assert all(reached), dict(zip(names, reached, strict=True))


@pytest.mark.timeout(3600)
async def test_a_kill_at_a_call_of_the_journal_in_a_move_loses_nothing(tmp_path: Path) -> None:
    async with _moving_worker(tmp_path) as moving:
        calls = range(0, CALLS, 1 if SCALE else 25)
        reached = [await moving.move(nth, JournalPoint(None, nth, is_serving=True)) for nth in calls]
        assert sum(reached) > len(reached) // 2


@pytest.mark.timeout(3600)
async def test_kills_of_workers_of_a_node_in_moves_lose_nothing(tmp_path: Path) -> None:
    """Of four workers; the client goes to the next one when it has lost its own."""
    random, uploads = Random(1), list[ResumedUpload]()
    async with killed_node(tmp_path, 1, 4, clients=0, size=SIZE) as node:
        # A killed worker that had the move itself may leave an upload that fits: three uploads, and as many more as it
        # takes until one was moved.
        while len(uploads) < (12 if SCALE else 3) or not _any_was_killed_and_moved(uploads):
            assert len(uploads) < 24, "no upload that lost its worker was moved"
            number, upload = len(uploads), _upload(len(uploads))
            uploads.append(upload)
            running = TaskRegistry().spawn(upload.run(partial(_endpoint, node, upload, number)), "upload")
            await _kill_in_move(node, upload, number, running)
            while not running.done():
                killed = [random.randrange(4)] if random.random() < 0.8 else []
                await node.kill(Moment(0, random.uniform(0.0, 0.5)), killed)
            await running
            # A part of which a killed worker told nobody takes room once it is measured: an upload may fit until then,
            # and is completed here.
            assert await write_through(node.endpoint(0)) == 200
            assert node.writers.stored(upload.key) == upload.content


async def _kill_in_move(node: KilledNode, upload: ResumedUpload, number: int, running: asyncio.Task[None]) -> None:
    """Kills the worker that serves an upload while the origin creates it for a move."""
    gate = Gate()
    rule = node.origin.faults.add(HoldHead(gate), operation="CreateMultipartUpload", key=upload.key, times=1)
    await first_of(gate.reached(), asyncio.wait([running]))
    await node.kill(Moment(0, 0.0), [_serving(upload, number)])
    node.origin.faults.remove(rule)
    gate.open()


def _any_was_killed_and_moved(uploads: Sequence[ResumedUpload]) -> bool:
    return any(upload.has_moved and upload.lost for upload in uploads)


def _endpoint(node: KilledNode, upload: ResumedUpload, number: int) -> str:
    return node.endpoint(_serving(upload, number))


def _serving(upload: ResumedUpload, number: int) -> int:
    """Returns the worker that the client turns to."""
    return (number + upload.lost) % 4

"""Upload moves: what ends the carrying of parts. See scenarios/test_write_back_moves.py for the way of an upload."""

import asyncio
from collections.abc import Sequence
from typing import cast

from forebay.core.errors import OriginUnreachable
from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.peers.owners import Peers
from forebay.storage.journal.log_writer import RecordId
from forebay.write.back.accept.record_writer import RecordWriter
from forebay.write.back.accept.upload_moves import UploadMoves
from forebay.write.back.drain.origin_uploads import OriginUploads
from forebay.write.back.drain.retry_pauses import RetryPauses
from forebay.write.back.pending.accepted_write import AcceptedPart, AcceptedUpload, MovedUpload
from forebay.write.back.pending.pending_uploads import PendingPart, PendingUploads
from harness.inspection import run_loop_until

NAME = ObjectName("b", "k")


class _Rig:
    """An upload of two parts that has moved. Stands for the origin, which takes the second part and has the first one
    fail, for the writer of records and for the journal."""

    def __init__(self) -> None:
        self.tasks, self.uploads, self.settled = TaskRegistry(), PendingUploads(), list[RecordId]()
        self.is_settling, self.may_settle, self.fails = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.uploads.create(RecordId("l", 0), AcceptedUpload(NAME, "u", (), 0.0))
        for number in (1, 2):
            part = AcceptedPart(NAME, "u", number, '"e"', 1, (), None, (), 0.0, 0, 0)
            self.uploads.add(PendingPart(RecordId("l", number), part, ()))
        self.uploads.move(RecordId("l", 3), MovedUpload(NAME, "u", "there", 1))
        self.moves = UploadMoves(
            self.uploads,
            cast("OriginUploads", self),
            cast("RecordWriter", self),
            self._settle,
            self.tasks,
            Peers(),
            lambda: True,
            RetryPauses(self.tasks, lambda _: "origin", self._sleep),
        )
        self.slept, self.woken, self.aborted = 0, asyncio.Event(), list[str]()
        self.published: list[tuple[str, RecordId]] = []

    async def publish(self, moved: MovedUpload, record: RecordId) -> None:
        """Tells nobody."""
        assert self.settled == [], "who does not know of the move misses what is settled"
        self.published.append((moved.origin_id, record))

    async def send_part(self, _name: ObjectName, _origin_id: str, part: PendingPart) -> str:
        if part.part.number == 1:
            await self.fails.wait()
            raise OriginUnreachable("no network")
        return '"e"'

    async def abort(self, _name: ObjectName, origin_id: str) -> None:
        self.aborted.append(origin_id)

    async def _settle(self, records: Sequence[RecordId]) -> None:
        self.is_settling.set()
        await self.may_settle.wait()
        self.settled += records
        for record in records:
            self.uploads.settle(record)

    async def _sleep(self, _: float) -> None:
        self.slept += 1
        await self.woken.wait()


async def test_it_ends_with_the_process_when_a_part_fails_then() -> None:
    rig = _Rig()
    rig.may_settle.set()
    rig.moves.carry_all()
    await rig.is_settling.wait()
    rig.fails.set()
    async with asyncio.timeout(5):
        await rig.tasks.close()
    assert rig.slept == 0


async def test_a_part_is_settled_though_another_one_fails() -> None:
    rig = _Rig()
    rig.moves.carry_all()
    await rig.is_settling.wait()
    rig.fails.set()
    rig.may_settle.set()
    await run_loop_until(lambda: rig.slept == 1)
    assert (rig.settled, rig.published) == ([RecordId("l", 2)], [("there", RecordId("l", 3))])
    assert list(rig.uploads.by_id["u"].parts) == [1]
    await rig.tasks.close()


async def test_a_part_that_is_being_settled_is_carried() -> None:
    """A completion that lists it would lack it."""
    rig = _Rig()
    rig.moves.carry_all()
    await rig.is_settling.wait()
    assert rig.uploads.carried == {RecordId("l", 2)}
    rig.may_settle.set()
    rig.fails.set()
    await run_loop_until(lambda: rig.slept == 1)
    assert rig.uploads.carried == set()
    await rig.tasks.close()


async def test_a_move_ends_when_a_completion_has_the_parts() -> None:
    rig = _Rig()
    rig.moves.carry_all()
    rig.may_settle.set()
    await run_loop_until(lambda: rig.settled == [RecordId("l", 2)])
    rig.uploads.end("u")
    rig.fails.set()
    rig.woken.set()
    await run_loop_until(lambda: rig.aborted == ["there"])
    await rig.tasks.close()


async def test_another_worker_is_told_of_a_move_once_more() -> None:
    """One that asks for it does not know: the drainer before this one may have been killed before it had told."""
    rig = _Rig()
    assert await rig.moves.receive({"upload": "u"}) == {"is_drainer": True}
    assert rig.published == [("there", RecordId("l", 3))]
    assert await rig.moves.receive({"upload": "another"}) == {"is_drainer": True}
    assert len(rig.published) == 1

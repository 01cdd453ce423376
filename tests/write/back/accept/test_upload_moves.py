"""Upload moves: what ends the carrying of parts. See scenarios/test_write_back_moves.py for the way of an upload."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from forebay.core.errors import OriginUnreachable, S3Error, Throttled
from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.storage.journal.log_writer import JournalFailed, RecordId
from forebay.write.back.accept.record_writer import RecordWriter
from forebay.write.back.accept.upload_moves import UploadMoves
from forebay.write.back.drain.origin_uploads import OriginUploads, UploadRefused
from forebay.write.back.drain.persist_outcome import PersistOutcome
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


class _Moving:
    """An upload of the journal that is to move. Stands for the origin, the writer of records and the other workers."""

    def __init__(self, *, is_draining: bool = True) -> None:
        self.tasks, self.uploads, self.is_draining = TaskRegistry(), PendingUploads(), is_draining
        self.upload = AcceptedUpload(NAME, "u", (), 0.0)
        self.uploads.create(RecordId("l", 0), self.upload)
        self.may_create = asyncio.Event()
        self.may_create.set()
        self.failure: Exception | None = None
        self.answers: dict[int, Document] = {}
        self.created, self.moved, self.asked = 0, 0, list[Document]()
        self.aborted, self.settled, self.published = list[str](), list[RecordId](), list[str]()
        double: Any = self
        self.moves = UploadMoves(
            self.uploads,
            double,
            double,
            self._settle,
            self.tasks,
            double,
            lambda: self.is_draining,
            RetryPauses(self.tasks, lambda _: "origin"),
            self._count,
        )

    async def move(self) -> None:
        await self.moves.move(self.uploads.by_id["u"])

    async def create(self, name: ObjectName, _headers: object) -> str:
        assert name == NAME
        self.created += 1
        await self.may_create.wait()
        if isinstance(self.failure, UploadRefused):
            raise self.failure
        return "there"

    async def abort(self, _name: ObjectName, origin_id: str) -> None:
        self.aborted.append(origin_id)

    def stamp(self) -> int:
        return 7

    async def append(self, _entry: MovedUpload) -> RecordId:
        if isinstance(self.failure, JournalFailed):
            raise self.failure
        return RecordId("l", 3)

    async def publish(self, moved: MovedUpload, record: RecordId) -> None:
        self.published.append(moved.origin_id)
        self.uploads.move(record, moved)

    async def call_all(self, request: Document) -> dict[int, Document]:
        self.asked.append(request)
        return self.answers

    async def _settle(self, records: Sequence[RecordId]) -> None:
        self.settled += records

    def _count(self) -> None:
        self.moved += 1


async def test_an_upload_moves_once() -> None:
    rig = _Moving()
    rig.may_create.clear()
    moving = [rig.tasks.spawn(rig.move(), "move") for _ in range(2)]
    await run_loop_until(lambda: rig.created)
    rig.may_create.set()
    await asyncio.gather(*moving)
    await rig.move()
    assert (rig.created, rig.moved, rig.published, rig.asked) == (1, 1, ["there"], [])
    assert rig.uploads.by_id["u"].origin_id == "there"
    assert (rig.settled, rig.aborted) == ([], [])


async def test_the_draining_worker_moves_for_others() -> None:
    """And tells of a move once more that another one has not heard of."""
    rig = _Moving()
    for published in (1, 2):
        assert await rig.moves.receive({"upload": "u"}) == {"is_drainer": True}
        assert (rig.created, rig.published) == (1, ["there"] * (1 + published))
    assert await rig.moves.receive({"upload": "unknown"}) == {"is_drainer": True}
    rig.is_draining = False
    assert await rig.moves.receive({"upload": "u"}) == {"is_drainer": False}
    assert len(rig.published) == 3


async def test_another_worker_is_asked_to_move() -> None:
    rig = _Moving(is_draining=False)
    cases: list[tuple[dict[int, Document], type[Exception], str]] = [
        ({}, Throttled, "no worker"),
        ({0: {"is_drainer": False}}, Throttled, "no worker"),
        ({0: {"is_drainer": False}, 1: {"is_drainer": True, "refusal": "NoSuchBucket"}}, S3Error, "NoSuchBucket"),
        ({0: {"is_drainer": True}}, Throttled, "at the moment"),
    ]
    for rig.answers, raised, reason in cases:
        with pytest.raises(raised) as refused:
            await rig.move()
        assert reason in str(refused.value)
    assert rig.asked == [{"kind": "move_upload", "upload": "u"}] * 4
    upload = rig.uploads.by_id["u"]
    rig.uploads.end("u")
    await rig.moves.move(upload)
    assert rig.created == 0, "it has ended, which its request will see"


@pytest.mark.parametrize(
    ("failure", "aborted"),
    [
        (UploadRefused(PersistOutcome("stuck", "403")), []),
        (JournalFailed("full", voided=True), ["there"]),
        (JournalFailed("full", voided=False), []),
    ],
)
async def test_a_move_that_fails_leaves_the_upload_here(failure: Exception, aborted: list[str]) -> None:
    """The record of one that is not void may be found by the next start, which needs the upload there."""
    rig = _Moving()
    rig.failure = failure
    with pytest.raises(S3Error, match="can't go on at the origin") as refused:
        await rig.move()
    assert (refused.value.code, rig.aborted, rig.published, rig.moved) == ("SlowDown", aborted, [], 0)
    assert await rig.moves.receive({"upload": "u"}) == {"is_drainer": True, "refusal": "SlowDown"}
    rig.failure = None
    await rig.move()
    assert rig.published == ["there"]


async def test_an_upload_that_ends_while_it_moves_is_aborted_there() -> None:
    rig = _Moving()
    rig.may_create.clear()
    moving = rig.tasks.spawn(rig.moves.receive({"upload": "u"}), "move")
    await run_loop_until(lambda: rig.created)
    rig.uploads.end("u")
    rig.may_create.set()
    assert await moving == {"is_drainer": True}
    assert (rig.settled, rig.aborted, rig.published, rig.moved) == ([RecordId("l", 3)], ["there"], [], 0)

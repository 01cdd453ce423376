"""Upload moves: the parts in the journal of a moved upload, on their way to the origin, and the end of one."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from forebay.core.errors import OriginUnreachable
from forebay.core.names import ObjectName
from forebay.core.requester import BACKGROUND, requester
from forebay.core.task_registry import TaskRegistry
from forebay.storage.journal.body_file import BodyDamaged
from forebay.storage.journal.log_writer import JournalFailed, RecordId
from forebay.write.back.accept.upload_moves import UploadMoves
from forebay.write.back.drain.origin_uploads import PARALLEL_PARTS, UploadRefused
from forebay.write.back.drain.persist_outcome import PersistOutcome
from forebay.write.back.pending.accepted_write import (
    AbortedUpload,
    AcceptedPart,
    AcceptedUpload,
    MovedUpload,
    OriginCompletion,
)
from forebay.write.back.pending.pending_uploads import PendingPart, PendingUpload, PendingUploads

NAME = ObjectName("b", "k")
MOVE = RecordId("l", 99)
UNREACHABLE = OriginUnreachable("no network")


def _refused(code: str) -> UploadRefused:
    return UploadRefused(PersistOutcome("failed", code, status=404, code=code))


class _Carrying:
    """An upload whose parts are in the journal. Stands for the origin, the writer of records, the other workers, the
    journal and the pauses."""

    def __init__(self, *parts: int, is_moved: bool = True) -> None:
        self.tasks, self.uploads, self.is_draining = TaskRegistry(), PendingUploads(), True
        self.uploads.create(RecordId("l", 0), AcceptedUpload(NAME, "u", (), 0.0))
        for number in parts:
            self.add(number, record=number)
        if is_moved:
            self.uploads.move(MOVE, MovedUpload(NAME, "u", "there", 1))
        self.failures: dict[int, list[Exception]] = {}
        """Of each part, what its next attempts fail with."""
        self.unsettled: list[OSError] = []
        """What the next settlements fail with."""
        self.unwritten: JournalFailed | None = None
        self.sent, self.requesters, self.settled = list[int](), set[str | None](), list[int]()
        self.sending = self.most_sending = self.damaged = 0
        self.aborted, self.ended, self.pauses = list[str](), list[OriginCompletion | None](), list[str]()
        double: Any = self
        self.moves = UploadMoves(
            self.uploads,
            double,
            double,
            self._settle,
            self.tasks,
            double,
            lambda: self.is_draining,
            double,
            on_damaged=self._damage,
        )

    @property
    def upload(self) -> PendingUpload:
        return self.uploads.by_id["u"]

    def add(self, number: int, *, record: int, stamp: int = 0) -> None:
        part = AcceptedPart(NAME, "u", number, '"e"', 1, (), None, (), 0.0, 0, stamp)
        self.uploads.add(PendingPart(RecordId("l", record), part, ()))

    async def carry(self, times: int = 1) -> None:
        for _ in range(times):
            self.moves.carry_all()
        async with asyncio.timeout(10):
            await self.tasks.wait_idle()

    # The origin

    async def send_part(self, _name: ObjectName, origin_id: str, part: PendingPart) -> str:
        self.sent.append(part.part.number)
        assert origin_id == "there"
        self.requesters.add(requester.get())
        self.sending += 1
        self.most_sending = max(self.most_sending, self.sending)
        await asyncio.sleep(0)
        self.sending -= 1
        if failures := self.failures.get(part.part.number):
            raise failures.pop(0)
        return '"e"'

    async def abort(self, _name: ObjectName, origin_id: str) -> None:
        self.aborted.append(origin_id)

    # The journal

    async def append(self, _ended: AbortedUpload) -> RecordId:
        if self.unwritten is not None:
            raise self.unwritten
        return RecordId("l", 100)

    async def publish(self, entry: MovedUpload | AbortedUpload, _record: RecordId) -> None:
        if isinstance(entry, AbortedUpload):
            self.ended.append(entry.completion)
            self.uploads.end(entry.upload_id)

    async def _settle(self, records: Sequence[RecordId]) -> None:
        if self.unsettled:
            raise self.unsettled.pop()
        for record in records:
            self.settled.append(record.number)
            self.uploads.settle(record)

    def _damage(self) -> None:
        self.damaged += 1

    # The pauses

    def of(self, bucket: str) -> "_Carrying":
        assert bucket == NAME.bucket
        return self

    def reset(self) -> None:
        self.pauses.append("reset")

    async def wait(self, *, is_unanswered: bool) -> None:
        self.pauses.append("unanswered" if is_unanswered else "refused")


async def test_the_draining_worker_alone_carries_each_part_once() -> None:
    rig = _Carrying(1, 2)
    rig.is_draining = False
    await rig.carry()
    assert rig.sent == []
    rig.is_draining = True
    await rig.carry(times=2)
    assert (sorted(rig.sent), sorted(rig.settled), rig.pauses, rig.aborted) == ([1, 2], [1, 2], [], [])
    assert rig.requesters == {BACKGROUND}
    assert requester.get() != BACKGROUND


async def test_an_upload_of_the_journal_is_not_carried(caplog: pytest.LogCaptureFixture) -> None:
    rig = _Carrying(1, is_moved=False)
    await rig.carry()
    assert (rig.sent, caplog.text) == ([], "")


async def test_a_part_that_comes_later_is_carried_as_well() -> None:
    rig = _Carrying(1)
    await rig.carry()
    rig.add(2, record=2)
    await rig.carry()
    assert rig.sent == [1, 2]


async def test_some_parts_are_carried_at_a_time() -> None:
    rig = _Carrying(*range(1, 3 * PARALLEL_PARTS))
    await rig.carry()
    assert rig.most_sending == PARALLEL_PARTS
    assert len(rig.settled) == 3 * PARALLEL_PARTS - 1


async def test_a_replaced_part_is_settled_and_not_carried() -> None:
    rig = _Carrying(1)
    rig.add(1, record=5, stamp=1)
    await rig.carry()
    assert (rig.sent, sorted(rig.settled)) == ([1], [1, 5])


async def test_a_replaced_part_that_is_left_alone_is_settled() -> None:
    rig = _Carrying(1)
    rig.add(1, record=5, stamp=1)
    rig.uploads.settle(RecordId("l", 5))
    await rig.carry()
    assert (rig.sent, rig.settled) == ([], [1])


@pytest.mark.parametrize("is_replaced", [False, True])
async def test_what_a_full_disk_left_is_carried_again(*, is_replaced: bool) -> None:
    rig = _Carrying(1)
    if is_replaced:
        rig.add(1, record=5, stamp=1)
    rig.unsettled = [OSError(28, "no space")]
    await rig.carry()
    assert sorted(rig.settled) == ([1, 5] if is_replaced else [1])
    assert len([pause for pause in rig.pauses if pause != "reset"]) == 1


async def test_pauses_grow_while_nothing_is_carried() -> None:
    """And tell apart an origin that refuses from one that can't be reached."""
    rig = _Carrying(1, 2)
    rig.failures = {1: [UNREACHABLE, _refused("SlowDown")]}
    await rig.carry()
    assert rig.pauses == ["reset", "unanswered", "refused"]
    assert sorted(rig.settled) == [1, 2]


async def test_an_upload_that_is_gone_at_the_origin_has_ended(caplog: pytest.LogCaptureFixture) -> None:
    rig = _Carrying(1)
    rig.failures = {1: [_refused("NoSuchUpload")]}
    await rig.carry()
    assert (rig.sent, rig.ended, rig.pauses) == ([1], [None], [])
    assert "was aborted at the origin" in caplog.text


async def test_a_damaged_part_is_counted_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    rig = _Carrying(1, 2)
    rig.failures = {1: [BodyDamaged("a bit")]}
    await rig.carry()
    assert (rig.damaged, sorted(rig.settled), rig.pauses) == (1, [1, 2], [])
    [record] = [each for each in caplog.records if each.levelname == "ERROR"]
    assert "part 1 of the upload" in record.getMessage()
    assert "is lost: a bit" in record.getMessage()


@pytest.mark.parametrize("is_read_again", [False, True])
async def test_parts_of_an_upload_that_ends_stay_with_its_completion(*, is_read_again: bool) -> None:
    """Those that were not begun are not sent, none is settled, and the upload there is aborted. `is_read_again`: the
    journal was, and has it."""
    rig = _Carrying(*range(1, PARALLEL_PARTS + 2))
    rig.moves.carry_all()
    while rig.sending < PARALLEL_PARTS:  # noqa: ASYNC110 # it runs in this loop
        await asyncio.sleep(0)
    rig.uploads.end("u")
    if is_read_again:
        rig.uploads.create(RecordId("l", 200), AcceptedUpload(NAME, "u", (), 0.0))
    async with asyncio.timeout(10):
        await rig.tasks.wait_idle()
    assert (sorted(rig.sent), rig.settled, rig.aborted) == (list(range(1, PARALLEL_PARTS + 1)), [], ["there"])


async def test_a_part_that_is_replaced_on_its_way_is_left_to_the_next() -> None:
    rig = _Carrying(*range(1, PARALLEL_PARTS + 2))
    last = PARALLEL_PARTS + 1
    rig.moves.carry_all()
    while rig.sending < PARALLEL_PARTS:  # noqa: ASYNC110 # it runs in this loop
        await asyncio.sleep(0)
    rig.add(last, record=50, stamp=1)
    async with asyncio.timeout(10):
        await rig.tasks.wait_idle()
    assert rig.sent.count(last) == 1, "the later one alone"
    assert {last, 50} <= set(rig.settled)


@pytest.mark.parametrize(
    ("operation", "status", "ends"),
    [
        ("CompleteMultipartUpload", 200, True),
        ("CompleteMultipartUpload", 404, True),
        ("CompleteMultipartUpload", 400, False),
        ("AbortMultipartUpload", 204, True),
        ("AbortMultipartUpload", 503, False),
        ("UploadPart", 200, False),
        ("UploadPart", 404, False),
    ],
)
async def test_which_answers_end_an_upload(operation: str, status: int, *, ends: bool) -> None:
    rig, completion = _Carrying(), OriginCompletion('"e"', (), "digest")
    await rig.moves.note(rig.upload, operation, status, completion)
    assert rig.ended == ([completion] if ends else [])


@pytest.mark.parametrize("is_moved", [False, True])
async def test_an_upload_that_its_client_left_is_aborted_where_it_is(*, is_moved: bool) -> None:
    rig = _Carrying(is_moved=is_moved)
    await rig.moves.abandon(rig.upload)
    assert (rig.aborted, rig.ended) == (["there"] if is_moved else [], [None])


async def test_an_end_that_is_not_written_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Its records expire; whoever abandons an upload tries again."""
    rig = _Carrying()
    rig.unwritten = JournalFailed("full", voided=True)
    await rig.moves.end(rig.upload)
    assert "can't be noted: " in caplog.text
    with pytest.raises(JournalFailed):
        await rig.moves.abandon(rig.upload)
    assert rig.ended == []

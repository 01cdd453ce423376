"""Upload endings: the draining worker decides which end of an upload counts, wherever the request came to."""

import asyncio
from typing import cast

import pytest

from forebay.core.errors import S3Error
from forebay.core.task_registry import TaskRegistry
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.storage.journal.log_writer import RecordId
from forebay.write.back.drain_duty import DrainDuty
from forebay.write.back.pending.shown_records import ShownRecords
from forebay.write.back.upload_endings import UploadEndings
from harness.inspection import run_loop_until
from harness.jumping_loop import JumpingLoop

RECORD, OTHER = RecordId("l", 1), RecordId("l", 2)


class _Worker:
    """Stands for the drain duty, the shown records and the peers of one worker."""

    def __init__(self, *others: "_Worker", is_drainer: bool = False, is_durable: bool = True) -> None:
        self.is_ready, self.is_durable = is_drainer, is_durable
        self.refused: dict[RecordId, None] = {}
        self.others, self.calls = others, 0
        self.endings = UploadEndings(cast("DrainDuty", self), cast("ShownRecords", self), cast("Peers", self))

    async def wait_settled(self, record: RecordId) -> bool:
        assert self.is_ready, "another one settles"
        return self.is_durable

    async def call_all(self, request: Document) -> dict[int, Document]:
        assert request["kind"] == "upload_ending"
        self.calls += 1
        return {number: await each.endings.receive(request) for number, each in enumerate(self.others)}


@pytest.mark.parametrize("is_here", [False, True])
async def test_the_draining_worker_decides(*, is_here: bool) -> None:
    """What any other worker has refused does not count."""
    drainer, bystander = _Worker(is_drainer=True), _Worker()
    drainer.refused[RECORD] = bystander.refused[OTHER] = None
    asked = drainer if is_here else _Worker(bystander, drainer)
    assert [await asked.endings.is_refused(each) for each in (RECORD, OTHER)] == [True, False]
    assert drainer.calls == 0


@pytest.mark.parametrize("is_here", [False, True])
async def test_a_decision_that_is_not_durable_is_none(*, is_here: bool) -> None:
    drainer = _Worker(is_drainer=True, is_durable=False)
    asked = drainer if is_here else _Worker(drainer)
    with pytest.raises(S3Error, match="The journal can't be written") as refused:
        await asked.endings.is_refused(RECORD)
    assert refused.value.code == "SlowDown"


async def test_a_worker_that_takes_the_drain_over_is_waited_for() -> None:
    """Each worker may be the one."""
    other, tasks = _Worker(), TaskRegistry()
    asked = _Worker(other)
    for taken_by in (asked, other):
        asked.is_ready = other.is_ready = False
        taken_by.refused[RECORD] = None
        deciding = tasks.spawn(asked.endings.is_refused(RECORD), "decide")
        await run_loop_until(lambda: asked.calls)
        taken_by.is_ready = True
        assert await deciding
        asked.calls = 0
        taken_by.refused.clear()


def test_without_a_draining_worker_nothing_is_decided() -> None:
    async def scenario() -> None:
        asked, loop = _Worker(_Worker()), asyncio.get_running_loop()
        assert isinstance(loop, JumpingLoop)
        with loop.jumping(), pytest.raises(S3Error, match="No worker carries writes out at the moment") as refused:
            await asked.endings.is_refused(RECORD)
        assert (refused.value.code, asked.calls) == ("SlowDown", 100)

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        runner.run(scenario())

"""What has to come after acknowledged writes waits for them, and not for longer than its client would."""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest
from multidict import CIMultiDict

from forebay.core.errors import Throttled
from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.pending_objects import PendingObjects, PendingVersion
from forebay.write.back.write_barriers import WAIT_SECONDS, WriteBarriers
from forebay.write.forward_request import WriteContext
from harness.jumping_loop import JumpingLoop

OLDER, NAME = ObjectName("b", "older"), ObjectName("b", "key")


def _pending(*names: ObjectName) -> PendingObjects:
    async def read(_ref: object, _within: object) -> memoryview:
        raise AssertionError("nothing reads")

    pending = PendingObjects(read)
    for number, name in enumerate(names):
        pending.add(name, PendingVersion(RecordId("log", number), number, None))
    return pending


def _write(rule: str) -> WriteContext:
    forward = SimpleNamespace(target=SimpleNamespace(bucket="b"), request=SimpleNamespace(headers=CIMultiDict()))
    return cast("WriteContext", SimpleNamespace(forward=forward, decision=SimpleNamespace(write=rule)))


def test_a_write_waits_for_thirty_seconds() -> None:
    async def wait() -> float:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, JumpingLoop)
        began = loop.time()
        with loop.jumping(), pytest.raises(Throttled):
            await WriteBarriers(_pending(OLDER)).before_write(_write("back"), (NAME,))
        return loop.time() - began

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        assert WAIT_SECONDS <= runner.run(wait()) < WAIT_SECONDS + 1


def test_a_write_goes_on_once_what_it_waits_for_is_settled() -> None:
    async def wait() -> None:
        loop, pending = asyncio.get_running_loop(), _pending(OLDER, NAME)
        assert isinstance(loop, JumpingLoop)
        write = WriteBarriers(pending).before_write(_write("back"), (NAME,))
        waiting = TaskRegistry().spawn(write, "write")
        await asyncio.sleep(0)
        pending.add(ObjectName("b", "later"), PendingVersion(RecordId("log", 9), 9, None))
        with loop.jumping():
            await asyncio.sleep(WAIT_SECONDS - 1)
        for number, name in enumerate((OLDER, NAME)):
            assert not waiting.done()
            pending.remove(name, RecordId("log", number))
        await waiting

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        runner.run(wait())


async def test_outside_of_a_back_rule_a_write_waits_for_its_object_alone() -> None:
    await WriteBarriers(_pending(OLDER)).before_write(_write("through"), (NAME,))

"""The drainer: failures are tried again for ever, refusals wait for a person, and order is kept throughout."""

import asyncio
from collections.abc import Callable

import pytest

from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.policy.drain_order import WriteInterval
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.pending_objects import PendingVersion
from forebay.write.back.accepted_write import AcceptedWrite
from forebay.write.back.drainer import FIRST_PAUSE, LONGEST_PAUSE, Drainer
from forebay.write.back.persister import PersistOutcome, PreparedUpload

DONE = PersistOutcome("done")
FAILED = PersistOutcome("failed", "503")
STUCK = PersistOutcome("stuck", "403")


class _ScriptedOrigin:
    """Answers attempts by what a test has set for each key."""

    def __init__(self) -> None:
        self.outcomes: dict[str, list[PersistOutcome]] = {}
        self.attempts: list[tuple[str, bool]] = []

    async def prepare(self, write: AcceptedWrite) -> PreparedUpload | PersistOutcome | None:
        return None

    async def look(self, write: AcceptedWrite) -> PersistOutcome | None:
        return None

    async def commit(
        self, write: AcceptedWrite, version: PendingVersion, prepared: PreparedUpload | None, *, may_be_done: bool
    ) -> PersistOutcome:
        self.attempts.append((write.name.key, may_be_done))
        return self.outcomes.get(write.name.key, [DONE]).pop(0)


class _Rig:
    def __init__(self) -> None:
        self.origin, self.tasks = _ScriptedOrigin(), TaskRegistry()
        self.pauses: list[float] = []
        self.settled: list[str] = []
        self.fail_settling: Callable[[], bool] = lambda: False
        self.drainer = Drainer(self.origin, self._settle, self.tasks, self._sleep)  # type: ignore[arg-type] # it has the methods
        self._number = 0

    async def _settle(self, write: AcceptedWrite, record: RecordId, outcome: PersistOutcome) -> None:
        if self.fail_settling():
            raise OSError(5, "EIO")
        self.settled.append(write.name.key)

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)

    def add(self, key: str, began: int, written: int, *, is_recovered: bool = False) -> RecordId:
        self._number += 1
        record = RecordId("log", self._number)
        write = AcceptedWrite("delete", ObjectName("b", key), WriteInterval(began, written))
        self.drainer.add(write, PendingVersion(record, written, None), is_recovered=is_recovered)
        return record


async def test_a_failure_is_tried_again_with_longer_pauses() -> None:
    rig = _Rig()
    rig.origin.outcomes["a"] = [FAILED] * 10 + [DONE]
    rig.add("a", 1, 2)
    rig.add("b", 3, 4)
    await rig.tasks.wait_idle()
    assert rig.settled == ["a", "b"]
    assert rig.pauses == [min(FIRST_PAUSE * 2**nth, LONGEST_PAUSE) for nth in range(10)]
    assert rig.origin.attempts[:2] == [("a", False), ("a", True)], "after an attempt it may be done"
    assert not rig.drainer.entries


async def test_what_is_stuck_holds_up_what_depends_on_it() -> None:
    rig = _Rig()
    rig.origin.outcomes["a"] = [STUCK, STUCK, DONE]
    stuck = rig.add("a", 1, 2)
    rig.add("beside", 1, 3)
    rig.add("after", 3, 4)
    await rig.tasks.wait_idle()
    assert rig.settled == ["beside"]
    assert (rig.drainer.entries[stuck].is_stuck, rig.drainer.entries[stuck].reason) == (True, "403")
    rig.drainer.retry(stuck)
    await rig.tasks.wait_idle()
    assert rig.settled == ["beside"]
    rig.drainer.retry(stuck)
    await rig.tasks.wait_idle()
    assert rig.settled == ["beside", "a", "after"]


async def test_only_a_stuck_write_can_be_discarded() -> None:
    rig = _Rig()
    rig.origin.outcomes["a"] = [STUCK]
    stuck, after = rig.add("a", 1, 2), rig.add("after", 3, 4)
    with pytest.raises(ValueError, match="stuck"):
        rig.drainer.discard(after)
    await rig.tasks.wait_idle()
    assert rig.drainer.discard(stuck).name.key == "a"
    await rig.tasks.wait_idle()
    assert rig.settled == ["after"]


async def test_a_recovered_write_may_be_done_already() -> None:
    rig = _Rig()
    rig.add("a", 1, 2, is_recovered=True)
    await rig.tasks.wait_idle()
    assert rig.origin.attempts == [("a", True)]


async def test_settling_is_tried_again() -> None:
    rig = _Rig()
    failures = [True, True, False]
    rig.fail_settling = lambda: failures.pop(0)
    rig.add("a", 1, 2)
    await rig.tasks.wait_idle()
    assert (rig.settled, rig.pauses) == (["a"], [FIRST_PAUSE, 2 * FIRST_PAUSE])

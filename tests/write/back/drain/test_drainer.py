"""The drainer: failures are tried again for ever, refusals wait for a person, and order is kept throughout."""

import asyncio
from collections.abc import Callable
from typing import Literal

import pytest

from forebay.core.heads import ObjectFacts
from forebay.core.names import ObjectName, Version
from forebay.core.requester import BACKGROUND, requester
from forebay.core.task_registry import TaskRegistry
from forebay.policy.drain_order import WriteInterval
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.pending_objects import PendingVersion
from forebay.write.back.drain.drainer import CONCURRENCY, LARGE, Drainer
from forebay.write.back.drain.persist_outcome import PersistOutcome
from forebay.write.back.drain.retry_pauses import FIRST_PAUSE, LONGEST_PAUSE, RetryPauses
from forebay.write.back.drain.upload_preparation import PreparedUpload
from forebay.write.back.pending.accepted_write import AcceptedWrite

DONE = PersistOutcome("done")
FAILED = PersistOutcome("failed", "503")
STUCK = PersistOutcome("stuck", "403")


class _ScriptedOrigin:
    """Answers attempts by what a test has set for each key."""

    def __init__(self) -> None:
        self.outcomes: dict[str, list[PersistOutcome]] = {}
        self.attempts: list[tuple[str, bool]] = []
        self.first: list[bool] = []
        """Whether each attempt was told that it is the first."""

    async def prepare(self, write: AcceptedWrite) -> PreparedUpload | PersistOutcome | None:
        return None

    async def look(self, write: AcceptedWrite) -> PersistOutcome | None:
        return None

    async def commit(
        self,
        write: AcceptedWrite,
        version: PendingVersion,
        prepared: PreparedUpload | None,
        *,
        may_be_done: bool,
        is_first: bool,
    ) -> PersistOutcome:
        self.attempts.append((write.name.key, may_be_done))
        self.first.append(is_first)
        return self.outcomes.get(write.name.key, [DONE]).pop(0)


class _Rig:
    def __init__(self, origin: _ScriptedOrigin | None = None) -> None:
        self.origin, self.tasks = origin or _ScriptedOrigin(), TaskRegistry()
        self.pauses: list[float] = []
        self.settled: list[str] = []
        self.fail_settling: Callable[[], bool] = lambda: False
        self.on_pause: Callable[[], object] = lambda: None
        pauses = RetryPauses(self.tasks, lambda _: "origin", self._sleep)
        self.drainer = Drainer(
            self.origin,  # type: ignore[arg-type] # it has the methods
            self._settle,
            self.tasks,
            pauses,
            is_superseded=lambda write: write.name.key in self.superseded,
        )
        self.superseded = set[str]()
        """Keys of which the origin has a later write."""
        self._number = 0
        self._settling = asyncio.Condition()

    async def _settle(self, write: AcceptedWrite, record: RecordId, outcome: PersistOutcome) -> None:
        if self.fail_settling():
            raise OSError(5, "EIO")
        async with self._settling:
            self.settled.append(write.name.key)
            self._settling.notify_all()

    async def wait_settled(self, count: int) -> None:
        async with self._settling:
            await self._settling.wait_for(lambda: len(self.settled) >= count)

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.on_pause()
        await asyncio.sleep(0)

    def add(
        self,
        key: str,
        began: int,
        written: int,
        *,
        is_recovered: bool = False,
        kind: Literal["put", "complete", "delete"] = "delete",
    ) -> RecordId:
        self._number += 1
        record, interval = RecordId("log", self._number), WriteInterval(began, written)
        facts = None if kind == "delete" else ObjectFacts(Version('"etag"'), 2 * LARGE, "", ())
        write = AcceptedWrite(kind, ObjectName("b", key), interval, facts=facts)
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


@pytest.mark.parametrize("is_recovered", [False, True])
async def test_only_the_first_attempt_is_told_that_it_is(is_recovered: bool) -> None:
    rig = _Rig()
    rig.origin.outcomes["a"] = [PersistOutcome("failed"), PersistOutcome("failed"), DONE]
    rig.add("a", 0, 1, is_recovered=is_recovered)
    await rig.tasks.wait_idle()
    assert rig.origin.first == [True, False, False]


async def test_a_recovered_write_may_be_done_already() -> None:
    rig = _Rig()
    rig.add("a", 1, 2, is_recovered=True)
    await rig.tasks.wait_idle()
    assert rig.origin.attempts == [("a", True)]


async def test_settling_is_tried_again() -> None:
    rig = _Rig()
    failures = [True, True, False]
    rig.fail_settling = lambda: failures.pop(0)
    record, said = rig.add("a", 1, 2), set[str]()
    rig.on_pause = lambda: said.add(rig.drainer.entries[record].reason)
    await rig.tasks.wait_idle()
    assert (rig.settled, rig.pauses) == (["a"], [FIRST_PAUSE, 2 * FIRST_PAUSE])
    assert said == {"the origin has it, and the journal can't be written: EIO"}


async def test_others_are_carried_out_while_nothing_can_be_settled() -> None:
    """But for later writes of an object whose last one is not settled. One alone is tried again for all."""
    rig = _Rig()
    rig.fail_settling, rig.on_pause = lambda: len(rig.pauses) < 5, lambda: None
    first, _, again, last = rig.add("a", 1, 2), rig.add("b", 3, 4), rig.add("a", 5, 6), rig.add("c", 7, 8)
    seen: list[list[str]] = []
    rig.on_pause = lambda: seen.append([key for key, _ in rig.origin.attempts])
    await rig.wait_settled(2)
    assert rig.drainer.blocked_by(last) in {again, None}
    await rig.tasks.wait_idle()
    assert seen[-1] == ["a", "b"]
    assert rig.pauses == [FIRST_PAUSE * 2**nth for nth in range(5)]
    assert [key for key, _ in rig.origin.attempts] == ["a", "b", "a", "c"]
    assert sorted(rig.settled) == ["a", "a", "b", "c"]
    assert first not in rig.drainer.entries


class _HeldOrigin(_ScriptedOrigin):
    """Holds large bodies, and uploads that are prepared, until they are `let`."""

    def __init__(self) -> None:
        super().__init__()
        self.let, self.full = asyncio.Event(), asyncio.Event()
        self.held = 0
        self.requesters: set[str] = set()

    async def _hold(self) -> None:
        self.requesters.add(requester.get())
        self.held += 1
        if self.held == CONCURRENCY:
            self.full.set()
        await self.let.wait()
        self.held -= 1

    async def prepare(self, write: AcceptedWrite) -> PreparedUpload | PersistOutcome | None:
        if write.kind != "complete":
            return None
        await self._hold()
        return PreparedUpload("upload", [])

    async def commit(
        self,
        write: AcceptedWrite,
        version: PendingVersion,
        prepared: PreparedUpload | None,
        *,
        may_be_done: bool,
        is_first: bool,
    ) -> PersistOutcome:
        if write.kind == "put" and write.size > LARGE:
            await self._hold()
        return await super().commit(write, version, prepared, may_be_done=may_be_done, is_first=is_first)


@pytest.mark.parametrize("kind", ["put", "complete"])
@pytest.mark.parametrize("is_recovered", [False, True])
async def test_small_writes_pass_large_ones(kind: Literal["put", "complete"], is_recovered: bool) -> None:
    origin = _HeldOrigin()
    rig = _Rig(origin)
    large, small = [f"large{number}" for number in range(2 * CONCURRENCY)], ["small0", "small1"]
    for key in [*large, *small]:
        rig.add(key, 1, 2, is_recovered=is_recovered, kind=kind if key in large else "delete")
    await origin.full.wait()
    await rig.wait_settled(len(small))
    assert (rig.settled, origin.held) == (small, CONCURRENCY)
    origin.let.set()
    await rig.tasks.wait_idle()
    assert sorted(rig.settled) == sorted([*large, *small])
    assert origin.requesters == {BACKGROUND}
    assert requester.get() != BACKGROUND


@pytest.mark.parametrize("is_discarded", [False, True])
async def test_a_prepared_upload_that_is_not_completed_is_aborted(is_discarded: bool) -> None:
    """Its write is superseded, or given up by a person."""
    aborted: list[str] = []

    class _Prepares(_ScriptedOrigin):
        async def prepare(self, write: AcceptedWrite) -> PreparedUpload:
            return PreparedUpload("prepared", [])

        async def abort(self, write: AcceptedWrite, prepared: PreparedUpload) -> None:
            aborted.append(prepared.upload_id)

    origin = _Prepares()
    origin.outcomes["a"] = [STUCK]
    rig = _Rig(origin)
    if not is_discarded:
        rig.superseded.add("a")
    record = rig.add("a", 1, 2, kind="complete")
    await rig.tasks.wait_idle()
    if is_discarded:
        rig.drainer.discard(record)
        await rig.tasks.wait_idle()
    assert (rig.settled, len(origin.attempts)) == (([], 1) if is_discarded else (["a"], 0))
    assert (aborted, rig.drainer.entries) == (["prepared"], {})

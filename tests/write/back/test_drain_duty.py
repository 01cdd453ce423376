"""The drain duty is taken over in steps, and nothing that comes meanwhile overtakes what is known."""

import asyncio
import errno
import os
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import pairwise
from math import log2
from types import SimpleNamespace
from typing import Any

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.cooperative import CooperativeWork, run_to_completion
from forebay.core.heads import ObjectFacts
from forebay.core.names import ObjectName, Version
from forebay.core.task_registry import TaskRegistry
from forebay.peers.owners import Peers
from forebay.policy.drain_order import WriteInterval
from forebay.storage.journal.body_file import BodyRef
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.pending_objects import PendingObjects, PendingVersion
from forebay.storage.journal.recovery_scan import JournalScan
from forebay.write.back.drain.own_uploads import OwnUploads
from forebay.write.back.drain_duty import ADDED, DrainDuty
from forebay.write.back.journal_watch import JournalWatch
from forebay.write.back.pending.accepted_write import AcceptedWrite
from harness.jumping_loop import JumpingLoop


async def _read_body(_ref: BodyRef, _span: Span) -> bytes:
    raise OSError


class Added(list[tuple[str, int, bool]]):
    """A drainer that notes what it was given: key, time of writing, whether it may have been carried out already."""

    def add(self, write: AcceptedWrite, version: PendingVersion, *, is_recovered: bool = False) -> None:
        assert version.written == write.interval.written
        self.append((write.name.key, version.written, is_recovered))


class Node:
    """A worker that knows writes, and takes the duty over."""

    def __init__(self) -> None:
        self.pending = PendingObjects(_read_body)  # type: ignore[arg-type] # nothing is read
        self.added, self.moved = Added(), list[int]()
        self.left = list[int]()
        """How many writes were added when what another worker had left was settled."""
        self.shown: Any = SimpleNamespace(
            writes={},
            kept={},
            stopped={},
            remembering=nullcontext,
            known=frozenset,
            refuse_without=len,
            settle_left=lambda: self.left.append(len(self.added)),
            with_upload=lambda record: [record, RecordId("part", 0)],
        )
        moves: Any = SimpleNamespace(carry_all=lambda: self.moved.append(len(self.added)))
        drainer: Any = self.added
        settlement: Any = self
        nothing: Any = None
        self.tasks = TaskRegistry()
        self.duty = DrainDuty(drainer, settlement, moves, nothing, self.tasks)
        self.settled = list[RecordId]()
        self.is_full = False

    async def settle(self, records: Sequence[RecordId]) -> None:
        """As Settlement does."""
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.settled += records

    def show(self, key: str, written: int, *, is_recovered: bool = False) -> RecordId:
        """As ShownRecords does."""
        record, facts = RecordId("log", written), ObjectFacts(Version('"etag"'), 1, "", ())
        write = AcceptedWrite("put", ObjectName("b", key), WriteInterval(written, written), facts=facts)
        version = PendingVersion(record, written, None)
        self.shown.writes[record] = write
        self.pending.add(write.name, version)
        self.duty.carry_out(write, version, is_recovered=is_recovered)
        return record

    def is_draining(self) -> bool:
        """Returns whether this worker has the duty."""
        return self.duty.is_taken

    def drop(self, key: str, record: RecordId) -> None:
        del self.shown.writes[record]
        self.pending.remove(ObjectName("b", key), record)


async def test_what_a_later_write_has_superseded_is_settled() -> None:
    """The last drainer had that arrive, and told nobody: it is shown no more, and not settled."""
    node = Node()
    superseded = node.show("k", 1)
    node.pending.remove(ObjectName("b", "k"), superseded)
    node.duty.begin_assuming()
    run_to_completion(node.duty.assume(node.shown, node.pending))
    await node.tasks.wait_idle()
    assert (node.added, node.settled) == ([], [superseded, RecordId("part", 0)])


async def test_who_decides_waits_until_that_is_recorded() -> None:
    node, records = Node(), [RecordId("log", 1), RecordId("log", 2)]
    assert not node.duty.settle_soon(records), "another worker does it"
    node.duty.begin_assuming()
    assert node.duty.settle_soon(records)
    assert await node.duty.wait_settled(records[1])
    assert node.settled == records
    node.is_full = True
    node.duty.settle_soon(records[:1])
    assert not await node.duty.wait_settled(records[0])
    node.is_full = False
    await node.duty.settle_left()
    assert await node.duty.wait_settled(records[0])


async def test_what_is_known_is_added_in_its_order_in_steps() -> None:
    node, count = Node(), 10 * ADDED
    for written in reversed(range(count)):
        node.show(f"k{written % 7}", written)
    await asyncio.sleep(0)
    assert node.added == [], "another worker has the duty"
    node.duty.begin_assuming()
    before = most = steps = 0
    for _ in node.duty.assume(node.shown, node.pending):
        most, before, steps = max(most, len(node.added) - before), len(node.added), steps + 1
    assert node.added == [(f"k{written % 7}", written, True) for written in range(count)]
    assert most <= ADDED
    assert steps >= count // ADDED
    assert node.moved == [count]


async def test_a_write_that_comes_meanwhile_is_added_behind_what_is_known() -> None:
    node, count = Node(), 3 * ADDED
    for written in range(count):
        node.show("k", written)
    node.duty.begin_assuming()
    node.show("k", count)  # before what is known is looked at
    found = node.show("k", count + 1, is_recovered=True)  # a scan has found it
    work = node.duty.assume(node.shown, node.pending)
    while not node.added:
        next(work)
    node.show("k", count + 2)
    gone = node.show("k", count + 3)
    node.drop("k", gone)
    node.drop("k", RecordId("log", count - 1))
    await asyncio.sleep(0)
    assert len(node.added) < count
    run_to_completion(work)
    expected = [("k", written, True) for written in range(count - 1)]
    expected += [("k", count, False), ("k", found.number, True), ("k", count + 2, False)]
    assert node.added == expected
    node.show("k", count + 4)
    await asyncio.sleep(0)
    assert node.added[len(expected) :] == [("k", count + 4, False)]


class Loader:
    """Takes `steps` to show nothing that the node does not know, and fails once if it is to."""

    def __init__(self, steps: int, *errors: Exception) -> None:
        self._steps = steps
        self._errors = list(errors)

    def load(self, _scan: object, *, is_first: bool) -> CooperativeWork[None]:
        assert is_first
        for _ in range(self._steps):
            yield
        if self._errors:
            raise self._errors.pop()


def watch_of(node: Node, loader: Loader) -> JournalWatch:
    """The watch of a node whose drainer has ended."""

    async def scan() -> JournalScan:
        return JournalScan([])

    journal = SimpleNamespace(try_become_drainer=lambda: True, scan=scan)
    state: Any = SimpleNamespace(journal=journal, pending=node.pending)
    room, exchange = SimpleNamespace(is_full=False), SimpleNamespace(forget_here=len)
    records: Any = SimpleNamespace(shown=node.shown, loader=loader, exchange=exchange, room=room)
    return JournalWatch(state, records, node.duty, OwnUploads(Peers()), lambda _: None)


@pytest.mark.parametrize("steps", [2, 4, 8])
async def test_a_takeover_goes_on_when_the_watch_is_cancelled(steps: int) -> None:
    node, count, background = Node(), 10 * ADDED, TaskRegistry()
    for written in range(count):
        node.show("k", written)
    background.spawn(watch_of(node, Loader(2)).take_over(), "watch the journal")
    for _ in range(steps):
        await asyncio.sleep(0)
    await background.close()
    assert node.is_draining()
    assert len(node.added) < count
    node.show("k", count)
    await node.tasks.wait_idle()
    assert node.added == [("k", written, written < count) for written in range(count + 1)]
    assert node.moved == [count + 1]


async def test_a_takeover_that_fails_is_begun_anew(caplog: pytest.LogCaptureFixture) -> None:
    node = Node()
    node.show("k", 0)
    watch = watch_of(node, Loader(2, ValueError("of a record")))
    await watch.take_over()
    assert not node.is_draining()
    assert "take the drain duty over failed" in caplog.text
    node.show("k", 1)
    await asyncio.sleep(0)
    assert node.added == [], "it would overtake what is known"
    await watch.take_over()
    assert node.is_draining()
    assert node.added == [("k", 0, True), ("k", 1, True)]
    assert node.left == [2]


def test_a_takeover_that_fails_is_tried_again_with_growing_pauses() -> None:
    """It reads the whole journal each time, and nobody else has the lock."""

    async def scenario() -> list[float]:
        node, times, loop = Node(), list[float](), asyncio.get_running_loop()
        node.show("k", 0)
        assert isinstance(loop, JumpingLoop)

        class Failing(Loader):
            def load(self, scan: object, *, is_first: bool) -> CooperativeWork[None]:
                times.append(loop.time())
                return super().load(scan, is_first=is_first)

        failing = Failing(2, *8 * [ValueError("of a record")])
        watching = TaskRegistry().spawn(watch_of(node, failing).run(), "watch")
        with loop.jumping():
            while not (node.added or watching.done()):  # noqa: ASYNC110 # the clock jumps
                await asyncio.sleep(1)
        assert node.added == [("k", 0, True)]
        watching.cancel()
        await asyncio.wait([watching])
        assert watching.cancelled()
        return [after - before for before, after in pairwise(times)]

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        pauses = runner.run(scenario())
    assert [round(log2(pause)) for pause in pauses[:5]] == [1, 2, 3, 4, 5]  # on a busy machine each takes longer
    assert all(59 < pause < 80 for pause in pauses[5:])
    assert len(pauses) == 8


async def test_what_a_full_disk_left_is_settled_later() -> None:
    """The next start would show it again: an older write, or the parts of an upload that was aborted."""
    node, records = Node(), [RecordId("log", 1), RecordId("log", 2)]
    assert not node.duty.settle_soon(records), "another worker has the duty"
    run_to_completion(node.duty.assume(node.shown, node.pending))
    node.duty.is_taken = node.is_full = True
    assert node.duty.settle_soon(records)
    await node.tasks.wait_idle()
    await node.duty.settle_left()
    assert node.settled == []
    node.is_full = False
    for _ in range(2):
        await node.duty.settle_left()
        assert node.settled == records


async def test_the_end_of_the_worker_ends_a_takeover() -> None:
    node = Node()
    node.show("k", 0)
    taking_over = TaskRegistry().spawn(watch_of(node, Loader(9)).take_over(), "watch the journal")
    for _ in range(4):
        await asyncio.sleep(0)
    assert node.is_draining()
    await node.tasks.close()
    await taking_over
    assert not node.is_draining()
    assert node.added == []

"""The drain duty is taken over in steps, and nothing that comes meanwhile overtakes what is known."""

import asyncio
from types import SimpleNamespace
from typing import Any

from forebay.core.byte_ranges import Span
from forebay.core.cooperative import run_to_completion
from forebay.core.heads import ObjectFacts
from forebay.core.names import ObjectName, Version
from forebay.core.task_registry import TaskRegistry
from forebay.policy.drain_order import WriteInterval
from forebay.storage.journal.body_file import BodyRef
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.pending_objects import PendingObjects, PendingVersion
from forebay.write.back.accepted_write import AcceptedWrite
from forebay.write.back.drain_duty import ADDED, DrainDuty


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
        self.shown: Any = SimpleNamespace(writes={})
        self.added, self.moved = Added(), list[int]()
        moves: Any = SimpleNamespace(carry_all=lambda: self.moved.append(len(self.added)))
        drainer: Any = self.added
        nothing: Any = None
        self.duty = DrainDuty(drainer, nothing, moves, nothing, TaskRegistry())

    def show(self, key: str, written: int, *, is_recovered: bool = False) -> RecordId:
        """As ShownRecords does."""
        record, facts = RecordId("log", written), ObjectFacts(Version('"etag"'), 1, "", ())
        write = AcceptedWrite("put", ObjectName("b", key), WriteInterval(written, written), facts=facts)
        version = PendingVersion(record, written, None)
        self.shown.writes[record] = write
        self.pending.add(write.name, version)
        self.duty.carry_out(write, version, is_recovered=is_recovered)
        return record

    def settle(self, key: str, record: RecordId) -> None:
        del self.shown.writes[record]
        self.pending.remove(ObjectName("b", key), record)


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
    node.settle("k", gone)
    node.settle("k", RecordId("log", count - 1))
    await asyncio.sleep(0)
    assert len(node.added) < count
    run_to_completion(work)
    expected = [("k", written, True) for written in range(count - 1)]
    expected += [("k", count, False), ("k", found.number, True), ("k", count + 2, False)]
    assert node.added == expected
    node.show("k", count + 4)
    await asyncio.sleep(0)
    assert node.added[len(expected) :] == [("k", count + 4, False)]

"""Settlement: the object can be read here at every moment, and nothing is removed that is still needed."""

import errno
import os
from types import SimpleNamespace
from typing import Any

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.heads import ObjectFacts
from forebay.core.names import BlockId, ObjectName, Version
from forebay.metadata.staged_objects import StagedBody
from forebay.policy.drain_order import WriteInterval
from forebay.storage.journal.body_file import BodyDamaged, BodyRef
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.pending_objects import PendingVersion
from forebay.write.back.drain.persist_outcome import PersistOutcome
from forebay.write.back.pending.accepted_write import AcceptedWrite
from forebay.write.back.settlement import Settlement

NAME, BLOCK = ObjectName("b", "k"), 4
RECORD, PART = RecordId("l", 1), RecordId("l", 0)
FIRST, SECOND = BodyRef("first", 10, 0), BodyRef("second", 5, 0)
FACTS = ObjectFacts(Version('"acknowledged"'), 6, "", (), checksums_known=True)
WRITE = AcceptedWrite("put", NAME, WriteInterval(1, 2), facts=FACTS, block_size=BLOCK)


class _Rig:
    """What Settlement works with, as a list of the steps that it takes."""

    def __init__(self, write: AcceptedWrite = WRITE) -> None:
        self.steps: list[Any] = []
        self.removed: list[int] = []
        self.damage: Exception | None = None
        self.is_full = False
        self.failures: dict[BodyRef, OSError] = {}
        self.write = write
        self.last: PendingVersion | None = write.version(RECORD, ())
        state: Any = SimpleNamespace(journal=self, pending=self)
        cached: Any = SimpleNamespace(tiers=self, staged=self, invalidator=self)
        known: Any = self
        self.settlement = Settlement(
            state, cached, known, known, lambda write: self.steps.append(("counted", write.name)), self.removed.append
        )

    def current(self, _name: ObjectName) -> Any:
        return self.last

    async def read_parts(self, _parts: object, within: Span) -> bytes:
        if self.damage is not None:
            raise self.damage
        return b"abcdef"[within.start : within.stop]

    def stage(self, block: BlockId, buffer: bytes) -> None:
        self.steps.append((block.number, buffer))

    def install(self, _name: ObjectName, body: StagedBody) -> None:
        self.steps.append(("install", body.etag))

    async def wait_installed(self, _name: ObjectName) -> None:
        self.steps.append("installed")

    def with_upload(self, record: RecordId) -> list[RecordId]:
        return [record, PART]

    def bodies_of(self, record: RecordId) -> tuple[BodyRef, ...]:
        return {RECORD: (FIRST,), PART: (SECOND,)}[record]

    async def settle(self, records: list[RecordId], *, is_carried_out: bool) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.steps.append(("settle", records, is_carried_out))

    async def forget(self, records: list[RecordId], *, is_persisted: bool) -> None:
        self.steps.append(("forget", records, is_persisted))

    async def remove_bodies(self, bodies: list[BodyRef]) -> dict[BodyRef, OSError]:
        self.steps.append(("remove", bodies))
        return self.failures

    def announce_unsettled(self, record: RecordId, _reason: str) -> None:
        self.steps.append(("unsettled", record))

    def mark_in_doubt(self, _names: object) -> None:
        self.steps.append("in doubt")

    async def invalidate(self, _names: object) -> None:
        self.steps.append("invalidate")


def _settled(*, is_persisted: bool) -> list[Any]:
    records = [RECORD, PART]
    return [("settle", records, is_persisted), ("forget", records, is_persisted), ("remove", [FIRST, SECOND])]


INSTALLED = [(0, b"abcd"), (1, b"ef"), ("install", '"at the origin"'), "installed"]


async def test_an_object_is_readable_at_every_step() -> None:
    rig = _Rig()
    await rig.settlement.persisted(WRITE, RECORD, PersistOutcome("done", etag='"at the origin"'))
    assert rig.steps == [*INSTALLED, *_settled(is_persisted=True), ("counted", NAME)]
    assert rig.removed == [15]


async def test_an_answer_without_an_etag_keeps_the_acknowledged_one() -> None:
    rig = _Rig()
    await rig.settlement.persisted(WRITE, RECORD, PersistOutcome("done"))
    assert ("install", '"acknowledged"') in rig.steps


async def test_what_was_staged_as_it_was_sent_is_not_read_again() -> None:
    rig = _Rig()
    await rig.settlement.persisted(WRITE, RECORD, PersistOutcome("done", is_staged=True))
    assert rig.steps[:2] == [("install", '"acknowledged"'), "installed"]


@pytest.mark.parametrize("why", ["replaced", "deleted", "gone"])
async def test_nothing_is_cached_that_readers_do_not_see(why: str) -> None:
    deletion = AcceptedWrite("delete", NAME, WriteInterval(3, 4))
    rig = _Rig(deletion if why == "deleted" else WRITE)
    if why != "deleted":
        rig.last = WRITE.version(RecordId("l", 9), ()) if why == "replaced" else None
    await rig.settlement.persisted(rig.write, RECORD, PersistOutcome("done"))
    assert rig.steps == [*_settled(is_persisted=True), ("counted", NAME)]


@pytest.mark.parametrize("damage", [BodyDamaged("its MiB 0"), OSError(errno.EIO, "EIO")])
async def test_bytes_that_cannot_be_read_are_not_cached(damage: Exception, caplog: pytest.LogCaptureFixture) -> None:
    rig = _Rig()
    rig.damage = damage
    await rig.settlement.persisted(WRITE, RECORD, PersistOutcome("done"))
    assert rig.steps[2:] == [*_settled(is_persisted=True), ("counted", NAME)]
    assert "b/k is at the origin, but is not cached" in caplog.text


async def test_what_cannot_be_settled_stays_and_is_told() -> None:
    rig = _Rig()
    rig.is_full = True
    with pytest.raises(OSError, match="No space"):
        await rig.settlement.persisted(WRITE, RECORD, PersistOutcome("done", etag='"at the origin"'))
    assert (rig.steps, rig.removed) == ([*INSTALLED, ("unsettled", RECORD)], [])


async def test_a_body_that_stays_is_not_counted_as_removed(caplog: pytest.LogCaptureFixture) -> None:
    rig = _Rig()
    rig.failures = {FIRST: OSError(errno.EIO, "EIO")}
    await rig.settlement.settle([RECORD, PART])
    assert (rig.steps, rig.removed) == (_settled(is_persisted=False), [5])
    assert "the body first can't be removed now" in caplog.text


async def test_a_write_that_is_given_up_is_in_doubt_before() -> None:
    rig = _Rig()
    await rig.settlement.given_up(WRITE, RECORD)
    assert rig.steps == ["in doubt", "invalidate", *_settled(is_persisted=False)]

"""Records are shown once, whatever order they come in, and not again once they are settled."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pytest

from forebay.core.heads import ObjectFacts
from forebay.core.names import ObjectName, Version
from forebay.policy.drain_order import WriteInterval
from forebay.storage.journal.body_file import BodyRef
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.pending_objects import DELETED, PendingObjects, PendingVersion
from forebay.storage.memory.memory_tier import MemoryTier
from forebay.storage.tiers import Tiers
from forebay.write.back.pending.accepted_write import (
    AbortedUpload,
    AcceptedPart,
    AcceptedUpload,
    AcceptedWrite,
    CompletedPart,
    JournalEntry,
    MovedUpload,
)
from forebay.write.back.pending.pending_uploads import PendingUpload, PendingUploads
from forebay.write.back.pending.shown_records import ShownRecords
from forebay.write.invalidation import Invalidator
from forebay.write.repeated_completion import completion_digest

NAME = ObjectName("b", "k")
MOVED = MovedUpload(NAME, "u", "at-origin", 9)


class _Fences:
    def __init__(self) -> None:
        self.names: list[ObjectName] = []

    def fence(self, affected: Sequence[ObjectName]) -> None:
        self.names += affected


class _Rig:
    def __init__(self) -> None:
        self.pending, self.uploads, self.fences = PendingObjects(self._read), PendingUploads(), _Fences()
        self.carried_out: list[RecordId] = []
        self.superseded: list[RecordId] = []
        self.moved: list[str] = []
        self.is_draining = True
        self.memory = MemoryTier(1 << 20, lambda _: None)
        self.shown = ShownRecords(
            self.pending,
            self.uploads,
            cast("Invalidator", self.fences),
            Tiers(self.memory, None),
        )
        self.shown.listener = self

    def carry_out(self, _write: AcceptedWrite, version: PendingVersion, *, is_recovered: bool) -> None:
        self.carried_out.append(version.record)

    def carry_parts(self, upload: PendingUpload) -> None:
        self.moved.append(upload.origin_id)

    def settle_soon(self, records: Sequence[RecordId]) -> bool:
        self.superseded += records
        return self.is_draining

    async def _read(self, _ref: object, _within: object) -> memoryview:
        raise AssertionError("nothing reads")


def _put(written: int) -> AcceptedWrite:
    facts = ObjectFacts(Version(f'"{written}"'), 1, "Mon, 01 Jan 2024 00:00:00 GMT", (), checksums_known=True)
    return AcceptedWrite("put", NAME, WriteInterval(0, written), facts=facts, block_size=1 << 20)


def _id(number: int) -> RecordId:
    return RecordId("l", number)


def test_a_write_is_shown_once() -> None:
    rig = _Rig()
    for _ in range(2):
        rig.shown.show(_put(1), _id(1), b"x", is_recovered=False)
    assert (rig.carried_out, rig.fences.names, len(rig.pending)) == ([_id(1)], [NAME], 1)
    assert not rig.uploads.is_completed(_put(1).upload_id)
    rig.shown.forget(_id(1))
    rig.shown.show(_put(1), _id(1), b"x", is_recovered=True)
    assert (rig.carried_out, len(rig.pending), rig.shown.writes) == ([_id(1)], 0, {})


def test_a_record_may_be_settled_before_it_is_heard_of() -> None:
    rig = _Rig()
    rig.shown.forget(_id(1))
    rig.shown.show(_put(1), _id(1), b"x", is_recovered=False)
    assert len(rig.pending) == 0


def test_the_later_write_is_seen_whichever_comes_first() -> None:
    rig = _Rig()
    rig.shown.show(AcceptedWrite("delete", NAME, WriteInterval(0, 2)), _id(2), b"", is_recovered=False)
    rig.shown.show(_put(1), _id(1), b"x", is_recovered=False)
    assert rig.pending.head(NAME) is DELETED


def test_a_write_is_not_shown_over_a_later_one_that_arrived() -> None:
    """Its worker told of it late. What it has in the journal is settled, parts included."""
    rig = _Rig()
    rig.shown.show(_put(5), _id(5), b"x", is_recovered=False)
    rig.shown.forget(_id(5), is_persisted=True)
    create, part, complete, _ = _upload(1)
    for number, entry in ((4, _put(4)), (0, create), (1, part), (2, complete)):
        rig.shown.show(entry, _id(number), b"x", is_recovered=False)
    assert rig.superseded == [_id(4), _id(2), _id(0), _id(1)]
    assert (rig.carried_out, rig.shown.writes, len(rig.pending), rig.shown.sums.writes) == ([_id(5)], {}, 0, 0)


def test_a_shown_write_takes_its_object_out_of_memory() -> None:
    rig = _Rig()
    head = _put(1).head
    assert head is not None
    rig.memory.put_head(NAME, head)
    rig.shown.show(_put(2), _id(2), b"x", is_recovered=False)
    assert rig.memory.head(NAME) is None


@pytest.mark.parametrize("keep", [False, True])
def test_a_completed_upload_ends_with_its_object(*, keep: bool) -> None:
    rig = _Rig()
    entries: list[JournalEntry] = [
        AcceptedUpload(NAME, "u", (), 0.0),
        AcceptedPart(NAME, "u", 1, '"1"', 1, (), None, (), 0.0, 0, 0),
        AcceptedPart(NAME, "u", 2, '"2"', 1, (), None, (), 0.0, 0, 0),
        AcceptedWrite("complete", NAME, WriteInterval(0, 4), upload_id="u", parts=(CompletedPart(2, '"2"', _id(2)),)),
    ]
    for number, entry in enumerate(entries):
        if keep:
            rig.shown.keep(entry, _id(number), b"%d" % number, "of another origin")
        else:
            rig.shown.show(entry, _id(number), b"%d" % number, is_recovered=False)
    version = rig.shown.kept[_id(3)].version if keep else rig.pending.current(NAME)
    assert version is not None
    assert [part.content for part in version.parts] == [b"2"]
    assert rig.shown.with_upload(_id(3)) == [_id(3), _id(0), _id(1), _id(2)]
    assert rig.uploads.by_id == {}
    for record in rig.shown.with_upload(_id(3)):
        rig.shown.forget(record)
    assert (rig.shown.kept, rig.shown.writes, rig.uploads.parts) == ({}, {}, {})


def test_a_kept_write_is_seen_by_nobody() -> None:
    rig = _Rig()
    rig.shown.keep(_put(1), _id(1), b"x", "of another origin")
    assert (rig.carried_out, rig.fences.names, len(rig.pending)) == ([], [], 0)
    assert rig.shown.kept[_id(1)].reason == "of another origin"


@pytest.mark.parametrize("keep", [False, True])
def test_an_aborted_upload_leaves_nothing(*, keep: bool) -> None:
    rig = _Rig()
    abort = AbortedUpload(NAME, "u")
    entries: list[JournalEntry] = [AcceptedUpload(NAME, "u", (), 0.0), MOVED, abort, abort]
    for number, entry in enumerate(entries):
        if keep:
            rig.shown.keep(entry, _id(number), b"", "")
        else:
            rig.shown.show(entry, _id(number), b"", is_recovered=False)
    assert rig.superseded == [_id(0), _id(1), _id(2), _id(3)], "the second abort has no upload"


def _upload(record: int) -> list[JournalEntry]:
    part = AcceptedPart(NAME, "u", 1, '"1"', 1, (), None, (), 0.0, 0, 0)
    complete = AcceptedWrite(
        "complete",
        NAME,
        WriteInterval(0, 4),
        _put(4).headers,
        _put(4).facts,
        upload_id="u",
        parts=(CompletedPart(1, '"1"', _id(record)),),
    )
    return [AcceptedUpload(NAME, "u", (), 0.0), part, complete, AbortedUpload(NAME, "u")]


@pytest.mark.parametrize("is_draining", [False, True])
def test_an_abort_before_a_completion_ends_the_upload(*, is_draining: bool) -> None:
    """In the worker that settles the parts; the others hear from it."""
    rig = _Rig()
    rig.is_draining = is_draining
    create, part, complete, abort = _upload(1)
    for number, entry in ((0, create), (1, part), (3, abort), (2, complete)):
        rig.shown.show(entry, _id(number), b"x", is_recovered=False)
    assert rig.superseded[:3] == [_id(0), _id(1), _id(3)]
    if is_draining:
        assert (rig.superseded[3:], list(rig.shown.refused), rig.shown.writes) == ([_id(2)], [_id(2)], {})
    else:
        assert (rig.superseded[3:], list(rig.shown.refused), list(rig.shown.writes)) == ([], [], [_id(2)])


@pytest.mark.parametrize("is_draining", [False, True])
def test_an_abort_after_a_completion_takes_nothing_away(*, is_draining: bool) -> None:
    """The worker that drains refuses it."""
    rig = _Rig()
    rig.is_draining = is_draining
    create, part, complete, abort = _upload(1)
    for number, entry in enumerate((create, part, complete, abort)):
        rig.shown.show(entry, _id(number), b"x", is_recovered=False)
    assert (rig.superseded, rig.carried_out, rig.moved) == ([_id(3)], [_id(2)], [])
    assert list(rig.shown.refused) == ([_id(3)] if is_draining else [])


def test_of_two_aborts_none_is_refused() -> None:
    rig = _Rig()
    create, part, _, abort = _upload(1)
    for number, entry in enumerate((create, part, abort, abort)):
        rig.shown.show(entry, _id(number), b"x", is_recovered=False)
    assert (rig.superseded, list(rig.shown.refused)) == ([_id(0), _id(1), _id(2), _id(3)], [])


def test_a_replaced_part_stays_until_its_upload_ends() -> None:
    """A completion that is being written may have listed it."""
    rig = _Rig()
    create, part, complete, _ = _upload(1)
    for number, entry in ((0, create), (1, part), (5, part)):
        rig.shown.show(entry, _id(number), b"%d" % number, is_recovered=False)
    assert rig.superseded == []
    rig.shown.show(complete, _id(2), b"", is_recovered=False)
    version = rig.pending.current(NAME)
    assert version is not None
    assert [each.content for each in version.parts] == [b"1"]
    assert set(rig.shown.with_upload(_id(2))) == {_id(0), _id(1), _id(2), _id(5)}
    rig.shown.show(part, _id(6), b"6", is_recovered=False)
    assert rig.superseded == [_id(6)], "a part that comes after the end"


@pytest.mark.parametrize("order", [(2, 0, 1), (0, 2, 1)])
def test_parts_that_come_after_their_completion_are_kept(order: tuple[int, ...]) -> None:
    """Nothing but the arrival of the object settles what a completion lists."""
    rig = _Rig()
    create, part, complete, _ = _upload(1)
    for number in order:
        rig.shown.show((create, part, complete)[number], _id(number), b"x", is_recovered=False)
    assert (rig.superseded, rig.uploads.by_id, list(rig.uploads.parts)) == ([], {}, [_id(1)])
    assert (list(rig.shown.refused), rig.carried_out) == ([], [_id(2)])
    rig.shown.forget(_id(2))
    rig.shown.show(part, _id(3), b"late", is_recovered=False)
    assert rig.superseded == [_id(3)]


def test_parts_of_a_moved_upload_are_carried_whenever_they_come() -> None:
    rig = _Rig()
    create, part, _, abort = _upload(1)
    for number, entry in ((0, create), (9, MOVED), (1, part)):
        rig.shown.show(entry, _id(number), b"x", is_recovered=False)
    assert rig.moved == ["at-origin", "at-origin"]
    rig.shown.forget(_id(1))
    assert (rig.uploads.by_id["u"].parts, rig.uploads.parts) == ({}, {})
    rig.shown.show(abort, _id(3), b"", is_recovered=False)
    assert rig.superseded == [_id(0), _id(9), _id(3)]
    rig.shown.show(MOVED, _id(10), b"", is_recovered=False)
    assert rig.superseded[3:] == [_id(10)], "it has ended"


@pytest.mark.parametrize("is_carried", [False, True])
def test_a_completion_after_the_move_needs_its_parts(*, is_carried: bool) -> None:
    """It was accepted by a worker that had not heard of the move yet. The origin alone may have its parts."""
    rig = _Rig()
    create, part, complete, _ = _upload(1)
    for number, entry in ((0, create), (1, part), (9, MOVED)):
        rig.shown.show(entry, _id(number), b"x", is_recovered=False)
    rig.uploads.carried.update([_id(1)] if is_carried else [])
    rig.shown.show(complete, _id(2), b"", is_recovered=False)
    if is_carried:
        assert (list(rig.shown.refused), rig.superseded, rig.shown.writes) == ([_id(2)], [_id(2)], {})
        assert list(rig.uploads.by_id) == ["u"], "the upload goes on"
    else:
        assert (list(rig.shown.refused), rig.superseded, rig.carried_out) == ([], [], [_id(2)])
        assert set(rig.shown.with_upload(_id(2))) == {_id(0), _id(1), _id(2), _id(9)}


@pytest.mark.parametrize("settled", [1, 5])
def test_a_completion_without_a_part_is_refused_late(settled: int) -> None:
    """The drainer has ended that had settled the part and told nobody."""
    rig = _Rig()
    create, part, complete, _ = _upload(1)
    for number, entry in ((0, create), (1, part), (5, part), (2, complete)):
        rig.shown.show(entry, _id(number), b"x", is_recovered=False)
    rig.shown.forget(_id(settled))
    rig.shown.refuse_without({_id(settled)})
    if settled == 1:
        assert (list(rig.shown.refused), rig.superseded, rig.shown.writes) == ([_id(2)], [_id(2)], {})
        assert (len(rig.pending), rig.shown.sums.writes) == (0, 0)
        rig.shown.settle_orphans()
        assert rig.superseded == [_id(2), _id(5)], "its other parts"
    else:
        assert (list(rig.shown.refused), list(rig.shown.writes)) == ([], [_id(2)])


def test_a_kept_completion_without_a_part_stays() -> None:
    """It is of another origin: a person decides."""
    rig = _Rig()
    create, part, complete, _ = _upload(1)
    for number, entry in ((0, create), (1, part), (2, complete)):
        rig.shown.keep(entry, _id(number), b"x", "of another origin")
    rig.shown.refuse_without({_id(1)})
    assert (list(rig.shown.refused), list(rig.shown.kept)) == ([], [_id(2)])


@pytest.mark.parametrize("is_carried", [False, True])
def test_a_start_completes_a_moved_upload_that_is_whole_here(*, is_carried: bool) -> None:
    rig = _Rig()
    create, part, complete, _ = _upload(1)
    found = [(0, create), (9, MOVED), *([] if is_carried else [(1, part)]), (2, complete)]
    for number, entry in found:
        rig.shown.show(entry, _id(number), b"x", is_recovered=True)
    if is_carried:
        assert (list(rig.shown.refused), rig.carried_out) == ([_id(2)], [])
    else:
        assert (list(rig.shown.refused), rig.carried_out) == ([], [_id(2)])
        assert set(rig.shown.with_upload(_id(2))) == {_id(0), _id(1), _id(2), _id(9)}


def _another(record: int) -> AcceptedWrite:
    """A completion of the same upload by another list."""
    complete = _upload(record)[2]
    assert isinstance(complete, AcceptedWrite)
    return complete._replace(interval=WriteInterval(0, 5))


@pytest.mark.parametrize("is_recovered", [False, True])
def test_of_two_completions_that_are_found_none_is_refused(*, is_recovered: bool) -> None:
    """The last drainer may have accepted either of them. Both have their parts, which are settled with the last one."""
    rig = _Rig()
    create, part, complete, _ = _upload(1)
    for number, entry in ((0, create), (1, part), (5, part), (2, complete), (3, _another(5))):
        payload = b"document" if entry is complete else b"x"
        rig.shown.show(entry, _id(number), payload, is_recovered=is_recovered)
    if not is_recovered:
        assert (list(rig.shown.refused), rig.carried_out) == ([_id(3)], [_id(2)])
        return
    assert (list(rig.shown.refused), rig.carried_out) == ([], [_id(2), _id(3)])
    assert (rig.shown.with_upload(_id(2)), rig.shown.with_upload(_id(3))) == ([_id(2)], [_id(3)])
    rig.shown.forget(_id(2), is_persisted=True)
    assert set(rig.shown.with_upload(_id(3))) == {_id(0), _id(1), _id(3), _id(5)}
    for record in rig.shown.with_upload(_id(3)):
        rig.shown.forget(record, is_persisted=True)
    rig.shown.show(_another(5), _id(6), b"yet another", is_recovered=True)
    assert list(rig.shown.refused) == [_id(6)], "the parts are settled"


def test_a_repeated_completion_that_is_found_is_settled() -> None:
    """Also by a start, which knows of one completion of the upload already: it is the same."""
    rig = _Rig()
    create, part, complete, _ = _upload(1)
    for number, entry in ((0, create), (1, part), (2, complete), (3, complete)):
        rig.shown.show(entry, _id(number), b"document", is_recovered=True)
    assert (rig.superseded, list(rig.shown.refused), rig.carried_out) == ([_id(3)], [], [_id(2)])


def test_what_a_drainer_has_left_is_settled_by_the_next() -> None:
    """But for the parts of a completion that it may have accepted."""
    rig = _Rig()
    rig.is_draining = False
    create, part, complete, abort = _upload(1)
    for number, entry in ((0, create), (1, part), (5, part), (3, abort), (2, complete)):
        rig.shown.show(entry, _id(number), b"x", is_recovered=False)
    rig.superseded, rig.is_draining = [], True
    rig.shown.settle_left()
    assert set(rig.superseded) == {_id(0), _id(5), _id(3)}


def test_what_a_scan_finds_of_ended_uploads_is_settled() -> None:
    rig = _Rig()
    create, part, complete, _ = _upload(1)
    rig.shown.refuse_found(_id(7))
    rig.shown.settle_found([_id(8)])
    assert (rig.superseded, list(rig.shown.refused), rig.shown.in_memory) == ([_id(7), _id(8)], [_id(7)], 0)
    rig.shown.refuse_found(_id(7))
    rig.shown.settle_found([_id(8)])
    assert rig.superseded == [_id(7), _id(8)], "they are known"
    rig.superseded.clear()
    for number, entry in ((0, create), (1, part)):
        rig.shown.show(entry, _id(number), b"x", is_recovered=True)
    rig.shown.show(replace(cast("AcceptedPart", part), upload_id="gone"), _id(9), b"x", is_recovered=True)
    rig.shown.settle_orphans()
    rig.shown.show(complete, _id(2), b"x", is_recovered=True)
    rig.shown.settle_orphans()
    assert rig.superseded == [_id(9), _id(9)]


def test_earlier_writes_are_hidden_once_a_later_one_arrives() -> None:
    """They are settled by the drainer, which looks at what has arrived."""
    rig = _Rig()
    for written in (5, 3, 4, 6):
        rig.shown.show(_put(written), _id(written), b"x", is_recovered=False)
    rig.shown.forget(_id(5), is_persisted=True)
    assert [version.written for version in rig.pending.versions(NAME)] == [6]
    assert list(rig.shown.writes) == [_id(3), _id(4), _id(6)]
    assert rig.shown.last_settled.supersedes(_put(4))


def test_a_write_that_has_arrived_is_shown_until_it_is_settled() -> None:
    """As a scan of the journal says that it has arrived."""
    rig = _Rig()
    for written in (4, 5):
        rig.shown.show(_put(written), _id(written), b"x", is_recovered=False)
    rig.shown.note_arrived(NAME, 5)
    assert [version.written for version in rig.pending.versions(NAME)] == [5]


def test_a_dropped_write_supersedes_nothing() -> None:
    rig = _Rig()
    for written in (4, 5):
        rig.shown.show(_put(written), _id(written), b"x", is_recovered=False)
    rig.shown.forget(_id(5))
    assert [version.written for version in rig.pending.versions(NAME)] == [4]
    assert not rig.shown.last_settled.supersedes(_put(4))


def test_what_comes_after_a_stopped_write_is_held_up() -> None:
    """As the drain order has it: of its object, or begun after it was written. Until it is tried again, or settled."""
    rig = _Rig()
    writes = {
        "before": (ObjectName("b", "before"), WriteInterval(0, 2)),
        "stopped": (NAME, WriteInterval(3, 5)),
        "beside": (ObjectName("b", "beside"), WriteInterval(5, 6)),
        "after": (ObjectName("b", "after"), WriteInterval(6, 7)),
        "elsewhere": (ObjectName("c", "k"), WriteInterval(8, 9)),
    }
    for number, (name, interval) in enumerate(writes.values()):
        rig.shown.show(_put(0)._replace(name=name, interval=interval), _id(number), b"x", is_recovered=False)

    def held_up() -> list[str]:
        return [key for key, (name, _) in writes.items() if rig.shown.is_held_up((name,))]

    assert held_up() == []
    for is_settled in (False, True):
        rig.shown.note_stopped(_id(1), "403")
        assert held_up() == ["stopped", "after"]
        assert not rig.shown.is_held_up((ObjectName("b", "none"),))
        assert rig.shown.is_held_up(lambda name: name.bucket == "b")
        assert not rig.shown.is_held_up(lambda name: name.bucket == "c")
        if is_settled:
            rig.shown.forget(_id(1))
        else:
            rig.shown.note_stopped(_id(1), "")
        assert held_up() == []
    rig.shown.note_stopped(_id(1), "403")
    assert rig.shown.stopped == {}, "it is settled"


def test_the_backlog_is_summed_as_records_come_and_go() -> None:
    """Those of another origin too, each once."""
    rig = _Rig()
    for _ in range(2):
        rig.shown.show(_put(1)._replace(accepted_at=7.0), _id(1), b"1", is_recovered=False)
        rig.shown.keep(_put(2)._replace(accepted_at=5.0), _id(2), b"2", "another origin")
    assert (rig.shown.sums.writes, rig.shown.sums.objects, rig.shown.sums.size, rig.shown.oldest(9.0)) == (2, 1, 2, 5.0)
    for _ in range(2):
        rig.shown.forget(_id(2))
    assert (rig.shown.sums.writes, rig.shown.sums.size, rig.shown.oldest(9.0)) == (1, 1, 7.0)
    rig.shown.forget(_id(1))
    assert (rig.shown.sums.writes, rig.shown.sums.objects, rig.shown.oldest(9.0)) == (0, 0, 9.0)


def test_small_bodies_are_counted_while_they_are_pending() -> None:
    """Also those of replaced parts and of another origin; not the document of a completion."""
    rig = _Rig()
    create, part, complete, _ = _upload(1)
    for number, entry in ((0, create), (1, part), (5, part), (2, complete)):
        rig.shown.show(entry, _id(number), b"" if number == 0 else b"four", is_recovered=False)
    for _ in range(2):
        rig.shown.show(_put(9), _id(9), b"seven b", is_recovered=False)
        rig.shown.keep(_put(8), _id(8), b"ten bytes.", "another origin")
    assert rig.shown.in_memory == 8 + 7 + 10
    for record, left in ((9, 18), (8, 8), (1, 4), (1, 4), (5, 0), (2, 0)):
        rig.shown.forget(_id(record))
        assert rig.shown.in_memory == left


@pytest.mark.parametrize("keep", [False, True])
def test_a_record_has_its_bodies_until_it_is_forgotten(*, keep: bool) -> None:
    """They are removed when it is settled: those of writes and parts, kept ones included."""
    rig, refs = _Rig(), [BodyRef(f"{number}", 1, 0) for number in range(2)]
    create, part, _, _ = _upload(1)
    entries = (create, replace(cast("AcceptedPart", part), bodies=(refs[0],)), _put(9)._replace(bodies=(refs[1],)))
    for number, entry in enumerate(entries):
        if keep:
            rig.shown.keep(entry, _id(number), b"", "another origin")
        else:
            rig.shown.show(entry, _id(number), b"", is_recovered=False)
    assert [rig.shown.bodies_of(_id(number)) for number in range(4)] == [(), (refs[0],), (refs[1],), ()]
    for number in range(3):
        rig.shown.forget(_id(number))
    assert [rig.shown.bodies_of(_id(number)) for number in range(3)] == [()] * 3


@pytest.mark.parametrize("is_persisted", [False, True])
def test_a_completion_is_remembered_once_the_origin_has_it(*, is_persisted: bool) -> None:
    """So that it can be repeated. One that was given up has never been."""
    rig = _Rig()
    create, part, complete, _ = _upload(1)
    for number, entry in ((0, create), (1, part), (2, complete)):
        rig.shown.show(entry, _id(number), b"document", is_recovered=False)
    rig.shown.forget(_id(2), is_persisted=is_persisted)
    found = rig.uploads.completion("u", completion_digest(b"document"))
    assert (found.is_at_origin if found is not None else None) == (True if is_persisted else None)


def test_what_is_settled_is_not_left_to_the_next_drainer() -> None:
    rig = _Rig()
    rig.is_draining = False
    create, _, _, abort = _upload(1)
    for number, entry in ((0, create), (3, abort)):
        rig.shown.show(entry, _id(number), b"", is_recovered=False)
    rig.shown.forget(_id(3))
    rig.superseded, rig.is_draining = [], True
    rig.shown.settle_left()
    assert rig.superseded == []


def test_a_write_that_is_settled_late_holds_up_nothing() -> None:
    """The journal could not note it at first."""
    rig = _Rig()
    rig.shown.show(_put(1), _id(1), b"x", is_recovered=False)
    rig.shown.note_unsettled(_id(1), "read-only")
    assert rig.shown.unsettled == {_id(1): "read-only"}
    assert rig.shown.forget(_id(1), is_persisted=True) == _put(1)
    rig.shown.note_unsettled(_id(1), "read-only")
    assert (rig.shown.unsettled, rig.shown.forget(_id(1))) == ({}, None)

"""Settled writes: the latest are kept in mind, and all records while the journal is scanned."""

from forebay.core.names import ObjectName
from forebay.policy.drain_order import WriteInterval
from forebay.storage.journal.log_writer import RecordId
from forebay.write.back.pending.accepted_write import AcceptedWrite
from forebay.write.back.pending.settled_records import REMEMBERED, LastSettled, SettledRecords

NAME = ObjectName("bucket", "key")


def _write(written: int, name: ObjectName = NAME) -> AcceptedWrite:
    return AcceptedWrite("delete", name, WriteInterval(written - 1, written))


def test_a_scan_forgets_nothing() -> None:
    records = SettledRecords()
    known = [RecordId("l", number) for number in range(REMEMBERED + 2)]
    with records.remembering():
        with records.remembering():
            for record in known[:-1]:
                records.add(record)
        assert known[0] in records
    assert [record in records for record in known[:3]] == [False, True, True]
    records.add(known[-1])
    assert [record in records for record in (*known[:3], known[-1])] == [False, False, True, True]


def test_an_earlier_write_of_the_object_is_superseded() -> None:
    settled = LastSettled()
    assert not settled.supersedes(_write(5))
    settled.add(NAME, 7)
    settled.add(NAME, 6)
    assert settled.supersedes(_write(5))
    assert not settled.supersedes(_write(7))
    assert not settled.supersedes(_write(8))
    assert not settled.supersedes(_write(5, ObjectName("bucket", "other")))


def test_the_objects_settled_longest_ago_are_forgotten() -> None:
    settled = LastSettled()
    for number in (*range(REMEMBERED), 0, REMEMBERED):
        settled.add(ObjectName("bucket", str(number)), 7)
    found = [settled.supersedes(_write(5, ObjectName("bucket", str(number)))) for number in (0, 1, 2)]
    assert found == [True, False, True]

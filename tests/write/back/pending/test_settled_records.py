"""Settled records: the latest are kept in mind, and all of them while the journal is scanned."""

from forebay.storage.journal.log_writer import RecordId
from forebay.write.back.pending.settled_records import REMEMBERED, SettledRecords


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

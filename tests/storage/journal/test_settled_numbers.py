"""Settled numbers: rows that are whole count, and only in their own log."""

from forebay.storage.journal.journal_layout import JournalLayout, new_id
from forebay.storage.journal.settled_numbers import (
    DROPPED,
    append_settled,
    decode_rows,
    encode_rows,
    is_settled,
    read_settled,
)
from harness.crash_disk import CrashDisk


def test_torn_rows_and_those_of_another_log_are_none() -> None:
    log = new_id()
    rows = encode_rows(log, [3, 1, 2**40])
    assert decode_rows(log, rows) == {3, 1, 2**40}
    assert decode_rows(log, rows[:-1]) == {3, 1}
    assert decode_rows(log, bytes(16) + rows[16:]) == {1, 2**40}
    assert decode_rows(new_id(), rows) == set()


def test_numbers_are_added_behind_a_torn_row() -> None:
    disk, layout, log = CrashDisk(), JournalLayout("/j"), new_id()
    disk.make_directory(layout.logs)
    assert read_settled(disk, layout, log) == set()
    append_settled(disk, layout, log, [1])
    fd = disk.open(layout.settled(log), writable=True)
    disk.write(fd, [b"torn"], disk.size(fd))
    append_settled(disk, layout, log, [2, 3])
    assert read_settled(disk, layout, log) == {1, 2, 3}


def test_a_dropped_record_is_settled_and_not_carried_out() -> None:
    log = new_id()
    rows = decode_rows(log, encode_rows(log, [1, 2 | DROPPED]))
    assert [is_settled(number, rows) for number in range(4)] == [False, True, True, False]
    assert [number in rows for number in range(4)] == [False, True, False, False]


def test_numbers_survive_every_power_cut_and_leave_nothing_open() -> None:
    disk, layout, log = CrashDisk(), JournalLayout("/j"), new_id()
    disk.make_directory(layout.logs)
    for count in (1, 2):
        append_settled(disk, layout, log, [count])
        for after in disk.every_power_cut(most=10):
            assert read_settled(after, layout, log) == set(range(1, count + 1))
    assert read_settled(disk, layout, log) == {1, 2}
    assert disk.descriptors == 0

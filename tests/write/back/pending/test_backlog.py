"""The backlog in numbers, while writes come and go."""

from forebay.core.heads import ObjectFacts
from forebay.core.names import ObjectName, Version
from forebay.policy.drain_order import WriteInterval
from forebay.write.back.pending.accepted_write import AcceptedWrite
from forebay.write.back.pending.backlog import Backlog, BacklogSums, backlog_of


def _write(key: str, size: int) -> AcceptedWrite:
    facts = ObjectFacts(Version('"e"'), size, "Mon, 01 Jan 2024 00:00:00 GMT", ())
    return AcceptedWrite("put", ObjectName("b", key), WriteInterval(1, 2), facts=facts)


def test_the_sums_follow_the_writes() -> None:
    sums, first, again, other = BacklogSums(), _write("one", 10), _write("one", 20), _write("two", 5)
    for write in (first, again, other):
        sums.add(write)
    assert backlog_of(sums, 40.0, (), 100.0) == Backlog(3, 2, 35, 60.0, 0, 0)
    sums.remove(first)
    assert (sums.writes, sums.objects, sums.size) == (2, 2, 25)
    sums.remove(again)
    sums.remove(other)
    assert backlog_of(sums, 100.0, (), 100.0) == Backlog(0, 0, 0, 0.0, 0, 0)


def test_what_is_left_to_a_person_is_told_apart() -> None:
    found = backlog_of(BacklogSums(), 9.0, (True, False, False), 5.0)
    assert (found.stuck, found.conflicts, found.age) == (2, 1, 0.0)

"""Which writes come too late, because a later one of their object is settled."""

from forebay.core.names import ObjectName
from forebay.policy.drain_order import WriteInterval
from forebay.write.back.pending.accepted_write import AcceptedWrite
from forebay.write.back.pending.last_settled import MOST_OBJECTS, LastSettled

NAME = ObjectName("bucket", "key")


def _write(written: int, name: ObjectName = NAME) -> AcceptedWrite:
    return AcceptedWrite("delete", name, WriteInterval(written - 1, written))


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
    for number in range(MOST_OBJECTS + 1):
        settled.add(ObjectName("bucket", str(number)), 7)
    assert not settled.supersedes(_write(5, ObjectName("bucket", "0")))
    assert settled.supersedes(_write(5, ObjectName("bucket", "1")))

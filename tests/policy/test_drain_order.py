"""The drain order against its definition: every unsettled pair is compared."""

from dataclasses import dataclass
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from forebay.core.names import ObjectName
from forebay.policy.drain_order import DrainOrder, WriteInterval


@dataclass(frozen=True)
class _Write:
    number: int
    interval: WriteInterval
    name: ObjectName


def depends(later: _Write, earlier: _Write) -> bool:
    if later.name.bucket != earlier.name.bucket:
        return False
    same_object = later.name == earlier.name and earlier.number < later.number
    return earlier.interval.written < later.interval.began or same_object


@st.composite
def _histories(draw: st.DrawFn) -> list[_Write]:
    """Writes in the order in which they were written."""
    count = draw(st.integers(1, 12))
    writes, now = [], 0
    for number in range(count):
        now += draw(st.integers(0, 3))
        began = draw(st.integers(max(0, now - 6), now))
        name = ObjectName(draw(st.sampled_from("ab")), draw(st.sampled_from("xyz")))
        writes.append(_Write(number, WriteInterval(began, now), name))
    return writes


@given(_histories(), st.randoms(use_true_random=False))
def test_ready_is_what_depends_on_nothing(history: list[_Write], random: Random) -> None:
    order: DrainOrder[int] = DrainOrder()
    for write in history:
        order.add(write.number, write.interval, [write.name])
    unsettled = {write.number: write for write in history}
    running: set[int] = set()
    done: set[int] = set()
    while unsettled:
        running |= set(order.ready())
        expected = {
            write.number
            for write in unsettled.values()
            if not any(
                depends(write, other) and (other.number not in done or other.name == write.name)
                for other in unsettled.values()
                if other is not write
            )
        }
        assert running == expected
        assert order.waiting == len(unsettled) - len(running)
        assert all((order.blocked_by(number) is None) == (number in expected) for number in unsettled)
        settled = random.choice(sorted(running))
        if settled not in done and random.random() < 0.5:
            done.add(settled)
            order.note_done(settled)
            continue
        running.remove(settled)
        del unsettled[settled]
        order.settle(settled)
    assert not len(order)
    assert order.ready() == []


def test_a_marker_waits_for_its_shards() -> None:
    order: DrainOrder[str] = DrainOrder()
    for nth in range(3):
        order.add(f"shard {nth}", WriteInterval(nth, 10 + nth), [ObjectName("b", f"{nth}.distcp")])
    order.add("marker", WriteInterval(20, 21), [ObjectName("b", ".metadata")])
    assert order.ready() == ["shard 0", "shard 1", "shard 2"]
    order.settle("shard 0")
    order.settle("shard 2")
    assert order.ready() == []
    assert order.blocked_by("marker") == "shard 1"
    order.settle("shard 1")
    assert order.ready() == ["marker"]


def test_another_bucket_waits_for_nothing() -> None:
    order: DrainOrder[int] = DrainOrder()
    order.add(1, WriteInterval(0, 1), [ObjectName("a", "k")])
    order.add(2, WriteInterval(5, 6), [ObjectName("b", "k")])
    assert sorted(order.ready()) == [1, 2]


def test_a_write_of_several_objects_waits_as_one() -> None:
    order: DrainOrder[str] = DrainOrder()
    first, second = ObjectName("b", "first"), ObjectName("b", "second")
    order.add("both", WriteInterval(0, 1), [first, second])
    order.add("one", WriteInterval(0, 2), [second])
    assert order.ready() == ["both"]
    assert order.waiting == 1


def test_an_earlier_write_that_comes_late_waits() -> None:
    """Sent beside the later one of its object, it might arrive behind that."""
    order: DrainOrder[str] = DrainOrder()
    name = ObjectName("b", "k")
    order.add("later", WriteInterval(0, 5), [name])
    assert order.ready() == ["later"]
    order.add("earlier", WriteInterval(0, 4), [name])
    order.add("beside", WriteInterval(0, 6), [ObjectName("b", "other")])
    assert order.ready() == ["beside"]
    assert (order.blocked_by("earlier"), order.blocked_by("later")) == ("later", None)
    order.note_done("later")
    assert order.ready() == [], "it is not settled"
    order.settle("later")
    assert order.ready() == ["earlier"]

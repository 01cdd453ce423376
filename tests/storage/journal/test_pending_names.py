"""Pending names: in the order of their keys, whatever comes and goes."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from forebay.core.names import ObjectName
from forebay.storage.journal.pending_names import MOST, PendingNames


@given(st.lists(st.tuples(st.sampled_from("ab"), st.text(max_size=3)), max_size=40), st.text(max_size=2))
def test_names_are_in_order_behind_any_name(added: list[tuple[str, str]], after: str) -> None:
    names, found = {ObjectName(*each) for each in added}, PendingNames()
    for name in names:
        found.add(name)
    start = ObjectName("a", after)
    assert list(found.behind(start)) == sorted(name for name in names if name > start)


def test_many_names_come_and_go_in_any_order() -> None:
    names, found, chance = [ObjectName("b", f"{number}") for number in range(5 * MOST)], PendingNames(), Random(1)
    left = set[ObjectName]()
    for _ in range(2):
        chance.shuffle(names)
        for name in names:
            found.add(name)
        left = set(names)
        assert list(found.behind(ObjectName("", ""))) == sorted(left)
        chance.shuffle(names)
        for name in names:
            found.remove(name)
            left.remove(name)
            if len(left) % MOST == 0:
                assert list(found.behind(ObjectName("b", "3"))) == sorted(each for each in left if each.key > "3")
    assert list(found.behind(ObjectName("", ""))) == []

"""Who gives way in a full tier."""

from dataclasses import dataclass

import pytest

from forebay.policy.pools import IDLE_SECONDS, giving_way, may_take

NOW = 1_000_000.0


@dataclass
class Group:
    used: int
    last_read: float = NOW
    admits_all: bool = False


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ([], None),
        ([Group(0)], None),
        ([Group(10)], 0),
        ([Group(10), Group(11)], 1),
        ([Group(10, admits_all=True), Group(11)], 0),  # it grows by itself, so it stops at three quarters
        ([Group(7, admits_all=True), Group(11)], 1),
        ([Group(10, admits_all=True), Group(0)], 0),
    ],
)
def test_the_largest_gives_way(groups: list[Group], expected: int | None) -> None:
    giving = giving_way(groups, NOW)
    assert giving is (None if expected is None else groups[expected])


def test_a_population_that_nobody_reads_gives_way_before_a_larger_one() -> None:
    idle, larger = Group(1, NOW - IDLE_SECONDS - 1), Group(100)
    assert giving_way([larger, idle], NOW) is idle
    assert giving_way([larger, idle], NOW - 2) is larger


def test_of_two_idle_ones_the_one_that_is_idle_for_longer_gives_way() -> None:
    idle, longer = Group(100, NOW - IDLE_SECONDS - 1), Group(1, NOW - IDLE_SECONDS - 2)
    assert giving_way([idle, longer], NOW) is longer


def test_what_is_smaller_by_a_quarter_may_grow() -> None:
    giving = Group(100)
    assert may_take(Group(74), giving, NOW)
    assert not may_take(Group(75), giving, NOW)
    assert not may_take(giving, giving, NOW)


def test_everybody_may_grow_at_the_cost_of_an_idle_population() -> None:
    idle = Group(1, NOW - IDLE_SECONDS - 1)
    assert may_take(Group(100), idle, NOW)
    assert not may_take(idle, idle, NOW)


def test_two_pools_do_not_take_from_each_other_in_turns() -> None:
    """A pool gives an eighth at a time, which the other takes: then neither may take from the other."""
    for size in range(8, 4000, 8):
        for smaller in range(size):
            one, other = Group(smaller), Group(size)
            if may_take(one, other, NOW):
                one.used, other.used = one.used + other.used // 8, other.used - other.used // 8
                assert not may_take(other, one, NOW)

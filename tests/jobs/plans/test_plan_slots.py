"""The slots of plans: shared equally, and what is needed last gives way."""

from collections import Counter

import pytest

from forebay.core.plan_progress import PlanState
from forebay.jobs.plans.plan_slots import PlanSlot, plan_to_displace


def slot(plan: str, principal: str = "greedy", state: PlanState = "queued", is_followed: bool = False) -> PlanSlot:
    return PlanSlot(plan, principal, state, is_followed)


@pytest.mark.parametrize(
    ("greedy", "own", "gives_way"),
    [(0, 0, False), (1, 0, False), (2, 0, True), (3, 1, True), (3, 2, False), (3, 3, False)],
)
def test_only_a_key_with_more_plans_gives_way(greedy: int, own: int, gives_way: bool) -> None:
    slots = [slot(f"greedy-{number}") for number in range(greedy)]
    slots += [slot(f"own-{number}", "own") for number in range(own)]
    assert plan_to_displace(slots, "own") == (f"greedy-{greedy - 1}" if gives_way else None)


def test_the_key_with_the_most_gives_way() -> None:
    slots = [slot("a", "some"), slot("b", "some"), slot("c"), slot("d"), slot("e"), slot("f", "some")]
    slots.append(slot("g"))
    assert plan_to_displace(slots, "own") == "g"


@pytest.mark.parametrize(
    ("slots", "expected"),
    [
        ([slot("a", state="running"), slot("b"), slot("c"), slot("d", state="running")], "c"),
        ([slot("a", state="running"), slot("b", state="idle"), slot("c", state="running")], "b"),
        ([slot("a", state="running"), slot("b", state="running")], "b"),
        ([slot("a", state="running", is_followed=True), slot("b"), slot("c")], "a"),
    ],
)
def test_what_is_needed_last_gives_way(slots: list[PlanSlot], expected: str) -> None:
    assert plan_to_displace(slots, "own") == expected


def test_many_keys_come_to_equal_shares() -> None:
    slots = [slot(f"greedy-{number}") for number in range(64)]
    for number in range(200):
        principal = f"key-{number % 7}"
        displaced = plan_to_displace(slots, principal)
        if displaced is not None:
            slots = [each for each in slots if each.plan != displaced]
            slots.append(slot(f"{principal}-{number}", principal))
    assert len(slots) == 64
    assert set(Counter(each.principal for each in slots).values()) == {8}

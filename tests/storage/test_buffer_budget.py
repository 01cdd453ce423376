import asyncio

import pytest

from forebay.core.errors import Throttled
from forebay.storage.buffer_budget import Budget


async def turn() -> None:
    """Let everybody who can go on do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_takes_what_is_free_and_no_more() -> None:
    budget = Budget(10)
    assert budget.try_take(6)
    assert not budget.try_take(5)
    assert budget.try_take(4)
    assert budget.in_use == 10
    budget.give(10)
    assert budget.in_use == 0


async def test_giving_back_more_than_was_taken_is_a_bug_that_is_seen() -> None:
    budget = Budget(10)
    budget.try_take(1)
    with pytest.raises(ValueError, match="only 1"):
        budget.give(2)


async def test_waiters_are_served_in_order_and_none_is_overtaken() -> None:
    budget = Budget(10)
    await budget.take(10, 1)
    served: list[str] = []

    async def reader(name: str, size: int) -> None:
        await budget.take(size, 10)
        served.append(name)

    async with asyncio.TaskGroup() as group:
        group.create_task(reader("large", 8))
        await turn()
        group.create_task(reader("small", 1))
        await turn()
        budget.give(5)
        await turn()
        assert served == []
        assert not budget.try_take(1), "somebody waits: nobody may overtake"
        budget.give(4)
        await turn()
        assert served == ["large", "small"]
    assert budget.in_use == 1 + 8 + 1


async def test_one_that_is_larger_than_everything_is_admitted_alone() -> None:
    budget = Budget(10)
    await budget.take(1, 1)
    async with asyncio.TaskGroup() as group:
        giant = group.create_task(budget.take(100, 10))
        await turn()
        assert not giant.done()
        budget.give(1)
    assert budget.in_use == 100
    assert not budget.try_take(1)
    budget.give(100)
    assert budget.try_take(10)


async def test_timing_out_is_throttled_and_takes_nothing() -> None:
    budget = Budget(10)
    await budget.take(10, 1)
    with pytest.raises(Throttled):
        await budget.take(1, 0)
    assert budget.waiting == 0
    budget.give(10)
    assert budget.in_use == 0


async def test_those_behind_one_that_gives_up_are_served() -> None:
    budget = Budget(10)
    await budget.take(5, 1)
    async with asyncio.TaskGroup() as group:
        large = group.create_task(budget.take(9, 10))
        await turn()
        small = group.create_task(budget.take(5, 10))
        await turn()
        assert not small.done()
        large.cancel()
        await turn()
        assert small.done()
    assert budget.in_use == 10


async def test_cancelled_at_the_moment_of_being_served_it_gives_back() -> None:
    budget = Budget(10)
    await budget.take(10, 1)
    async with asyncio.TaskGroup() as group:
        waiter = group.create_task(budget.take(10, 10))
        await turn()
        budget.give(10)  # served now ...
        waiter.cancel()  # ... and cancelled before it could run
        await turn()
    assert budget.in_use == 0
    assert budget.try_take(10)


async def test_cancelled_first_it_is_not_served() -> None:
    budget = Budget(10)
    await budget.take(10, 1)
    async with asyncio.TaskGroup() as group:
        waiter = group.create_task(budget.take(10, 10))
        await turn()
        waiter.cancel()
        budget.give(10)
        await turn()
    assert budget.in_use == 0
    assert budget.waiting == 0


async def test_growing_serves_those_who_wait_and_shrinking_waits_for_what_is_in_use() -> None:
    budget = Budget(10)
    await budget.take(10, 1)
    async with asyncio.TaskGroup() as group:
        group.create_task(budget.take(5, 10))
        await turn()
        budget.resize(15)
    assert budget.in_use == 15
    budget.resize(4)
    budget.give(12)
    assert not budget.try_take(2)
    assert budget.try_take(1)

"""The gate: a bound, first come first served, with a bound on the wait."""

import asyncio

import pytest

from forebay.core.errors import Throttled
from forebay.core.fair_semaphore import Gate


async def test_width_is_the_bound_and_leaving_lets_the_first_in() -> None:
    gate = Gate("reads", 2, wait=5)
    await gate.enter()
    await gate.enter()
    came: list[int] = []

    async def visitor(number: int) -> None:
        await gate.enter()
        came.append(number)

    async with asyncio.TaskGroup() as tasks:
        for number in range(2):
            tasks.create_task(visitor(number))
        await asyncio.sleep(0)
        assert (gate.waiting, came) == (2, [])
        gate.leave()
        gate.leave()
    assert came == [0, 1]
    assert gate.held == 2


async def test_waiting_too_long_is_throttled_and_leaves_no_trace() -> None:
    gate = Gate("writes", 1, wait=0)
    await gate.enter()
    with pytest.raises(Throttled, match="writes"):
        await gate.enter()
    assert (gate.held, gate.waiting) == (1, 0)
    gate.leave()
    await gate.enter()


async def test_a_cancelled_wait_takes_no_place() -> None:
    gate = Gate("reads", 1, wait=5)
    await gate.enter()
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(gate.enter())
        await asyncio.sleep(0)
        assert gate.waiting == 1
        waiting.cancel()
    assert gate.waiting == 0
    gate.leave()
    await gate.enter()
    assert gate.held == 1


async def test_a_place_that_came_as_the_wait_was_given_up_goes_to_the_next() -> None:
    gate = Gate("reads", 1, wait=5)
    await gate.enter()
    async with asyncio.TaskGroup() as tasks:
        first, second = tasks.create_task(gate.enter()), tasks.create_task(gate.enter())
        await asyncio.sleep(0)
        gate.leave()
        first.cancel()
        await second
    assert (gate.held, gate.waiting) == (1, 0)


async def test_nobody_overtakes_one_that_waits() -> None:
    gate = Gate("reads", 1, wait=5)
    came: list[int] = []

    async def visitor(number: int) -> None:
        await gate.enter()
        came.append(number)

    await gate.enter()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(visitor(1))
        await asyncio.sleep(0)
        gate.leave()
        tasks.create_task(visitor(2))
        await asyncio.sleep(0)
        gate.leave()
    assert came == [1, 2]

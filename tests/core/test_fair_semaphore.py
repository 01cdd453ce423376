"""The fair semaphore with both of its uses: requests that weigh 1, and bytes of buffers."""

import asyncio

import pytest

from forebay.core.errors import Throttled
from forebay.core.fair_semaphore import FairSemaphore, SemaphoreShare


async def turn() -> None:
    """Let everybody who can go on do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_release_admits_the_first_waiting_request() -> None:
    gate = FairSemaphore(2, "reads")
    await gate.acquire(1, 5)
    await gate.acquire(1, 5)
    came: list[int] = []

    async def visitor(number: int) -> None:
        await gate.acquire(1, 5)
        came.append(number)

    async with asyncio.TaskGroup() as tasks:
        for number in range(2):
            tasks.create_task(visitor(number))
        await asyncio.sleep(0)
        assert (gate.waiting, came) == (2, [])
        gate.release()
        gate.release()
    assert came == [0, 1]
    assert gate.in_use == 2


async def test_a_request_that_waits_too_long_is_throttled() -> None:
    gate = FairSemaphore(1, "writes")
    await gate.acquire(1, 0)
    with pytest.raises(Throttled, match="writes"):
        await gate.acquire(1, 0)
    assert (gate.in_use, gate.waiting) == (1, 0)
    gate.release()
    await gate.acquire(1, 0)


async def test_a_cancelled_request_acquires_nothing() -> None:
    gate = FairSemaphore(1, "reads")
    await gate.acquire(1, 5)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(gate.acquire(1, 5))
        await asyncio.sleep(0)
        assert gate.waiting == 1
        waiting.cancel()
    assert gate.waiting == 0
    gate.release()
    await gate.acquire(1, 5)
    assert gate.in_use == 1


async def test_a_grant_to_a_cancelled_request_goes_to_the_next() -> None:
    gate = FairSemaphore(1, "reads")
    await gate.acquire(1, 5)
    async with asyncio.TaskGroup() as tasks:
        first, second = tasks.create_task(gate.acquire(1, 5)), tasks.create_task(gate.acquire(1, 5))
        await asyncio.sleep(0)
        gate.release()
        first.cancel()
        await second
    assert (gate.in_use, gate.waiting) == (1, 0)


async def test_no_request_overtakes_a_waiting_one() -> None:
    gate = FairSemaphore(1, "reads")
    came: list[int] = []

    async def visitor(number: int) -> None:
        await gate.acquire(1, 5)
        came.append(number)

    await gate.acquire(1, 5)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(visitor(1))
        await asyncio.sleep(0)
        gate.release()
        tasks.create_task(visitor(2))
        await asyncio.sleep(0)
        gate.release()
    assert came == [1, 2]


async def test_try_acquire_gets_what_is_free_and_no_more() -> None:
    budget = FairSemaphore(10)
    assert budget.try_acquire(6)
    assert not budget.try_acquire(5)
    assert budget.try_acquire(4)
    assert budget.in_use == 10
    budget.release(10)
    assert budget.in_use == 0


async def test_releasing_more_than_is_in_use_raises() -> None:
    budget = FairSemaphore(10)
    budget.try_acquire(1)
    with pytest.raises(ValueError, match="only 1"):
        budget.release(2)


async def test_bytes_are_granted_in_order_of_arrival() -> None:
    budget = FairSemaphore(10)
    await budget.acquire(10, 1)
    served: list[str] = []

    async def reader(name: str, size: int) -> None:
        await budget.acquire(size, 10)
        served.append(name)

    async with asyncio.TaskGroup() as group:
        group.create_task(reader("large", 8))
        await turn()
        group.create_task(reader("small", 1))
        await turn()
        budget.release(5)
        await turn()
        assert served == []
        assert not budget.try_acquire(1), "a waiter must not be overtaken"
        budget.release(4)
        await turn()
        assert served == ["large", "small"]
    assert budget.in_use == 1 + 8 + 1


async def test_a_request_larger_than_the_capacity_is_admitted_alone() -> None:
    budget = FairSemaphore(10)
    await budget.acquire(1, 1)
    async with asyncio.TaskGroup() as group:
        giant = group.create_task(budget.acquire(100, 10))
        await turn()
        assert not giant.done()
        budget.release(1)
    assert budget.in_use == 100
    assert not budget.try_acquire(1)
    budget.release(100)
    assert budget.try_acquire(10)


async def test_bytes_that_time_out_are_throttled_and_not_acquired() -> None:
    budget = FairSemaphore(10)
    await budget.acquire(10, 1)
    with pytest.raises(Throttled):
        await budget.acquire(1, 0)
    assert budget.waiting == 0
    budget.release(10)
    assert budget.in_use == 0


async def test_waiters_behind_a_cancelled_one_are_served() -> None:
    budget = FairSemaphore(10)
    await budget.acquire(5, 1)
    async with asyncio.TaskGroup() as group:
        large = group.create_task(budget.acquire(9, 10))
        await turn()
        small = group.create_task(budget.acquire(5, 10))
        await turn()
        assert not small.done()
        large.cancel()
        await turn()
        assert small.done()
    assert budget.in_use == 10


async def test_a_waiter_cancelled_when_granted_releases() -> None:
    budget = FairSemaphore(10)
    await budget.acquire(10, 1)
    async with asyncio.TaskGroup() as group:
        waiter = group.create_task(budget.acquire(10, 10))
        await turn()
        budget.release(10)  # served now ...
        waiter.cancel()  # ... and cancelled before it could run
        await turn()
    assert budget.in_use == 0
    assert budget.try_acquire(10)


async def test_a_waiter_cancelled_before_a_release_is_not_served() -> None:
    budget = FairSemaphore(10)
    await budget.acquire(10, 1)
    async with asyncio.TaskGroup() as group:
        waiter = group.create_task(budget.acquire(10, 10))
        await turn()
        waiter.cancel()
        budget.release(10)
        await turn()
    assert budget.in_use == 0
    assert budget.waiting == 0


async def test_growing_serves_waiters_and_shrinking_waits_for_use() -> None:
    budget = FairSemaphore(10)
    await budget.acquire(10, 1)
    async with asyncio.TaskGroup() as group:
        group.create_task(budget.acquire(5, 10))
        await turn()
        budget.resize(15)
    assert budget.in_use == 15
    budget.resize(4)
    budget.release(12)
    assert not budget.try_acquire(2)
    assert budget.try_acquire(1)


async def test_a_wait_reclaims_first() -> None:
    budget, urgent = FairSemaphore(10), list[bool]()

    def reclaim(is_urgent: bool) -> bool:
        urgent.append(is_urgent)
        if budget.in_use:
            budget.release(5)
        return len(urgent) < 2

    budget.reclaim = reclaim
    assert budget.try_acquire(10)
    await budget.acquire(8, 0.0)
    assert (budget.in_use, urgent) == (8, [True, True])
    assert not budget.try_reclaim(8)
    assert urgent == [True, True, False]


def test_a_share_leaves_the_rest_to_others() -> None:
    budget = FairSemaphore(100)
    share = SemaphoreShare(budget, 2)
    assert [share.try_acquire(30), share.try_acquire(30), share.try_acquire(20)] == [True, False, True]
    assert budget.try_acquire(50)
    share.release(20)
    assert (share.has(20), share.has(21)) == (True, False)
    assert budget.try_acquire(20)
    assert not share.try_acquire(1)  # of the share, but not of the whole
    share.release(30)
    assert (share.in_use, budget.in_use) == (0, 70)

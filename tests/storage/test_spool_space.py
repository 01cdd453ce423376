"""The space of a spool: reserved, moved to files, released."""

import asyncio

import pytest

from forebay.core.errors import SpoolFull, Throttled
from forebay.core.fair_semaphore import FairSemaphore
from forebay.storage.spool_space import SpoolSpace


def space_of(*, limit: int = 1000, memory: int = 1000, share: int = 1000) -> tuple[SpoolSpace, FairSemaphore]:
    budget = FairSemaphore(memory)
    return SpoolSpace(limit, budget, share=share, wait=0.01), budget


async def test_the_limit_is_of_memory_and_files() -> None:
    space, budget = space_of(limit=10)
    await space.reserve(8)
    space.release_memory(8)  # they are in a file now
    assert (space.in_use, space.in_memory, budget.in_use) == (8, 0, 0)
    assert (space.has(2), space.has(3), space.try_reserve(3)) == (True, False, False)
    with pytest.raises(SpoolFull, match=r"limits\.held"):
        await space.reserve(3)
    space.release(8)
    await space.reserve(10)
    assert (space.in_use, space.in_memory, budget.in_use) == (10, 10, 10)


async def test_memory_that_does_not_come_free_is_throttled() -> None:
    space, budget = space_of(memory=10)
    assert budget.try_acquire(8)
    assert not space.try_reserve(3)
    with pytest.raises(Throttled):
        await space.reserve(3)
    assert (space.in_use, space.in_memory, budget.in_use) == (0, 0, 8)


async def test_bytes_above_the_share_are_to_be_spilled() -> None:
    space, _ = space_of(share=4)
    assert (space.try_reserve(4), space.is_over_share) == (True, False)
    assert (space.try_reserve(1), space.is_over_share) == (True, True)
    space.release_memory(1)
    assert [space.is_over_share] == [False]


async def test_bytes_are_to_be_spilled_while_others_wait_for_memory() -> None:
    space, budget = space_of(memory=4)
    await space.reserve(4)
    assert [space.is_over_share] == [False]
    async with asyncio.TaskGroup() as group:
        other = group.create_task(budget.acquire(1, 10.0))
        await asyncio.sleep(0)
        assert [space.is_over_share] == [True]
        space.release_memory(4)
        await other
    assert [space.is_over_share] == [False]

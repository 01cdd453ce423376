"""Paused readers: whose buffers are taken, and when."""

import asyncio

from forebay.core.fair_semaphore import FairSemaphore
from forebay.fetch.paused_readers import PATIENCE, PausedReaders
from harness.inspection import run_loop_until
from harness.manual_timers import ManualTimers


class Reader:
    """A reader that holds `spare` and `needed` bytes of a budget."""

    def __init__(self, budget: FairSemaphore, spare: int, needed: int = 0) -> None:
        self.budget, self.spare, self.needed = budget, spare, needed
        assert budget.try_acquire(spare + needed)

    def give_up_spare(self) -> bool:
        spare, self.spare = self.spare, 0
        self.budget.release(spare)
        return spare > 0

    def give_up_all(self) -> bool:
        needed, self.needed = self.needed, 0
        self.budget.release(needed)
        return needed > 0


def paused(*holdings: tuple[int, int]) -> tuple[ManualTimers, FairSemaphore, PausedReaders, list[Reader]]:
    """Readers that hold a whole budget, paused one after the other, a tenth of a second apart."""
    timers, budget = ManualTimers(), FairSemaphore(sum(map(sum, holdings)))
    readers = PausedReaders(budget, timers)
    made = [Reader(budget, *holding) for holding in holdings]
    for each in made:
        readers.pause(each)
        timers.advance(0.1)
    return timers, budget, readers, made


async def test_readers_paused_longest_give_up_no_more_than_needed() -> None:
    _, budget, _, readers = paused((10, 0), (10, 0), (10, 0))
    await budget.acquire(15, 0.0)
    assert [each.spare for each in readers] == [0, 0, 10]
    assert budget.in_use == 25


async def test_a_block_that_no_tier_has_is_left_for_a_while() -> None:
    timers, budget, _, [first, second] = paused((0, 10), (0, 10))
    async with asyncio.TaskGroup() as group:
        group.create_task(budget.acquire(10, 5.0))
        await run_loop_until(lambda: budget.waiting == 1)
        timers.advance(PATIENCE - 0.3)
        assert (budget.waiting, first.needed, second.needed) == (1, 10, 10)
        timers.advance(0.2)
        assert (budget.waiting, first.needed, second.needed) == (0, 0, 10)


async def test_a_reader_paused_while_others_wait_gives_up_its_spare() -> None:
    _, budget, readers, [reader] = paused((10, 10))
    readers.resume(reader)
    async with asyncio.TaskGroup() as group:
        group.create_task(budget.acquire(10, 5.0))
        await run_loop_until(lambda: budget.waiting == 1)
        assert reader.spare == 10
        readers.pause(reader)
        assert (reader.spare, reader.needed, budget.waiting) == (0, 10, 0)


def test_reading_ahead_takes_only_from_readers_paused_for_long() -> None:
    timers, budget, readers, [first, second] = paused((10, 0), (10, 0))
    assert not budget.try_reclaim(10)
    timers.advance(PATIENCE - 0.2)
    assert budget.try_reclaim(10)
    assert (first.spare, second.spare) == (0, 10)
    assert not budget.try_reclaim(10)
    readers.resume(first)
    readers.resume(second)
    assert len(readers) == 0


def test_a_resumed_reader_keeps_what_it_has() -> None:
    timers, budget, readers, [reader] = paused((10, 10))
    readers.resume(reader)
    timers.advance(10 * PATIENCE)
    assert not budget.try_reclaim(1)
    assert (reader.spare, reader.needed) == (10, 10)


def test_a_share_counts_once_half_of_the_buffers_are_in_use() -> None:
    _, budget, readers, [reader] = paused((40, 20))
    readers.open = 4
    budget.resize(200)
    assert readers.share() is None
    budget.resize(90)
    assert readers.share() == 30  # one is paused
    readers.resume(reader)
    assert readers.share() == 22


async def test_patience_ends_whatever_the_sum_of_times_rounds_to() -> None:
    paused_at = 0.19957317125596596
    assert paused_at + PATIENCE - PATIENCE < paused_at
    timers, budget = ManualTimers(), FairSemaphore(10)
    readers, reader = PausedReaders(budget, timers), Reader(budget, 0, 10)
    timers.advance(paused_at)
    readers.pause(reader)
    async with asyncio.TaskGroup() as group:
        group.create_task(budget.acquire(10, 5.0))
        await run_loop_until(lambda: budget.waiting == 1)
        timers.advance(PATIENCE)
    assert (budget.waiting, reader.needed) == (0, 0)

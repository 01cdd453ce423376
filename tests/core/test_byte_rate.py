"""A rate: bytes over time, with a clock that the test moves."""

import asyncio

from forebay.core.byte_rate import ByteRate, pause
from harness.manual_timers import ManualTimers


async def drawn(rate: ByteRate, sizes: list[int], done: list[int]) -> None:
    for size in sizes:
        await rate.acquire(size)
        done.append(size)


async def test_no_more_than_the_rate_comes_in_any_time() -> None:
    timers, done = ManualTimers(), list[int]()
    rate = ByteRate(100, timers)
    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(drawn(rate, [50] * 8, done))
        for second in range(12):
            await timers.armed(within=1.0) if len(done) < 24 else None
            assert sum(done) <= 100 * (second + 1) + 50
            timers.advance(1.0)
            await asyncio.sleep(0)
    assert sum(done) == 1200


async def test_what_was_not_fetched_is_given_back() -> None:
    timers = ManualTimers()
    rate = ByteRate(100, timers)
    for _ in range(50):
        await rate.acquire(1000)
        rate.refund(1000)
    assert timers.pending == 0


async def test_a_waiter_goes_on_with_what_is_given_back() -> None:
    timers, done = ManualTimers(), list[int]()
    rate = ByteRate(100, timers)
    await rate.acquire(5000)
    async with asyncio.TaskGroup() as group:
        group.create_task(drawn(rate, [10], done))
        await timers.armed(within=50.0)
        rate.refund(1000)
        await timers.armed(within=40.0)
        assert not done
        rate.refund(4000)
    assert (done, timers.pending) == ([10], 0)


async def test_a_cancelled_wait_draws_nothing() -> None:
    timers = ManualTimers()
    rate = ByteRate(100, timers)
    await rate.acquire(200)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(rate.acquire(1000))
        await timers.armed(within=1.0)
        waiting.cancel()
    assert timers.pending == 0
    timers.advance(1.0)
    await rate.acquire(1)


async def test_a_pause_ends_by_its_clock() -> None:
    timers = ManualTimers()
    async with asyncio.TaskGroup() as group:
        group.create_task(pause(timers, 5.0))
        await timers.armed(within=5.0)
        timers.advance(5.0)

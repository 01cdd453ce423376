"""A step that nothing else of the loop comes before, whether the work waits, ends or fails."""

import asyncio
from collections.abc import Awaitable

import pytest

from forebay.core.first_wait import step_at_first_wait
from forebay.core.task_registry import TaskRegistry


async def test_work_that_does_not_wait_is_followed_by_the_step() -> None:
    seen: list[str] = []

    async def work() -> None:
        seen.append("work")

    asyncio.get_running_loop().call_soon(seen.append, "another")
    await step_at_first_wait(work(), lambda: seen.append("step"))
    assert seen == ["work", "step"]
    await asyncio.sleep(0)
    assert seen == ["work", "step", "another"]


async def test_the_step_comes_when_the_work_first_waits() -> None:
    seen: list[str] = []
    first, second = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        seen.append("work")
        for event in (first, second):
            await event.wait()
            seen.append("event")

    waiting = TaskRegistry().spawn(_run(step_at_first_wait(work(), lambda: seen.append("step"))), "work")
    await asyncio.sleep(0)
    assert seen == ["work", "step"]
    first.set()
    second.set()
    await waiting
    assert seen == ["work", "step", "event", "event"]


async def test_work_that_fails_is_followed_by_the_step() -> None:
    seen: list[str] = []

    async def work() -> None:
        raise ConnectionError("left")

    with pytest.raises(ConnectionError, match="left"):
        await step_at_first_wait(work(), lambda: seen.append("step"))
    assert seen == ["step"]


@pytest.mark.parametrize("ends", [True, False])
async def test_cancellation_reaches_the_work(ends: bool) -> None:
    seen: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            if not ends:
                raise

    waiting = TaskRegistry().spawn(_run(step_at_first_wait(work(), lambda: seen.append("step"))), "work")
    await asyncio.sleep(0)
    waiting.cancel()
    [result] = await asyncio.gather(waiting, return_exceptions=True)
    assert isinstance(result, asyncio.CancelledError) is not ends
    assert seen == ["step", "cancelled"]


async def _run(work: Awaitable[None]) -> None:
    await work

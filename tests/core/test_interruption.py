"""Scopes of a task that something else may end early."""

import asyncio
from collections.abc import Callable

import pytest

from forebay.core.interruption import Interruption


async def outcome(interruption: Interruption, *, fails: bool = False) -> str:
    """Wait inside the scope, and return how that ended."""
    try:
        with interruption:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if fails:
                    raise ValueError("on the way out") from None
                raise
    except TimeoutError:
        return "interrupted"
    except ValueError:
        return "failed"
    return "ended"


async def run(interruption: Interruption, act: Callable[[asyncio.Task[str]], object], *, fails: bool = False) -> str:
    """Return how a scope ended that was acted upon; "cancelled" if its task was."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(outcome(interruption, fails=fails))
        await asyncio.sleep(0)
        act(task)
    assert task.cancelled() or task.cancelling() == 0
    return "cancelled" if task.cancelled() else task.result()


async def test_a_scope_that_is_interrupted_ends_with_a_timeout() -> None:
    interruption = Interruption()

    def interrupt_twice(_: asyncio.Task[str]) -> None:
        interruption.interrupt()
        interruption.interrupt()

    assert await run(interruption, interrupt_twice) == "interrupted"
    assert interruption.is_requested


async def test_a_scope_that_was_left_is_not_interrupted() -> None:
    interruption = Interruption()
    for _ in range(2):
        with interruption:
            await asyncio.sleep(0)
    interruption.interrupt()
    await asyncio.sleep(0)
    assert not interruption.is_requested


async def test_a_cancellation_of_the_task_is_no_interruption() -> None:
    interruption = Interruption()
    assert await run(interruption, lambda task: task.cancel()) == "cancelled"
    assert not interruption.is_requested


async def test_a_cancellation_that_comes_with_an_interruption_wins() -> None:
    interruption = Interruption()

    def do_both(task: asyncio.Task[str]) -> None:
        interruption.interrupt()
        task.cancel()

    assert await run(interruption, do_both) == "cancelled"


async def test_another_failure_comes_out_of_an_interrupted_scope() -> None:
    interruption = Interruption()
    assert await run(interruption, lambda _: interruption.interrupt(), fails=True) == "failed"


def test_a_scope_needs_a_task() -> None:
    with pytest.raises(RuntimeError), Interruption():
        pass

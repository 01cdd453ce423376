"""A coroutine that is cancelled where it waits for the n-th time: run it again and again, and every wait had its turn.

nth = 0
while await is_cancelled_at(tasks, nth, request()):
    nth += 1
"""

import asyncio
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any

from forebay.core.task_registry import TaskRegistry


async def is_cancelled_at(tasks: TaskRegistry, nth: int, work: Coroutine[Any, Any, object]) -> bool:
    """Runs `work` in a task that is cancelled at its n-th wait, from 0, and not while it then ends. Returns whether
    it came to that. Raises what it raises."""
    task = tasks.spawn(_cancelled_at(nth, work), f"cancelled at its wait {nth}")
    await asyncio.wait([task])
    if task.cancelled():
        return True
    await task
    return False


@coroutine
def _cancelled_at(nth: int, work: Coroutine[Any, Any, object]) -> Generator[Any, None, None]:
    thrown: BaseException | None = None
    while True:
        try:
            waits_for = work.send(None) if thrown is None else work.throw(thrown)
        except StopIteration:
            return
        if nth == 0:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()  # and so what it is about to wait for
        nth, thrown = nth - 1, None
        try:
            yield waits_for
        except BaseException as interruption:
            thrown = interruption

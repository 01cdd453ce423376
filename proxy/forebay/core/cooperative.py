"""Cooperative work: a generator that yields wherever it may be interrupted, and returns its result.

Pure code is written as such a generator where it handles a large input. A caller with an event loop runs it
cooperatively: other tasks run at each yield. A caller without one, or with little input, runs it to completion.
"""

import asyncio
from collections.abc import Generator
from typing import TypeAlias, TypeVar

Result = TypeVar("Result")

CooperativeWork: TypeAlias = Generator[None, None, Result]


def run_to_completion(work: CooperativeWork[Result]) -> Result:
    """Runs `work` without interruption and returns its result. Raises its errors."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: Result = done.value
            return result


async def run_cooperatively(work: CooperativeWork[Result]) -> Result:
    """Runs `work`, giving other tasks a turn at each yield, and returns its result.

    Raises what it raises. Cancelling the awaiting task closes `work`.
    """
    try:
        while True:
            next(work)
            await asyncio.sleep(0)
    except StopIteration as done:
        result: Result = done.value
        return result
    finally:
        work.close()

"""Runs a step when a coroutine first waits, before the event loop runs anything else.

    work, as far as it goes without waiting ──> step ──> the rest of work, if it waits at all

The event loop runs nothing else before the step, so to all other tasks it seems to have come first; but the work does
not wait for it.
"""

from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any


@coroutine
def step_at_first_wait(work: Coroutine[Any, Any, None], step: Callable[[], None]) -> Generator[Any, Any, None]:
    """Awaits `work`, and calls `step` at its first wait, its end or its failure. Raises the errors of both."""
    try:
        waits_for = work.send(None)
    except StopIteration:
        step()
        return
    except BaseException:
        step()
        raise
    step()
    while True:
        thrown: BaseException | None = None
        try:
            yield waits_for
        except BaseException as interruption:
            thrown = interruption
        try:
            waits_for = work.send(None) if thrown is None else work.throw(thrown)
        except StopIteration:
            return

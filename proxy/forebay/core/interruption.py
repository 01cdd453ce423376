"""Interruption: a scope of one task that another one, or a callback, may end early.

What `asyncio.timeout(None)` and `reschedule` do, without their coroutines and timers: hardly any scope is interrupted,
so entering and leaving one must cost next to nothing.

    with interruption:          TimeoutError comes out of the block if it was interrupted
        await ...
    interruption.interrupt()    from elsewhere in the same event loop, never from the task itself
"""

import asyncio
from types import TracebackType


class Interruption:
    """One scope at a time. It can be entered again, unless it was interrupted."""

    __slots__ = ("_cancelling", "_task", "is_requested")

    def __init__(self) -> None:
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self.is_requested = False
        """Whether the scope was interrupted."""

    def __enter__(self) -> None:
        self._task = task = asyncio.current_task()
        if task is None:
            raise RuntimeError("an interruption is entered by a task")
        self._cancelling = task.cancelling()

    def interrupt(self) -> None:
        """Ends the scope that is entered now. Does nothing where there is none, or for the second time."""
        if self._task is not None and not self.is_requested:
            self.is_requested = True
            self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        # A cancellation by somebody else that came as well is theirs: it goes on.
        if (
            self.is_requested
            and task is not None
            and task.uncancel() <= self._cancelling
            and kind is asyncio.CancelledError
        ):
            raise TimeoutError from error

"""Tasks that outlive the request that caused them, and who owns them.

A fetch goes on when its first reader leaves, an invalidation is finished when its client is gone: such work belongs to
a TaskRegistry, which awaits it at the end. It is the only place where tasks are made in the open (held by lint).
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from forebay.core.errors import ForebayError

T = TypeVar("T")

_log = logging.getLogger(__name__)


class TaskRegistry:
    """Owns tasks. What fails in one of them is logged, should nobody await it; loudly if it should not have failed."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Start `work`. The caller may await the task or leave it."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, ForebayError):  # the origin is down, memory is short: whoever awaits it tells its client
            _log.info("task %s failed: %s", task.get_name(), error)
        else:
            _log.error("task %s failed", task.get_name(), exc_info=error)

    async def finish(self, work: Coroutine[Any, Any, T], name: str) -> T:
        """Await `work` so that it is carried through even if the awaiting task is cancelled."""
        return await asyncio.shield(self.spawn(work, name))

    async def wait_idle(self) -> None:
        """Until no task is left. For draining, and for tests that end with every gauge at zero."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))
        await asyncio.sleep(0)  # what they left to the loop to do next

    async def close(self) -> None:
        """Cancel what is left and await it."""
        for task in set(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks))

"""The task registry: the owner of tasks that outlive the request that started them.

A fetch goes on when its first reader leaves; an invalidation is finished after its client has gone. The registry awaits
such tasks at shutdown. Lint bans the creation of tasks elsewhere.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from forebay.core.errors import ForebayError

T = TypeVar("T")

_log = logging.getLogger(__name__)


class TaskRegistry:
    """Owns tasks. Failures are logged: a ForebayError as information, anything else as an error."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Starts `work`. The caller may await the task or leave it."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, ForebayError):  # the origin is down, memory is short: the awaiting request responds
            _log.info("task %s failed: %s", task.get_name(), error)
        else:
            _log.error("task %s failed", task.get_name(), exc_info=error)

    async def finish(self, work: Coroutine[Any, Any, T], name: str) -> T:
        """Runs `work` to its end, even if the awaiting task is cancelled, and returns its result."""
        return await asyncio.shield(self.spawn(work, name))

    async def wait_idle(self) -> None:
        """Waits until no task is left. For tests, which look at what tasks have done."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))
        await asyncio.sleep(0)  # callbacks of the last task

    async def close(self) -> None:
        """Cancels the remaining tasks, and those that they start meanwhile, and awaits them."""
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(set(self._tasks))

"""A question to the origin under way, its answer, and those who wait for it.

Any number of readers share one question. The flights that come with its answer are followed here, from the moment it is
there until those who waited have had their turn to follow them: what they are about to want must not end as unwanted,
nor its buffer be released.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from forebay.core.heads import Head
from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.fetch.flight import Flight
from forebay.origin.origin_identity import OriginIdentity
from forebay.origin.read_outcomes import ErrorResponse, Uncacheable

LookupKey: TypeAlias = tuple[Literal["GET", "HEAD", "check", "checksums"], OriginIdentity | None]
"""What is asked about an object, and in whose name."""


@dataclass(frozen=True, slots=True)
class ResolvedVersion:
    """The version to answer with."""

    head: Head
    status: Literal["believed", "checked", "opened"]
    flights: dict[int, Flight] = field(default_factory=dict)
    """The flights that came with the answer that told the head, landed or not, by block number: to be followed at once,
    so that their bytes are had even where no tier keeps them. Emptied when all who waited have had their turn."""
    joined: bool = False
    """That answer was asked for by somebody else."""


Resolution: TypeAlias = ResolvedVersion | ErrorResponse | Uncacheable


class SharedLookup:
    """See the module. Owned by the task that it makes; nobody cancels it by ceasing to wait."""

    __slots__ = ("_callbacks", "_result", "_waiters", "_waiting", "_work", "is_done")

    def __init__(self, tasks: TaskRegistry, work: Coroutine[Any, Any, Resolution], label: str) -> None:
        self._result: Resolution | None = None
        self._callbacks: list[Callable[[], None]] = []
        self._waiters: list[asyncio.Future[Resolution]] = []
        self._waiting = 0
        self._work = work
        self.is_done = False
        """Whether it has been answered, or never will be."""
        tasks.spawn(self._run(), label).add_done_callback(self._task_done)

    async def wait(self) -> Resolution:
        """Wait for the answer; raises what the question failed with. Not to be called when it is over."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Resolution] = loop.create_future()
        self._waiters.append(waiter)
        self._waiting += 1
        try:
            return await waiter
        finally:
            self._waiting -= 1
            # Not before the one who waited has come to its next await: until then it may follow them.
            loop.call_soon(self._release_flights)

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        """Have `then` called before anybody knows the answer."""
        self._callbacks.append(callback)

    async def _run(self) -> Resolution:
        found = self._result = await self._work
        if isinstance(found, ResolvedVersion):
            for flight in found.flights.values():
                flight.follow()  # left by _let_go
        # From here, and not when the task is seen to have ended: a turn of the loop earlier.
        for waiter in self._finish():
            if not waiter.done():
                waiter.set_result(found)
        return found

    def _finish(self) -> list[asyncio.Future[Resolution]]:
        self.is_done = True
        then, self._callbacks = self._callbacks, []
        for told in then:
            told()
        waiters, self._waiters = self._waiters, []
        return waiters

    def _task_done(self, task: asyncio.Task[Resolution]) -> None:
        self._work.close()  # it was not begun, if the task was cancelled at once
        for waiter in self._finish():  # there are none left if it was answered
            if waiter.done():
                continue
            if task.cancelled():
                waiter.cancel()
            elif (failure := task.exception()) is not None:
                waiter.set_exception(failure)
        self._release_flights()

    def _release_flights(self) -> None:
        found = self._result
        if self._waiting == 0 and isinstance(found, ResolvedVersion):
            for flight in found.flights.values():
                flight.leave()
            found.flights.clear()


class SharedLookups:
    """Those under way that may be joined, by object."""

    def __init__(self, tasks: TaskRegistry) -> None:
        self._tasks = tasks
        self._shared: dict[ObjectName, dict[LookupKey, SharedLookup]] = {}

    async def share(
        self, name: ObjectName, key: LookupKey, work: Callable[[], Coroutine[Any, Any, Resolution]]
    ) -> tuple[Resolution, bool]:
        """The answer to a question under way, asked if there is none; and whether somebody else asked it."""
        asking = self.find(name, key)
        if asking is not None:
            return await asking.wait(), True
        return await self.start(name, key, work()).wait(), False

    def find(self, name: ObjectName, key: LookupKey) -> SharedLookup | None:
        return self._shared.get(name, {}).get(key)

    def find_opening(self, name: ObjectName, other_than: OriginIdentity | None) -> SharedLookup | None:
        """The first opening of `name` under way that is asked in somebody's name `but` this."""
        questions = self._shared.get(name, {})
        return next((asking for (what, who), asking in questions.items() if what == "GET" and who != other_than), None)

    def start(self, name: ObjectName, key: LookupKey, work: Coroutine[Any, Any, Resolution]) -> SharedLookup:
        """Ask a question that is not under way, for others to join."""
        questions = self._shared.setdefault(name, {})
        asking = questions[key] = self.start_unshared(work, f"{key[0]} {name.path}")
        asking.add_done_callback(lambda: self._unshare(name, questions, key))
        return asking

    def start_unshared(self, work: Coroutine[Any, Any, Resolution], label: str) -> SharedLookup:
        """Ask, for nobody to join. `name` is for the log."""
        return SharedLookup(self._tasks, work, label)

    def fence(self, name: ObjectName) -> None:
        """From here on nobody joins what was asked about `name` before."""
        self._shared.pop(name, None)

    def fence_bucket(self, bucket: str) -> None:
        for name in [name for name in self._shared if name.bucket == bucket]:
            del self._shared[name]

    def _unshare(self, name: ObjectName, questions: dict[LookupKey, SharedLookup], question: LookupKey) -> None:
        del questions[question]
        if not questions and self._shared.get(name) is questions:
            del self._shared[name]

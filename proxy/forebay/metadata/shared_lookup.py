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
from forebay.origin.origin_identity import Asker
from forebay.origin.read_outcomes import Foreign, Refused

Question: TypeAlias = tuple[Literal["GET", "HEAD", "check", "checksums"], Asker | None]
"""What is asked about an object, and in whose name."""


@dataclass(frozen=True, slots=True)
class Known:
    """The version to answer with."""

    head: Head
    how: Literal["believed", "checked", "opened"]
    arriving: dict[int, Flight] = field(default_factory=dict)
    """The flights that came with the answer that told the head, landed or not, by block number: to be followed at once,
    so that their bytes are had even where no tier keeps them. Emptied when all who waited have had their turn."""
    joined: bool = False
    """That answer was asked for by somebody else."""


Resolution: TypeAlias = Known | Refused | Foreign


class Asking:
    """See the module. Owned by the task that it makes; nobody cancels it by ceasing to wait."""

    __slots__ = ("_found", "_then", "_waiters", "_waiting", "_work", "over")

    def __init__(self, tasks: TaskRegistry, work: Coroutine[Any, Any, Resolution], name: str) -> None:
        self._found: Resolution | None = None
        self._then: list[Callable[[], None]] = []
        self._waiters: list[asyncio.Future[Resolution]] = []
        self._waiting = 0
        self._work = work
        self.over = False
        """Whether it has been answered, or never will be."""
        tasks.spawn(self._ask(), name).add_done_callback(self._ended)

    async def answer(self) -> Resolution:
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
            loop.call_soon(self._let_go)

    def when_answered(self, then: Callable[[], None]) -> None:
        """Have `then` called before anybody knows the answer."""
        self._then.append(then)

    async def _ask(self) -> Resolution:
        found = self._found = await self._work
        if isinstance(found, Known):
            for flight in found.arriving.values():
                flight.follow()  # left by _let_go
        # From here, and not when the task is seen to have ended: a turn of the loop earlier.
        for waiter in self._answered():
            if not waiter.done():
                waiter.set_result(found)
        return found

    def _answered(self) -> list[asyncio.Future[Resolution]]:
        self.over = True
        then, self._then = self._then, []
        for told in then:
            told()
        waiters, self._waiters = self._waiters, []
        return waiters

    def _ended(self, task: asyncio.Task[Resolution]) -> None:
        self._work.close()  # it was not begun, if the task was cancelled at once
        for waiter in self._answered():  # there are none left if it was answered
            if waiter.done():
                continue
            if task.cancelled():
                waiter.cancel()
            elif (failure := task.exception()) is not None:
                waiter.set_exception(failure)
        self._let_go()

    def _let_go(self) -> None:
        found = self._found
        if self._waiting == 0 and isinstance(found, Known):
            for flight in found.arriving.values():
                flight.leave()
            found.arriving.clear()


class Questions:
    """Those under way that may be joined, by object."""

    def __init__(self, tasks: TaskRegistry) -> None:
        self._tasks = tasks
        self._shared: dict[ObjectName, dict[Question, Asking]] = {}

    async def share(
        self, name: ObjectName, question: Question, work: Callable[[], Coroutine[Any, Any, Resolution]]
    ) -> tuple[Resolution, bool]:
        """The answer to a question under way, asked if there is none; and whether somebody else asked it."""
        asking = self.under_way(name, question)
        if asking is not None:
            return await asking.answer(), True
        return await self.start(name, question, work()).answer(), False

    def under_way(self, name: ObjectName, question: Question) -> Asking | None:
        return self._shared.get(name, {}).get(question)

    def opening(self, name: ObjectName, but: Asker | None) -> Asking | None:
        """The first opening of `name` under way that is asked in somebody's name `but` this."""
        questions = self._shared.get(name, {})
        return next((asking for (what, who), asking in questions.items() if what == "GET" and who != but), None)

    def start(self, name: ObjectName, question: Question, work: Coroutine[Any, Any, Resolution]) -> Asking:
        """Ask a question that is not under way, for others to join."""
        questions = self._shared.setdefault(name, {})
        asking = questions[question] = self.begin(work, f"{question[0]} {name.path}")
        asking.when_answered(lambda: self._unshare(name, questions, question))
        return asking

    def begin(self, work: Coroutine[Any, Any, Resolution], name: str) -> Asking:
        """Ask, for nobody to join. `name` is for the log."""
        return Asking(self._tasks, work, name)

    def fence(self, name: ObjectName) -> None:
        """From here on nobody joins what was asked about `name` before."""
        self._shared.pop(name, None)

    def fence_bucket(self, bucket: str) -> None:
        for name in [name for name in self._shared if name.bucket == bucket]:
            del self._shared[name]

    def _unshare(self, name: ObjectName, questions: dict[Question, Asking], question: Question) -> None:
        del questions[question]
        if not questions and self._shared.get(name) is questions:
            del self._shared[name]

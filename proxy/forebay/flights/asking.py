"""A question to the origin under way, its answer, and those who wait for it.

Any number of readers share one question. The flights that come with its answer are followed here until those who waited
have had their turn to follow them: what they are about to want must not end as unwanted, nor its buffer be released.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from forebay.flights.flight import Flight
from forebay.flights.permissions import Asker
from forebay.flights.tasks import TaskRegistry
from forebay.stores.origin.outcomes import Foreign, Refused
from forebay.words.heads import Head
from forebay.words.names import ObjectName

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
    """See the module. Made where its task is; nobody cancels it by ceasing to wait."""

    __slots__ = ("_task", "_waiting")

    def __init__(self, task: asyncio.Task[Resolution]) -> None:
        self._task = task
        self._waiting = 0
        task.add_done_callback(lambda _: self._let_go())

    async def answer(self) -> Resolution:
        """Wait for the answer; raises what the question failed with."""
        self._waiting += 1
        try:
            return await asyncio.shield(self._task)
        finally:
            self._waiting -= 1
            # Not before the one who waited has come to its next await: until then it may follow them.
            asyncio.get_running_loop().call_soon(self._let_go)

    def when_answered(self, then: Callable[[], None]) -> None:
        self._task.add_done_callback(lambda _: then())

    def _let_go(self) -> None:
        task = self._task
        if self._waiting or not task.done() or task.cancelled() or task.exception() is not None:
            return
        found = task.result()
        if isinstance(found, Known):
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
        questions = self._shared.setdefault(name, {})
        asking = questions.get(question)
        if asking is not None:
            return await asking.answer(), True
        asking = questions[question] = self.begin(work(), f"{question[0]} {name.path}")
        asking.when_answered(lambda: self._unshare(name, questions, question))
        return await asking.answer(), False

    def begin(self, work: Coroutine[Any, Any, Resolution], name: str) -> Asking:
        """Ask, for nobody to join. `name` is for the log."""
        return Asking(self._tasks.spawn(work, name))

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

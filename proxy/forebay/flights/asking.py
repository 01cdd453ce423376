"""A question to the origin under way, its answer, and those who wait for it.

Any number of readers share one question. The flights that come with its answer are followed here until those who waited
have had their turn to follow them: what they are about to want must not end as unwanted, nor its buffer be released.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from forebay.flights.flight import Flight
from forebay.stores.origin.outcomes import Foreign, Refused
from forebay.words.heads import Head


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

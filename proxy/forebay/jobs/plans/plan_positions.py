"""Plan positions: records in the store where the readers of plans are, for the process after this one.

    every RECORD_TICKS ──> those that have moved ──┐
    the end of Forebay ──> those that have moved ──┴──> <plan>/position       (jobs.plans.plan_store)

A process that is killed loses the reads of the last ten seconds: its successor takes them for unread.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from forebay.core.task_registry import TaskRegistry
from forebay.jobs.plans.plan_runner import PlanRunner
from forebay.jobs.plans.plan_store import PlanStore
from forebay.jobs.plans.plan_window import PlanStart

RECORD_TICKS: Final = 20
"""Half seconds between two records."""
_BEGINNING: Final = PlanStart(unread=frozenset())


class PlanPositions:
    """See the module."""

    def __init__(self, store: PlanStore, tasks: TaskRegistry) -> None:
        self._store, self._tasks = store, tasks
        self._recorded: dict[str, PlanStart] = {}
        """The position that the store has of each plan that runs; by the version of the plan."""

    def record(self, runners: Iterable[PlanRunner]) -> None:
        """Records the positions of all plans that run, in tasks."""
        for runner, position in self._moved(runners):
            self._tasks.spawn(self._store.record_position(runner.record, position), "record a plan's position")

    async def save(self, runners: Iterable[PlanRunner]) -> None:
        """Records them; returns once the store has them."""
        for runner, position in self._moved(runners):
            await self._store.record_position(runner.record, position)

    def _moved(self, runners: Iterable[PlanRunner]) -> Iterator[tuple[PlanRunner, PlanStart]]:
        before, self._recorded = self._recorded, {}
        for runner in runners:
            if runner.record.recording:
                continue  # such a plan is in no store
            version, position = runner.record.version, runner.window.position()
            self._recorded[version] = position
            if before.get(version, _BEGINNING) != position:
                yield runner, position

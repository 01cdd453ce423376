"""Plan positions: a position is written when it has changed, and only that of a plan in the store."""

from types import SimpleNamespace
from typing import cast

from forebay.core.byte_ranges import Span
from forebay.core.task_registry import TaskRegistry
from forebay.jobs.plans.plan_entries import PlanEntry
from forebay.jobs.plans.plan_positions import PlanPositions
from forebay.jobs.plans.plan_runner import PlanRunner
from forebay.jobs.plans.plan_store import PlanRecord, PlanStore
from forebay.jobs.plans.plan_window import PlanStart, PlanWindow


class _Store:
    """The positions that a store was told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, PlanStart]] = []

    async def record_position(self, record: PlanRecord, position: PlanStart) -> None:
        self.told.append((record.name, position))


def _runner(name: str, recording: str = "") -> PlanRunner:
    window = PlanWindow(4, PlanStart())
    window.load([PlanEntry(str(number)) for number in range(4)])
    record = PlanRecord(name, "b", "p", name, 0.0, 4, 0, recording=recording, version=name)
    return cast("PlanRunner", SimpleNamespace(record=record, window=window))


async def test_a_position_that_has_changed_is_recorded() -> None:
    store, tasks = _Store(), TaskRegistry()
    positions = PlanPositions(cast("PlanStore", store), tasks)
    runners = [_runner("read"), _runner("waiting"), _runner("recorded", recording="seed-7")]
    for runner in runners[::2]:
        runner.window.match("1", Span(0, 1))
    for _ in range(2):
        positions.record(runners)
    await tasks.wait_idle()
    assert store.told == [("read", PlanStart(0, 2, unread=frozenset({0})))]
    runners[0].window.match("0", Span(0, 1))
    await positions.save(runners)
    assert store.told[1:] == [("read", PlanStart(2, 2, unread=frozenset()))]

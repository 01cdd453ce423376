"""The plan runner, without an origin: before its entries are loaded, and where none of them can be had."""

import asyncio
import threading
from collections.abc import Container, Sequence

from forebay.core.byte_ranges import Span
from forebay.core.events import ObjectRead
from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.jobs.ahead_request import AheadOutcome, AheadRequest
from forebay.jobs.plans.plan_allowance import Allowance
from forebay.jobs.plans.plan_entries import PlanEntry
from forebay.jobs.plans.plan_pace import FIRST_IN_FLIGHT
from forebay.jobs.plans.plan_retry import MOST_LEFT_OUT
from forebay.jobs.plans.plan_runner import PlanRunner
from forebay.jobs.plans.plan_store import PlanRecord
from forebay.jobs.plans.plan_window import LOAD_SIZE, PlanStart
from harness.inspection import run_loop_until
from harness.manual_timers import ManualTimers

COUNT = 2 * LOAD_SIZE
SIZE = 100


class HeldEntries:
    """Entries that are read once the test allows it: so many times."""

    def __init__(self, count: int = COUNT, allowed: int = 0) -> None:
        self.count = count
        self.allowed = threading.Semaphore(allowed)

    def read(self, start: int, stop: int) -> list[PlanEntry]:
        self.allowed.acquire()
        return [PlanEntry(str(number)) for number in range(start, stop)]

    def find(self, key: str, after: int = 0) -> int | None:
        return None

    def close(self) -> None:
        self.allowed.release(self.count)


class NotedFetches:
    """Has everything at once but what is `missing`, and notes what was fetched."""

    def __init__(self, missing: Container[int] = ()) -> None:
        self.keys: list[str] = []
        self._missing = missing

    def find_nowait(self, request: AheadRequest) -> AheadOutcome | None:
        return None

    async def fetch(self, request: AheadRequest) -> AheadOutcome:
        self.keys.append(request.name.key)
        if int(request.name.key) in self._missing:
            return AheadOutcome("refused", problem="the origin answered 404")
        return AheadOutcome("fetched", SIZE, SIZE)

    def finish(self, tickets: Sequence[int], *, late: bool = False) -> None:
        pass

    def drop(self, tickets: Sequence[int]) -> None:
        pass


def read_of(key: str) -> ObjectRead:
    return ObjectRead(ObjectName("bucket", key), Span(0, SIZE), SIZE, "user", "set", "miss", 0.0)


def runner_of(entries: HeldEntries, ahead: NotedFetches, tasks: TaskRegistry) -> PlanRunner:
    allowance = Allowance(lambda _: True, None, lambda _: 1 << 20, lambda _: "set")
    record = PlanRecord("id", "bucket", "order", "user", 0.0, entries.count, 0)
    return PlanRunner(record, entries, PlanStart(), ahead, lambda: allowance, ManualTimers(), tasks.spawn, lambda: 0.0)


async def test_entries_are_fetched_while_others_are_loaded() -> None:
    entries, ahead, tasks = HeldEntries(), NotedFetches(), TaskRegistry()
    runner = runner_of(entries, ahead, tasks)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runner.run())
        entries.allowed.release()
        await run_loop_until(lambda: bool(ahead.keys))
        assert ahead.keys[0] == "0", "before the rest is loaded"
        assert runner.match([read_of("0"), read_of(str(COUNT - 1))]) == []
        assert runner.read == 0
        entries.allowed.release()
        await run_loop_until(lambda: runner.read == 2)
        assert (runner.late, runner.window.front) == (2, COUNT)
        runner.close("cancelled")
        await running
    await tasks.wait_idle()


async def test_a_plan_of_missing_objects_costs_a_few_requests() -> None:
    """And goes on where its reader does, behind what is missing."""
    count = 20 * MOST_LEFT_OUT
    missing = range(count - 100)
    entries, ahead, tasks = HeldEntries(count, count), NotedFetches(missing), TaskRegistry()
    runner = runner_of(entries, ahead, tasks)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runner.run())
        await run_loop_until(lambda: not runner.window.missing() and runner.failed >= MOST_LEFT_OUT)
        await tasks.wait_idle()
        asked = len(ahead.keys)
        assert asked == runner.failed <= MOST_LEFT_OUT + FIRST_IN_FLIGHT
        assert runner.has_fetched_all, "the next plan of its series need not wait"
        runner.match([read_of(str(asked))])
        await run_loop_until(lambda: runner.failed >= asked + MOST_LEFT_OUT)
        await tasks.wait_idle()
        assert len(ahead.keys) <= 2 * (MOST_LEFT_OUT + FIRST_IN_FLIGHT)
        runner.close("cancelled")
        await running
    await tasks.wait_idle()


async def test_some_missing_objects_end_no_plan() -> None:
    missing = [number for number in range(4 * MOST_LEFT_OUT) if number % MOST_LEFT_OUT]
    entries, ahead, tasks = HeldEntries(len(missing) + 4, len(missing)), NotedFetches(missing), TaskRegistry()
    runner = runner_of(entries, ahead, tasks)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runner.run())
        await run_loop_until(lambda: len(ahead.keys) == entries.count)
        runner.close("cancelled")
        await running
    await tasks.wait_idle()

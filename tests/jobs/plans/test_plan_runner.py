"""The plan runner, without an origin: what happens before its entries are loaded."""

import asyncio
import threading
from collections.abc import Sequence

from forebay.core.byte_ranges import Span
from forebay.core.events import ObjectRead
from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.jobs.ahead_request import AheadOutcome, AheadRequest
from forebay.jobs.plans.plan_allowance import Allowance
from forebay.jobs.plans.plan_entries import PlanEntry
from forebay.jobs.plans.plan_runner import PlanRunner
from forebay.jobs.plans.plan_store import PlanRecord
from forebay.jobs.plans.plan_window import LOAD_SIZE, PlanStart
from harness.inspection import run_loop_until
from harness.manual_timers import ManualTimers

COUNT = 2 * LOAD_SIZE
SIZE = 100


class HeldEntries:
    """Entries that are read once the test allows it: so many times."""

    count = COUNT

    def __init__(self) -> None:
        self.allowed = threading.Semaphore(0)

    def read(self, start: int, stop: int) -> list[PlanEntry]:
        self.allowed.acquire()
        return [PlanEntry(str(number)) for number in range(start, stop)]

    def find(self, key: str, after: int = 0) -> int | None:
        return None

    def close(self) -> None:
        self.allowed.release(COUNT)


class NotedFetches:
    """Has everything at once, and notes what was fetched."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def find_nowait(self, request: AheadRequest) -> AheadOutcome | None:
        return None

    async def fetch(self, request: AheadRequest) -> AheadOutcome:
        self.keys.append(request.name.key)
        return AheadOutcome("fetched", SIZE, SIZE)

    def finish(self, tickets: Sequence[int], *, late: bool = False) -> None:
        pass

    def drop(self, tickets: Sequence[int]) -> None:
        pass


def read_of(key: str) -> ObjectRead:
    return ObjectRead(ObjectName("bucket", key), Span(0, SIZE), SIZE, "user", "set", "miss", 0.0)


async def test_entries_are_fetched_while_others_are_loaded() -> None:
    entries, ahead, tasks = HeldEntries(), NotedFetches(), TaskRegistry()
    allowance = Allowance(lambda _: True, None, lambda _: 1 << 20, lambda _: "set")
    record = PlanRecord("id", "bucket", "order", "user", 0.0, COUNT, 0)
    runner = PlanRunner(
        record, entries, PlanStart(), ahead, lambda: allowance, ManualTimers(), tasks.spawn, lambda: 0.0
    )
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

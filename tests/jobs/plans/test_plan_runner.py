"""The plan runner, without an origin: before its entries are loaded, where none of them can be had or may be read, and
when nobody reads."""

import asyncio
import errno
import os
import threading
from collections.abc import AsyncIterator, Callable, Container, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.events import ObjectRead
from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.jobs.plans.entry_fetches import FULL_PAUSE
from forebay.jobs.plans.plan_allowance import Allowance
from forebay.jobs.plans.plan_entries import PlanEntry
from forebay.jobs.plans.plan_pace import FIRST_ENTRIES, FIRST_IN_FLIGHT, INTERVAL
from forebay.jobs.plans.plan_retry import FIRST_PAUSE, LONGEST_PAUSE, MOST_ATTEMPTS, MOST_LEFT_OUT
from forebay.jobs.plans.plan_runner import (
    END_SECONDS,
    EXPIRE_SECONDS,
    IDLE_SECONDS,
    MAX_CACHED_IN_ROW,
    MAX_FOUND,
    TICK_SECONDS,
    PlanRunner,
)
from forebay.jobs.plans.plan_store import PlanRecord
from forebay.jobs.plans.plan_window import LOAD_SIZE, SPREAD, PlanStart
from forebay.jobs.plans.reader_search import STRAYS
from forebay.jobs.prefetch.prefetch_request import OnOutcome, PrefetchOutcome, PrefetchRequest, PrefetchStatus
from forebay.jobs.prefetch.prefetcher import PIECE
from harness.inspection import run_loop_until
from harness.manual_timers import QUIET, ManualTimers

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
        return int(key) if key.isdecimal() and after <= int(key) < self.count else None

    is_closed = False

    def close(self) -> None:
        self.is_closed = True
        self.allowed.release(self.count)


@pytest.fixture(params=[False, True], ids=["tasks", "direct"], autouse=True)
def is_direct(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test with fetches that take a task of the plan, and with fetches that take none."""
    monkeypatch.setattr(NotedFetches, "is_direct", request.param)


class NotedFetches:
    """Has everything at once but what is `missing`, and notes what was fetched."""

    is_direct = False

    def __init__(self, missing: Container[int] = ()) -> None:
        self.keys: list[str] = []
        self.dropped: list[int] = []
        self.finished: list[tuple[Sequence[int], bool]] = []
        """Tickets, and whether their reader came late; none for reads of what is under way."""
        self._missing = missing
        self._tasks = TaskRegistry()

    def find_nowait(self, request: PrefetchRequest) -> PrefetchOutcome | None:
        return None

    def begin(self, request: PrefetchRequest, on_end: OnOutcome) -> bool:
        if self.is_direct and not request.start and request.stop is None:
            self._tasks.spawn(self._fetch_for(request, on_end), "direct fetch")
            return True
        return False

    async def _fetch_for(self, request: PrefetchRequest, on_end: OnOutcome) -> None:
        on_end(await self.fetch(request))

    async def fetch(self, request: PrefetchRequest) -> PrefetchOutcome:
        self.keys.append(request.name.key)
        if int(request.name.key) in self._missing:
            return PrefetchOutcome("refused", problem="the origin answered 404")
        return PrefetchOutcome("fetched", SIZE, SIZE, SIZE, len(self.keys))

    def finish(self, tickets: Sequence[int], *, late: bool = False) -> None:
        if tickets:
            self.finished.append((list(tickets), late))

    def drop(self, tickets: Sequence[int]) -> None:
        self.dropped += tickets


class HeldFetches(NotedFetches):
    """Likewise, once the test opens its gate."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()

    async def fetch(self, request: PrefetchRequest) -> PrefetchOutcome:
        outcome = await super().fetch(request)
        await self.gate.wait()
        return outcome


class CachedFetches(NotedFetches):
    """Finds everything cached; so many entries of `every` have a ticket."""

    def __init__(self, every: int = 1) -> None:
        super().__init__()
        self._every = every
        self.found = self._in_turn = 0
        self.most_in_turn = 0
        """Entries found in one turn of the loop."""

    def find_nowait(self, request: PrefetchRequest) -> PrefetchOutcome | None:
        if not self._in_turn:
            asyncio.get_running_loop().call_soon(self._end_turn)
        self._in_turn += 1
        self.found += 1
        self.most_in_turn = max(self.most_in_turn, self._in_turn)
        number = int(request.name.key)
        return PrefetchOutcome("fetched", SIZE, SIZE, SIZE, 0 if number % self._every else number + 1)

    def _end_turn(self) -> None:
        self._in_turn = 0


def read_of(key: str, cached: float = 0.0) -> ObjectRead:
    return ObjectRead(ObjectName("bucket", key), Span(0, SIZE), SIZE, "user", "set", "miss", cached)


def horizon_of(name: ObjectName) -> int:
    """A MiB, as a rule may have it for any key."""
    return 1 << 20 if len(name.key) else 0


def runner_of(
    entries: HeldEntries,
    ahead: NotedFetches,
    tasks: TaskRegistry,
    timers: ManualTimers | None = None,
    permits: Callable[[ObjectName], bool] = lambda _: True,
    recording: str = "",
    horizon: Callable[[ObjectName], int] = horizon_of,
    start: int = 0,
) -> PlanRunner:
    """`start`: the first entry that is unread."""
    allowance = Allowance(permits, None, horizon, lambda _: "set")
    record = PlanRecord("id", "bucket", "order", "user", 0.0, entries.count, 0, recording=recording)
    timers = timers if timers is not None else ManualTimers()
    position = PlanStart(start, start)
    return PlanRunner(record, entries, position, ahead, lambda: allowance, timers, tasks.spawn, lambda: 0.0)


async def wait_quiet() -> None:
    """Lets the loop do everything that needs no time."""
    for _ in range(QUIET):
        await asyncio.sleep(0)


async def test_entries_are_fetched_while_others_are_loaded() -> None:
    entries, ahead, tasks = HeldEntries(), NotedFetches(), TaskRegistry()
    runner = runner_of(entries, ahead, tasks)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runner.run())
        entries.allowed.release()
        await run_loop_until(lambda: bool(ahead.keys))
        assert ahead.keys[0] == "0", "before the rest is loaded"
        assert runner.match([read_of("0"), read_of(str(COUNT - 1))]) == []
        assert runner.counts.read == 0
        entries.allowed.release()
        await run_loop_until(lambda: runner.counts.read == 2)
        assert (runner.counts.late, runner.window.front) == (2, COUNT)
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
        await run_loop_until(lambda: not runner.window.missing() and runner.counts.failed >= MOST_LEFT_OUT)
        await tasks.wait_idle()
        asked = len(ahead.keys)
        assert asked == runner.counts.failed <= MOST_LEFT_OUT + FIRST_IN_FLIGHT
        assert runner.has_fetched_all, "the next plan of its series need not wait"
        runner.match([read_of(str(asked))])
        await run_loop_until(lambda: runner.counts.failed >= asked + MOST_LEFT_OUT)
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


async def test_what_may_not_be_read_any_more_is_not_fetched() -> None:
    """Its turn comes long after the plan was sent."""
    entries, ahead, tasks = HeldEntries(20, 20), NotedFetches(), TaskRegistry()
    runner = runner_of(entries, ahead, tasks, permits=lambda name: int(name.key) < 15)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runner.run())
        await run_loop_until(lambda: len(ahead.keys) + runner.counts.failed == 20)
        runner.close("cancelled")
        await running
    await tasks.wait_idle()
    assert (sorted(map(int, ahead.keys)), runner.counts.failed) == (list(range(15)), 5)


@asynccontextmanager
async def fetched(timers: ManualTimers) -> AsyncIterator[tuple[PlanRunner, NotedFetches]]:
    """A plan of ten entries, all of them here, of which two were read."""
    entries, ahead, tasks = HeldEntries(10, 10), NotedFetches(), TaskRegistry()
    runner = runner_of(entries, ahead, tasks, timers)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runner.run())
        await run_loop_until(lambda: runner.window.lead == 10 * SIZE and runner.window.next == 10)
        await tasks.wait_idle()
        runner.match([read_of("0"), read_of("1")])
        yield runner, ahead
        runner.close("cancelled")
        await running
    await tasks.wait_idle()


async def step(timers: ManualTimers, seconds: float) -> None:
    """Some time later the runner looks at the clock."""
    await timers.armed(within=1.0)
    timers.advance(seconds)


async def test_a_plan_that_nobody_reads_gives_back_what_is_ahead() -> None:
    """And fetches it again once somebody does."""
    timers = ManualTimers()
    async with fetched(timers) as (runner, ahead):
        await step(timers, IDLE_SECONDS - 1)
        await step(timers, 0.9)
        assert (runner.state, ahead.dropped) == ("running", [])
        await step(timers, 1.0)
        await run_loop_until(lambda: runner.state == "idle")
        assert (len(ahead.dropped), runner.window.lead) == (8, 0)
        runner.match([read_of("5")])
        await run_loop_until(lambda: len(ahead.keys) == 17 and runner.window.lead == 7 * SIZE)
        assert runner.state == "running"


async def test_a_plan_that_nobody_reads_for_a_day_ends() -> None:
    timers = ManualTimers()
    async with fetched(timers) as (runner, ahead):
        await step(timers, EXPIRE_SECONDS + 1)
        await runner.is_closed.wait()
        assert (runner.state, len(ahead.dropped)) == ("expired", 8)


async def test_a_plan_whose_last_entry_was_read_ends_soon() -> None:
    timers = ManualTimers()
    async with fetched(timers) as (runner, ahead):
        runner.match([read_of("9")])
        await step(timers, END_SECONDS - 1)
        await timers.armed(within=1.0)
        assert runner.state == "running", "what was left out may be read yet"
        await step(timers, 2.0)
        await runner.is_closed.wait()
        assert (runner.state, len(ahead.dropped)) == ("done", 7)


async def test_a_plan_whose_reader_was_near_its_end_ends_soon() -> None:
    """The last entries of a recording may never be read."""
    timers = ManualTimers()
    async with fetched(timers) as (runner, ahead):
        runner.is_near_end = True
        await step(timers, END_SECONDS + 1)
        await runner.is_closed.wait()
        assert (runner.state, len(ahead.dropped)) == ("done", 8)


async def test_reads_of_other_objects_keep_no_plan_alive() -> None:
    timers = ManualTimers()
    async with fetched(timers) as (runner, _):
        await step(timers, IDLE_SECONDS - 1)
        runner.match([read_of("elsewhere")])
        await step(timers, 2.0)
        await run_loop_until(lambda: runner.state == "idle")


class RangedEntries(HeldEntries):
    """Likewise, each of the bytes from 10 to 60 of its object."""

    def read(self, start: int, stop: int) -> list[PlanEntry]:
        return [entry._replace(start=10, stop=60) for entry in super().read(start, stop)]


@pytest.mark.parametrize(
    ("kind", "span", "size"),
    [
        (HeldEntries, Span(0, SIZE), SIZE),
        (HeldEntries, Span(20, 80), 60),
        (RangedEntries, Span(0, SIZE), 50),
        (RangedEntries, Span(0, 40), 30),
    ],
)
async def test_the_pace_counts_the_bytes_of_the_entry(kind: type[HeldEntries], span: Span, size: int) -> None:
    """Of the object as far as it was read, of a range from its beginning, and to its end at most."""
    timers, entries, tasks = ManualTimers(), kind(10, 10), TaskRegistry()
    runner = runner_of(entries, NotedFetches(), tasks, timers)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runner.run())
        await run_loop_until(lambda: runner.window.next == 10)
        runner.match([read_of("0")._replace(span=span), read_of("1")._replace(span=span)])
        await step(timers, INTERVAL)
        await run_loop_until(lambda: runner.pace.seconds_of(1) is not None)
        assert runner.pace.seconds_of(2 * size) == INTERVAL
        runner.close("cancelled")
        await running
    await tasks.wait_idle()


async def test_a_plan_without_a_readable_key_is_loaded_at_once() -> None:
    """No fetch of it wakes the runner, and no time passes."""
    entries, tasks = HeldEntries(), TaskRegistry()
    runner = runner_of(entries, NotedFetches(), tasks, permits=lambda _: False)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runner.run())
        entries.allowed.release(2)
        await run_loop_until(lambda: not runner.window.missing())
        runner.close("cancelled")
        await running
    await tasks.wait_idle()


class DamagedEntries(HeldEntries):
    """Can't be read once they are damaged."""

    is_damaged = False

    def read(self, start: int, stop: int) -> list[PlanEntry]:
        if self.is_damaged:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().read(start, stop)


async def test_reads_do_not_revive_a_plan_that_can_not_be_read() -> None:
    count = 4 * SPREAD
    entries, tasks = DamagedEntries(count, count), TaskRegistry()
    runner = runner_of(entries, NotedFetches(), tasks)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runner.run())
        await run_loop_until(lambda: not runner.window.missing())
        entries.is_damaged = True
        front = runner.window.loaded - 2
        runner.match([read_of(str(front))])
        await run_loop_until(lambda: runner.ended_at is not None)
        runner.match([read_of(str(front + 1))])
        assert runner.counts.read == 2
        await running
    await tasks.wait_idle()
    assert runner.state == "cancelled"


async def test_reads_of_other_objects_are_left_to_other_plans() -> None:
    async with fetched(ManualTimers()) as (runner, _):
        stray = read_of("elsewhere")
        assert runner.match([read_of("2"), stray, read_of("3")]) == [stray]
        assert runner.counts.read == 4


async def test_reads_in_time_and_late_ones_are_told_apart() -> None:
    async with fetched(ManualTimers()) as (runner, ahead):
        ahead.finished.clear()
        runner.match([read_of("2", cached=1.0), read_of("3", cached=0.5), read_of("4", cached=1.0)])
        assert ahead.finished == [([3, 5], False), ([4], True)]
        assert (runner.counts.read, runner.counts.late) == (5, 3)


async def test_a_read_of_what_is_under_way_is_finished_with_its_fetch() -> None:
    """Not before: its blocks have no ticket yet."""
    held = HeldFetches()
    entries, tasks = HeldEntries(4, 4), TaskRegistry()
    runner = runner_of(entries, held, tasks)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runner.run())
        await run_loop_until(lambda: held.keys == ["0"])
        runner.match([read_of("0")])
        assert held.finished == []
        held.gate.set()
        await run_loop_until(lambda: len(held.keys) == 4)
        assert held.finished == [([1], True)]
        runner.close("cancelled")
        await running
    await tasks.wait_idle()
    assert len(held.dropped) == 3


async def test_reads_before_the_first_entries_are_kept_within_bounds() -> None:
    entries, ahead, tasks = HeldEntries(), NotedFetches(), TaskRegistry()
    runner = runner_of(entries, ahead, tasks)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runner.run())
        assert runner.match([*[read_of("elsewhere")] * (SPREAD - 1), read_of("0")]) == []
        assert runner.match([read_of("1")]) == []
        entries.allowed.release(2)
        await run_loop_until(lambda: not runner.window.missing() and runner.counts.read > 0)
        assert runner.counts.read == 1
        runner.close("cancelled")
        await running
    await tasks.wait_idle()


async def test_a_reader_far_ahead_is_followed_there() -> None:
    count = 4 * SPREAD
    entries, ahead, tasks, timers = HeldEntries(count, count), NotedFetches(), TaskRegistry(), ManualTimers()
    runner = runner_of(entries, ahead, tasks, timers)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runner.run())
        await run_loop_until(lambda: not runner.window.missing())
        far = [read_of(str(number)) for number in range(3 * SPREAD, 3 * SPREAD + 2 * STRAYS)]
        runner.match(far[: STRAYS - 1])
        runner.match([read_of("0")])  # it is here after all
        runner.match(far[: STRAYS - 1])
        await step(timers, 0.5)
        await timers.armed(within=1.0)  # it has looked
        await tasks.wait_idle()
        assert runner.window.front < SPREAD
        runner.match(far)
        await run_loop_until(lambda: runner.window.front >= 3 * SPREAD)
        assert runner.counts.given_up > 0
        runner.close("cancelled")
        await running
    await tasks.wait_idle()


async def test_the_next_of_a_series_waits_until_all_is_fetched() -> None:
    held = HeldFetches()
    entries, tasks = HeldEntries(1, 1), TaskRegistry()
    runner = runner_of(entries, held, tasks)
    fetched_all = [runner.has_fetched_all]
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runner.run())
        await run_loop_until(lambda: held.keys == ["0"])
        fetched_all.append(runner.has_fetched_all)
        assert fetched_all == [False, True], "all of it is on its way"
        held.gate.set()
        runner.close("cancelled")
        await running
    await tasks.wait_idle()


async def test_a_plan_that_has_ended_is_not_waited_for() -> None:
    runner = runner_of(HeldEntries(3, 3), NotedFetches(), TaskRegistry())
    runner.close("cancelled")
    assert runner.has_fetched_all
    runner.close("done")
    assert runner.state == "cancelled"
    await runner.run()
    assert runner.state == "cancelled"


async def test_reads_leave_a_plan_that_has_ended_as_it_is() -> None:
    async with fetched(ManualTimers()) as (runner, _):
        runner.close("done")
        runner.match([read_of("2")])
        assert runner.state == "done"


async def test_a_closed_plan_stays_as_it_ended() -> None:
    """Its file is closed, and everything that was ahead is given back once."""
    entries, ahead, tasks = HeldEntries(10, 10), NotedFetches(), TaskRegistry()
    runner = runner_of(entries, ahead, tasks)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runner.run())
        await run_loop_until(lambda: runner.window.lead == 10 * SIZE and runner.window.next == 10)
        await tasks.wait_idle()
        runner.match([read_of("0"), read_of("1"), read_of("2")])
        runner.close("done")
        runner.close("cancelled")
        await running
    await tasks.wait_idle()
    assert (runner.state, runner.closed_at, len(ahead.dropped)) == ("done", 3, 7)
    await run_loop_until(lambda: entries.is_closed)


async def test_a_plan_that_is_read_to_its_end_is_done_at_once() -> None:
    timers = ManualTimers()
    async with fetched(timers) as (runner, _):
        runner.match([read_of(str(number)) for number in range(2, 10)])
        await runner.is_closed.wait()
        assert (runner.state, timers.time()) == ("done", 0.0)


async def test_a_plan_of_a_principal_that_is_gone_ends() -> None:
    entries, ahead, tasks, timers = HeldEntries(10, 10), NotedFetches(), TaskRegistry(), ManualTimers()
    allowances: list[Allowance | None] = [Allowance(lambda _: True, None, lambda _: 1 << 20, lambda _: "set")]
    record = PlanRecord("id", "bucket", "order", "user", 0.0, entries.count, 0)
    runner = PlanRunner(record, entries, PlanStart(), ahead, lambda: allowances[-1], timers, tasks.spawn, lambda: 0.0)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runner.run())
        await run_loop_until(lambda: runner.window.lead == 10 * SIZE and runner.window.next == 10)
        await tasks.wait_idle()
        allowances.append(None)
        await step(timers, TICK_SECONDS)
        await running
    await tasks.wait_idle()
    assert (runner.state, len(ahead.dropped)) == ("revoked", 10)


class HeldPieces(HeldFetches):
    """Likewise, of each object a piece at a time."""

    async def fetch(self, request: PrefetchRequest) -> PrefetchOutcome:
        outcome = await super().fetch(request)
        return outcome._replace(size=10 * SIZE, stop=request.start + SIZE)


async def test_a_fetch_of_a_principal_that_is_gone_ends_with_its_piece(caplog: pytest.LogCaptureFixture) -> None:
    entries, ahead, tasks = HeldEntries(1, 1), HeldPieces(), TaskRegistry()
    allowances: list[Allowance | None] = [Allowance(lambda _: True, None, lambda _: 1 << 20, lambda _: "set")]
    record = PlanRecord("id", "bucket", "order", "user", 0.0, entries.count, 0)
    runner = PlanRunner(
        record, entries, PlanStart(), ahead, lambda: allowances[-1], ManualTimers(), tasks.spawn, lambda: 0.0
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(runner.run())
        await run_loop_until(lambda: bool(ahead.keys))
        allowances.append(None)
        ahead.gate.set()
        await tasks.wait_idle()
    assert (ahead.keys, ahead.dropped, runner.state) == (["0"], [1], "revoked")
    assert not caplog.records, "no task has failed"


class FullTier(NotedFetches):
    """Has no room until the test makes some."""

    is_full = True

    async def fetch(self, request: PrefetchRequest) -> PrefetchOutcome:
        outcome = await super().fetch(request)
        return PrefetchOutcome("full") if self.is_full else outcome


async def test_a_full_tier_is_looked_at_again_soon() -> None:
    """And one that has room is not: a plan sets one timer."""
    entries, ahead, tasks, timers = HeldEntries(3, 10), FullTier(), TaskRegistry(), ManualTimers()
    runner = runner_of(entries, ahead, tasks, timers)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runner.run())
        for _ in range(5):
            await timers.armed(within=FULL_PAUSE)
            await tasks.wait_idle()
            timers.advance(FULL_PAUSE)
        ahead.is_full = False
        await run_loop_until(lambda: runner.window.lead == 3 * SIZE and runner.window.next == 3)
        await tasks.wait_idle()
        await timers.armed(within=TICK_SECONDS)
        await tasks.wait_idle()
        runner.match([read_of("0")])
        await run_loop_until(lambda: runner.counts.read == 1)
        await timers.armed(within=TICK_SECONDS)
        assert timers.pending == 1
        timers.advance(FULL_PAUSE)
        assert timers.pending == 1
        runner.close("cancelled")
        await running
    await tasks.wait_idle()
    assert timers.pending == 0


async def test_cached_entries_are_found_without_a_fetch() -> None:
    """Some in each turn of the loop, and theirs are tickets, too."""
    entries, ahead, tasks = HeldEntries(3 * MAX_FOUND, 10), CachedFetches(), TaskRegistry()
    runner = runner_of(entries, ahead, tasks)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runner.run())
        await run_loop_until(lambda: runner.window.next == entries.count)
        assert (runner.window.lead, runner.pace.mean_size, ahead.keys) == (3 * MAX_FOUND * SIZE, SIZE, [])
        assert (ahead.most_in_turn, runner.data_set) == (MAX_FOUND, "set")
        runner.match([read_of("0", cached=1.0)])
        assert ahead.finished == [([1], False)]
        runner.close("cancelled")
        await running
    await tasks.wait_idle()
    assert ahead.dropped == list(range(2, 3 * MAX_FOUND + 1))


class CachedElsewhere(CachedFetches):
    """Likewise, in other workers: each entry takes a fetch."""

    def find_nowait(self, request: PrefetchRequest) -> PrefetchOutcome | None:
        return None

    async def fetch(self, request: PrefetchRequest) -> PrefetchOutcome:
        found = super().find_nowait(request)
        assert found is not None
        return found


@pytest.mark.parametrize("kind", [CachedFetches, CachedElsewhere])
async def test_a_recording_of_which_all_is_cached_needs_no_plan(kind: type[CachedFetches]) -> None:
    entries, ahead, tasks = HeldEntries(2 * MAX_CACHED_IN_ROW, 100), kind(10 * MAX_CACHED_IN_ROW), TaskRegistry()
    runner = runner_of(entries, ahead, tasks, recording="seed-7")
    await runner.run()
    await tasks.wait_idle()
    assert (runner.state, ahead.keys) == ("done", [])
    assert MAX_CACHED_IN_ROW < ahead.found <= MAX_CACHED_IN_ROW + MAX_FOUND


@pytest.mark.parametrize("kind", [CachedFetches, CachedElsewhere])
@pytest.mark.parametrize(("recording", "every"), [("seed-7", MAX_CACHED_IN_ROW), ("", 10 * MAX_CACHED_IN_ROW)])
async def test_a_plan_that_is_needed_goes_on_to_its_end(kind: type[CachedFetches], recording: str, every: int) -> None:
    """One of a recording if something is fetched for it now and then, and one that a client has sent in any case."""
    entries, ahead, tasks = HeldEntries(3 * MAX_CACHED_IN_ROW, 100), kind(every), TaskRegistry()
    runner = runner_of(entries, ahead, tasks, recording=recording)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runner.run())
        await run_loop_until(lambda: runner.window.next == entries.count)
        assert runner.state == "running"
        runner.close("cancelled")
        await running
    await tasks.wait_idle()


async def test_what_is_dropped_unread_counts_as_useless() -> None:
    class FetchedBlocks(NotedFetches):
        async def fetch(self, request: PrefetchRequest) -> PrefetchOutcome:
            return (await super().fetch(request))._replace(fetched_blocks=1, fetched_bytes=SIZE)

    entries, ahead, tasks = HeldEntries(10, 10), FetchedBlocks(), TaskRegistry()
    runner = runner_of(entries, ahead, tasks)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runner.run())
        await run_loop_until(lambda: runner.window.lead == 10 * SIZE and runner.window.next == 10)
        await tasks.wait_idle()
        runner.match([read_of("0"), read_of("1")])
        runner.close("cancelled")
        await running
    await tasks.wait_idle()
    assert (runner.counts.fetched_bytes, runner.counts.useless_bytes) == (10 * SIZE, 8 * SIZE)


async def test_new_grants_give_up_what_they_forbid() -> None:
    entries, ahead, tasks, timers = HeldEntries(10, 10), NotedFetches(), TaskRegistry(), ManualTimers()
    looked_at = list[str]()

    def all_but_three(name: ObjectName) -> bool:
        looked_at.append(name.key)
        return int(name.key) >= 3

    grants: list[Callable[[ObjectName], bool]] = [lambda _: True, all_but_three]
    allowances = [Allowance(each, None, lambda _: 1 << 20, lambda _: "set") for each in grants]
    record = PlanRecord("id", "bucket", "order", "user", 0.0, entries.count, 0)
    current = allowances[:1]
    runner = PlanRunner(record, entries, PlanStart(), ahead, lambda: current[-1], timers, tasks.spawn, lambda: 0.0)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runner.run())
        await run_loop_until(lambda: runner.window.lead == 10 * SIZE and runner.window.next == 10)
        await tasks.wait_idle()
        current.append(allowances[1])
        await step(timers, TICK_SECONDS)
        await run_loop_until(lambda: len(ahead.dropped) == 3)
        assert (sorted(looked_at, key=int), runner.counts.given_up) == ([str(each) for each in range(10)], 3)
        await step(timers, TICK_SECONDS)
        await tasks.wait_idle()
        assert len(looked_at) == 10, "once for each change"
        runner.close("cancelled")
        await running
    await tasks.wait_idle()


async def test_a_plan_fetches_at_once_where_its_reader_was_found() -> None:
    count = 4 * SPREAD
    entries, ahead, tasks = HeldEntries(count, count), NotedFetches(), TaskRegistry()
    runner = runner_of(entries, ahead, tasks)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runner.run())
        await run_loop_until(lambda: not runner.window.missing())
        runner.match([read_of(str(number)) for number in range(3 * SPREAD, 3 * SPREAD + 2 * STRAYS)])
        await run_loop_until(lambda: str(3 * SPREAD + 2 * STRAYS) in ahead.keys)
        runner.close("cancelled")
        await running
    await tasks.wait_idle()


class HeldSearch(HeldEntries):
    """Finds a key once the test opens the gate."""

    def __init__(self, count: int) -> None:
        super().__init__(count, count)
        self.begun = 0
        self.gate = threading.Event()

    def find(self, key: str, after: int = 0) -> int | None:
        self.begun += 1
        self.gate.wait()
        return super().find(key, after)


async def test_a_search_under_way_is_not_begun_again() -> None:
    count = 4 * SPREAD
    entries, ahead, tasks, timers = HeldSearch(count), NotedFetches(), TaskRegistry(), ManualTimers()
    runner = runner_of(entries, ahead, tasks, timers)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runner.run())
        await run_loop_until(lambda: not runner.window.missing())
        far = [read_of(str(number)) for number in range(3 * SPREAD, 3 * SPREAD + 2 * STRAYS)]
        for _ in range(4):
            runner.match(far)
            await step(timers, TICK_SECONDS)
        await run_loop_until(lambda: entries.begun > 0)
        begun = entries.begun
        entries.gate.set()
        await run_loop_until(lambda: runner.window.front >= 3 * SPREAD)
        runner.close("cancelled")
        await running
    await tasks.wait_idle()
    assert begun == 1


@pytest.mark.parametrize("start", [0, FIRST_ENTRIES])
async def test_as_many_entries_are_in_flight_as_the_pace_says(start: int) -> None:
    """Also of a plan that another process began."""
    held, tasks = HeldFetches(), TaskRegistry()
    entries = HeldEntries(start + 4 * FIRST_IN_FLIGHT, 10)
    runner = runner_of(entries, held, tasks, horizon=lambda _: 1 << 30, start=start)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runner.run())
        await run_loop_until(lambda: not runner.window.missing() and bool(held.keys))
        await wait_quiet()
        assert len(held.keys) == FIRST_IN_FLIGHT
        held.gate.set()
        runner.close("cancelled")
        await running
    await tasks.wait_idle()


class AwayOrigin(NotedFetches):
    """Nothing can be had for now."""

    async def fetch(self, request: PrefetchRequest) -> PrefetchOutcome:
        await super().fetch(request)
        return PrefetchOutcome("unavailable", problem="the origin answered 503")


async def test_nothing_is_fetched_for_a_pause_while_the_origin_is_away() -> None:
    entries, ahead, tasks, timers = HeldEntries(10, 10), AwayOrigin(), TaskRegistry(), ManualTimers()
    runner = runner_of(entries, ahead, tasks, timers)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runner.run())
        for tries in (1, 2):
            await timers.armed(within=FIRST_PAUSE)
            await tasks.wait_idle()
            await wait_quiet()
            assert ahead.keys == ["0"] * tries
            timers.advance(FIRST_PAUSE)
        runner.close("cancelled")
        await running
    await tasks.wait_idle()


async def test_what_arrives_for_a_closed_plan_is_dropped() -> None:
    held, tasks = HeldFetches(), TaskRegistry()
    runner = runner_of(HeldEntries(4, 4), held, tasks)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runner.run())
        await run_loop_until(lambda: held.keys == ["0"])
        runner.close("cancelled")
        await running
        assert held.dropped == []
        held.gate.set()
    await tasks.wait_idle()
    assert held.dropped == [1]


async def test_a_plan_whose_file_is_gone_ends() -> None:
    class LostEntries(HeldEntries):
        def read(self, start: int, stop: int) -> list[PlanEntry]:
            raise OSError("no such file")

    timers = ManualTimers()
    runner = runner_of(LostEntries(10), NotedFetches(), TaskRegistry(), timers)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runner.run())
        await step(timers, TICK_SECONDS)
        await running
    assert runner.state == "cancelled"


async def test_a_plan_without_a_horizon_is_only_followed() -> None:
    """As a rule with plan_horizon = "0B" has it."""
    entries, ahead, tasks = HeldEntries(10, 10), NotedFetches(), TaskRegistry()
    runner = runner_of(entries, ahead, tasks, horizon=lambda _: 0)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runner.run())
        await run_loop_until(lambda: not runner.window.missing())
        runner.match([read_of("0")])
        await wait_quiet()
        assert (ahead.keys, runner.counts.read, runner.window.front) == ([], 1, 1)
        runner.match([read_of(str(number)) for number in range(1, 10)])
        await running
    await tasks.wait_idle()
    assert (ahead.keys, runner.state) == ([], "done")


async def test_entries_larger_than_the_horizon_are_fetched_singly() -> None:
    entries, ahead, tasks = HeldEntries(10, 10), NotedFetches(), TaskRegistry()
    runner = runner_of(entries, ahead, tasks, horizon=lambda _: SIZE // 2)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runner.run())
        for number in range(10):
            await run_loop_until(lambda: runner.window.lead == SIZE)
            await wait_quiet()
            assert ahead.keys == [str(each) for each in range(number + 1)]
            runner.match([read_of(str(number))])
        await running
    await tasks.wait_idle()


async def test_half_of_the_horizon_may_be_behind_the_reader() -> None:
    """What it has passed over beyond that makes room for what it reads next; the horizon is filled to its last byte."""
    horizon = 1200
    entries, ahead, tasks = HeldEntries(2 * horizon, 100), CachedFetches(), TaskRegistry()
    runner = runner_of(entries, ahead, tasks, horizon=lambda _: horizon * SIZE)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runner.run())
        await run_loop_until(lambda: not runner.window.missing() and runner.window.next == horizon)
        runner.match([read_of(str(horizon - 1), cached=1.0)])
        await run_loop_until(lambda: bool(ahead.dropped))
        await wait_quiet()
        passed = horizon - 1 - horizon // 2
        assert (ahead.dropped, runner.counts.given_up) == (list(range(1, passed + 1)), passed)
        assert (runner.window.lead, runner.window.next) == (horizon * SIZE, horizon + passed + 1)
        runner.close("cancelled")
        await running
    await tasks.wait_idle()


async def test_what_arrives_for_an_idle_plan_is_given_back() -> None:
    """Its fetch took longer than the reader's absence."""
    timers, held, tasks = ManualTimers(), HeldFetches(), TaskRegistry()
    runner = runner_of(HeldEntries(3, 3), held, tasks, timers)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runner.run())
        await run_loop_until(lambda: held.keys == ["0"])
        await step(timers, IDLE_SECONDS + 1)
        await run_loop_until(lambda: runner.state == "idle")
        held.gate.set()
        await tasks.wait_idle()
        await step(timers, TICK_SECONDS)
        await wait_quiet()
        assert (held.keys, held.dropped, runner.window.lead) == (["0"], [1], 0)
        runner.match([read_of("1")])
        await run_loop_until(lambda: held.keys == ["0", "0", "2"])
        runner.close("cancelled")
        await running
    await tasks.wait_idle()


async def test_a_plan_closed_before_it_is_loaded_stays_as_it_ended(caplog: pytest.LogCaptureFixture) -> None:
    """The thread that loads it is late, and finds its file closed: no error."""
    entries, tasks, gate = HeldEntries(10, 10), TaskRegistry(), threading.Event()
    runner, loop = runner_of(entries, NotedFetches(), tasks), asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    async with asyncio.TaskGroup() as group:
        busy = loop.run_in_executor(None, gate.wait)
        running = group.create_task(runner.run())
        await wait_quiet()
        runner.close("displaced")
        gate.set()
        await asyncio.gather(busy, running)
    await tasks.wait_idle()
    assert (runner.state, caplog.records) == ("displaced", [])


async def test_a_principal_that_goes_as_entries_are_loaded_ends_it() -> None:
    entries, ahead, tasks = HeldEntries(), NotedFetches(), TaskRegistry()
    allowances: list[Allowance | None] = [Allowance(lambda _: True, None, horizon_of, lambda _: "set")]
    record = PlanRecord("id", "bucket", "order", "user", 0.0, entries.count, 0)
    runner = PlanRunner(
        record, entries, PlanStart(), ahead, lambda: allowances[-1], ManualTimers(), tasks.spawn, lambda: 0.0
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(runner.run())
        await wait_quiet()
        allowances.append(None)
        entries.allowed.release()
    await tasks.wait_idle()
    assert (runner.state, ahead.keys) == ("revoked", [])


class FoundNowAndThen(CachedFetches):
    """Finds one of `EVERY` entries cached; the others are missing."""

    EVERY = MOST_LEFT_OUT - 2 * FIRST_IN_FLIGHT

    def find_nowait(self, request: PrefetchRequest) -> PrefetchOutcome | None:
        return None if int(request.name.key) % self.EVERY else super().find_nowait(request)

    async def fetch(self, request: PrefetchRequest) -> PrefetchOutcome:
        self.keys.append(request.name.key)
        return PrefetchOutcome("refused", problem="the origin answered 404")


async def test_missing_objects_between_cached_ones_end_no_plan() -> None:
    entries, ahead, tasks = HeldEntries(4 * MOST_LEFT_OUT, 100), FoundNowAndThen(), TaskRegistry()
    runner = runner_of(entries, ahead, tasks)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runner.run())
        await run_loop_until(lambda: len(ahead.keys) + ahead.found == entries.count)
        runner.close("cancelled")
        await running
    await tasks.wait_idle()


class Pieces(HeldFetches):
    """Has of each object a piece at a time, and no more than is requested; notes the requests. The piece that begins
    at `end` has another outcome."""

    def __init__(self, size: int, end: int = 1 << 30, ended: PrefetchOutcome | None = None) -> None:
        super().__init__()
        self.gate.set()
        self.requests: list[PrefetchRequest] = []
        self._size, self._end, self._ended = size, end, ended

    async def fetch(self, request: PrefetchRequest) -> PrefetchOutcome:
        self.requests.append(request)
        outcome = await super().fetch(request)
        if self._ended is not None and request.start == self._end:
            return self._ended
        stop = min(self._size, request.start + SIZE, request.stop or self._size)
        return outcome._replace(size=self._size, stop=max(request.start, stop))

    def starts(self, key: str) -> list[int]:
        """The starts of the pieces of one object."""
        return [request.start for request in self.requests if request.name.key == key]


async def run_quietly(runner: PlanRunner, tasks: TaskRegistry, then: Callable[[], None] = lambda: None) -> None:
    """Runs a plan until there is nothing more to do, and closes it after `then`."""
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runner.run())
        await run_loop_until(lambda: not runner.window.missing())
        await wait_quiet()
        then()
        await wait_quiet()
        runner.close("cancelled")
        await running
    await tasks.wait_idle()


@pytest.mark.parametrize("pieces", [3, 10])
async def test_pieces_are_fetched_until_the_horizon_is_full(pieces: int) -> None:
    ahead, tasks, leads = Pieces(10 * SIZE), TaskRegistry(), list[int]()
    runner = runner_of(HeldEntries(1, 1), ahead, tasks, horizon=lambda _: pieces * SIZE)
    await run_quietly(runner, tasks, lambda: leads.append(runner.window.lead))
    assert ahead.starts("0") == [SIZE * each for each in range(pieces)]
    assert (leads, sorted(ahead.dropped)) == ([pieces * SIZE], list(range(1, pieces + 1)))


@pytest.mark.parametrize(("size", "lead"), [(SIZE, 50), (40, 30)])
async def test_a_range_is_fetched_once(size: int, lead: int) -> None:
    """To its end, or to that of the object."""
    ahead, tasks, leads = Pieces(size), TaskRegistry(), list[int]()
    runner = runner_of(RangedEntries(1, 1), ahead, tasks)
    await run_quietly(runner, tasks, lambda: leads.append(runner.window.lead))
    assert (ahead.starts("0"), leads) == ([10], [lead])


async def test_a_cached_range_counts_its_own_bytes() -> None:
    class CachedRanges(CachedFetches):
        def find_nowait(self, request: PrefetchRequest) -> PrefetchOutcome | None:
            found = super().find_nowait(request)
            return found._replace(stop=request.stop or SIZE) if found is not None else None

    tasks, leads = TaskRegistry(), list[int]()
    runner = runner_of(RangedEntries(4, 1), CachedRanges(), tasks)
    await run_quietly(runner, tasks, lambda: leads.append(runner.window.lead))
    assert leads == [4 * 50]


@pytest.mark.parametrize(("status", "failed"), [("full", 0), ("unavailable", 1), ("fetched", 0)])
async def test_an_object_whose_start_is_here_is_not_begun_again(status: PrefetchStatus, failed: int) -> None:
    """Where its next piece brings nothing."""
    ended = PrefetchOutcome(status, 10 * SIZE, 2 * SIZE)
    ahead, tasks, timers = Pieces(10 * SIZE, 2 * SIZE, ended), TaskRegistry(), ManualTimers()
    runner = runner_of(HeldEntries(1, 1), ahead, tasks, timers, horizon=lambda _: 1 << 30)
    await run_quietly(runner, tasks, lambda: timers.advance(2 * FULL_PAUSE))
    assert (ahead.starts("0"), runner.counts.failed) == ([0, SIZE, 2 * SIZE], failed)


async def test_room_is_asked_for_what_an_entry_is_likely_to_take() -> None:
    """No more than one fetch brings."""
    ahead, tasks = Pieces(SIZE), TaskRegistry()
    runner = runner_of(HeldEntries(2, 2), ahead, tasks, horizon=lambda _: 2 * SIZE)
    await run_quietly(runner, tasks)
    assert [request.expected for request in ahead.requests] == [0, SIZE]
    runner = runner_of(HeldEntries(2, 2), ahead, tasks)
    runner.pace.entry_found(2 * PIECE)
    await run_quietly(runner, tasks)
    assert ahead.requests[-1].expected == PIECE


async def test_an_object_that_was_read_meanwhile_gets_no_more_pieces() -> None:
    ahead, tasks = Pieces(10 * SIZE), TaskRegistry()
    ahead.gate.clear()

    def read() -> None:
        runner.match([read_of("0")])
        ahead.gate.set()

    runner = runner_of(HeldEntries(2, 2), ahead, tasks)
    await run_quietly(runner, tasks, read)
    assert (ahead.starts("0"), len(ahead.starts("1"))) == ([0], 10)


async def test_an_object_that_is_given_up_meanwhile_is_dropped() -> None:
    ahead, tasks, timers = Pieces(10 * SIZE), TaskRegistry(), ManualTimers()
    ahead.gate.clear()
    allowances = [Allowance(lambda _: True, None, horizon_of, lambda _: "set")]
    record = PlanRecord("id", "bucket", "order", "user", 0.0, 1, 0)
    runner = PlanRunner(
        record, HeldEntries(1, 1), PlanStart(), ahead, lambda: allowances[-1], timers, tasks.spawn, lambda: 0.0
    )
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runner.run())
        await run_loop_until(lambda: ahead.starts("0") == [0])
        allowances.append(Allowance(lambda _: False, None, horizon_of, lambda _: "set"))
        await step(timers, TICK_SECONDS)
        await run_loop_until(lambda: runner.counts.given_up == 1)
        ahead.gate.set()
        await tasks.wait_idle()
        assert (ahead.starts("0"), ahead.dropped) == ([0], [1])
        await running
    assert runner.state == "done"


class OneAway(NotedFetches):
    """The last object can't be had for now."""

    async def fetch(self, request: PrefetchRequest) -> PrefetchOutcome:
        outcome = await super().fetch(request)
        return PrefetchOutcome("unavailable") if request.name.key == "9" else outcome


async def test_an_object_that_stays_away_is_left_out() -> None:
    """After so many attempts, although nothing else is fetched meanwhile."""
    entries, ahead, tasks, timers = HeldEntries(10, 10), OneAway(), TaskRegistry(), ManualTimers()
    runner = runner_of(entries, ahead, tasks, timers)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runner.run())
        for tries in range(1, MOST_ATTEMPTS + 1):
            await wait_quiet()
            assert (ahead.keys.count("9"), runner.counts.failed) == (tries, tries == MOST_ATTEMPTS)
            await step(timers, LONGEST_PAUSE)
        await run_loop_until(lambda: runner.window.next == 10)
        runner.close("cancelled")
        await running
    await tasks.wait_idle()
    assert len(ahead.keys) == 9 + MOST_ATTEMPTS


async def test_a_fetch_that_ends_makes_way_for_one() -> None:
    class SteppedFetches(NotedFetches):
        def __init__(self) -> None:
            super().__init__()
            self.allowed = asyncio.Semaphore(0)

        async def fetch(self, request: PrefetchRequest) -> PrefetchOutcome:
            outcome = await super().fetch(request)
            await self.allowed.acquire()
            return outcome

    ahead, tasks = SteppedFetches(), TaskRegistry()
    runner = runner_of(HeldEntries(4 * FIRST_IN_FLIGHT, 10), ahead, tasks, horizon=lambda _: 1 << 30)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runner.run())
        for ended in range(3):
            await run_loop_until(lambda: len(ahead.keys) >= FIRST_IN_FLIGHT)
            await wait_quiet()
            assert len(ahead.keys) == FIRST_IN_FLIGHT + ended
            ahead.allowed.release()
        runner.close("cancelled")
        for _ in ahead.keys:
            ahead.allowed.release()
        await running
    await tasks.wait_idle()


async def test_a_search_without_a_result_fails_nothing(caplog: pytest.LogCaptureFixture) -> None:
    entries, ahead, tasks = HeldEntries(10, 10), NotedFetches(), TaskRegistry()
    runner = runner_of(entries, ahead, tasks)

    def stray() -> None:
        runner.match([read_of(f"elsewhere-{number}") for number in range(STRAYS)])

    await run_quietly(runner, tasks, stray)
    assert (runner.counts.given_up, caplog.records) == (0, [])


async def test_the_duration_of_fetches_is_measured() -> None:
    """From their beginning: quick ones make few be in flight, whatever the clock says."""
    timers = ManualTimers()
    timers.advance(1000.0)
    async with fetched(timers) as (runner, _):
        await step(timers, INTERVAL)
        await run_loop_until(lambda: runner.pace.seconds_of(1) is not None)
        assert runner.pace.most_in_flight(1 << 30, 1000) == 2

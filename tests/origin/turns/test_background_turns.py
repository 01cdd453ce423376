"""Background turns: demand comes first, a minimum is always granted, and groups share what is left."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from forebay.core.requester import BACKGROUND, requester
from forebay.core.task_registry import TaskRegistry
from forebay.origin.turns.request_turns import RequestTurns, Turn
from harness.manual_timers import ManualTimers

CAPACITY = 64
MINIMUM = 2


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class BackgroundWork:
    """Pieces of work that wait for background turns; each then takes a turn at the origin, as a fetch does."""

    def __init__(self, turns: RequestTurns, tasks: TaskRegistry) -> None:
        self.turns, self.tasks = turns, tasks
        self.served: list[str] = []

    async def start(self, groups: str) -> int:
        """Begins one for each group. Returns how many have been granted in all."""

        async def begin(group: str) -> None:
            await self.turns.background.acquire(group)
            self.served.append(group)
            self.turns.try_acquire(BACKGROUND)

        for group in groups:
            self.tasks.spawn(begin(group), group)
        await settle()
        return len(self.served)


@asynccontextmanager
async def background_work() -> AsyncIterator[BackgroundWork]:
    work = BackgroundWork(RequestTurns(CAPACITY, "reads", ManualTimers()), TaskRegistry())
    try:
        yield work
    finally:
        await work.tasks.close()


def demand(turns: RequestTurns, count: int) -> list[Turn]:
    found = [turn for _ in range(count) if (turn := turns.try_acquire("reader")) is not None]
    assert len(found) == count
    return found


async def test_alone_background_work_leaves_some_turns_free() -> None:
    async with background_work() as work:
        assert await work.start("a" * CAPACITY) == CAPACITY - CAPACITY // 8
        demand(work.turns, CAPACITY // 8)


async def test_beside_demand_it_has_a_quarter() -> None:
    async with background_work() as work:
        demand(work.turns, 10)
        assert await work.start("a" * CAPACITY) == CAPACITY // 4


async def test_a_fetch_that_has_ended_hides_no_demand() -> None:
    """Its request ends before its background turn; what becomes free between is not taken for more."""
    async with background_work() as work:
        turns, most = work.turns, CAPACITY - CAPACITY // 8
        held: list[Turn] = []

        async def fetch() -> None:
            async with turns.background.turn("plan"):
                assert requester.get() == BACKGROUND
                turn = turns.try_acquire(requester.get())
                assert turn is not None
                held.append(turn)
                await asyncio.Event().wait()

        fetches = [work.tasks.spawn(fetch(), "fetch") for _ in range(most + 20)]
        await settle()
        assert len(held) == most
        [reader] = demand(turns, 1)
        for turn, ended in zip(held[:10], fetches[:10], strict=True):
            turn.release()
            await settle()
            ended.cancel()
            await settle()
        assert len(held) == most, "beside a read, background work has a quarter"
        reader.release()
        await settle()
        assert len(held) == most + 10


async def test_the_minimum_is_granted_whatever_demand_does() -> None:
    async with background_work() as work:
        demand(work.turns, CAPACITY)
        assert await work.start("a" * CAPACITY) == MINIMUM == work.turns.background.minimum


async def test_none_is_granted_while_demand_waits() -> None:
    async with background_work() as work:
        turns = work.turns
        held = demand(turns, CAPACITY)
        waiting = work.tasks.spawn(turns.acquire("another reader", 10.0), "demand")
        assert await work.start("aaa") == MINIMUM
        held.pop().release()
        await settle()
        assert (waiting.done(), len(work.served)) == (True, MINIMUM)
        for turn in held:
            turn.release()
        (await waiting).release()
        await settle()
        assert len(work.served) == MINIMUM + 1
        for _ in range(MINIMUM + 1):
            turns.background.release("a")
        assert (turns.background.in_use, turns.background.waiting) == (0, 0)


async def test_groups_share_what_becomes_free() -> None:
    async with background_work() as work:
        held = demand(work.turns, CAPACITY)
        await work.start("aa" + "aaab")
        work.turns.background.release("a")
        await settle()
        assert work.served == ["a", "a", "b"]
        for turn in held:
            turn.release()
        await settle()
        assert work.served == ["a", "a", "b", "a", "a", "a"]


async def test_a_cancelled_wait_leaves_nothing_behind() -> None:
    async with background_work() as work:
        turns = work.turns
        held = demand(turns, CAPACITY)
        for _ in range(MINIMUM):
            await turns.background.acquire("plan")
        waiting = [work.tasks.spawn(turns.background.acquire("plan"), "wait") for _ in range(2)]
        await settle()
        waiting[0].cancel()
        turns.background.release("plan")
        waiting[1].cancel()  # granted in this iteration
        await asyncio.wait(waiting)
        turns.background.release("plan")
        assert (turns.background.in_use, turns.background.waiting) == (0, 0)
        for turn in held:
            turn.release()

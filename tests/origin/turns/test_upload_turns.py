"""Upload turns: demand first, a minimum always, and small requests not behind large ones."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from forebay.core.requester import BACKGROUND, requester
from forebay.core.task_registry import TaskRegistry
from forebay.origin.turns.request_turns import RequestTurns, Turn
from forebay.origin.turns.upload_turns import LARGE, UploadTurns
from harness.manual_timers import ManualTimers

CAPACITY = 64
MINIMUM, BESIDE_DEMAND, ALONE = 2, 16, 56


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class Uploads:
    """Requests with upload turns, which end when they are let, one by one."""

    def __init__(self, tasks: TaskRegistry) -> None:
        self.reads = RequestTurns(CAPACITY, "reads", ManualTimers())
        self.writes = RequestTurns(CAPACITY, "writes", ManualTimers())
        self.turns = UploadTurns(self.reads, self.writes)
        self.granted: list[str] = []
        self.ends: list[asyncio.Event] = []
        self.tasks = tasks
        self.sent: list[asyncio.Task[None]] = []

    async def send(self, names: Sequence[str], size: int = 0) -> int:
        """Begins one for each name. Returns how many have been granted in all."""

        async def upload(name: str) -> None:
            requester.set(BACKGROUND)
            async with self.turns.turn(size):
                self.granted.append(name)
                turn = self.writes.try_acquire(BACKGROUND)
                self.ends.append(end := asyncio.Event())
                await end.wait()
                if turn is not None:
                    turn.release()

        self.sent += [self.tasks.spawn(upload(name), name) for name in names]
        await settle()
        return len(self.granted)

    async def end(self, count: int) -> int:
        """Ends the first ones that have not ended. Returns how many have been granted in all."""
        ending, self.ends = self.ends[:count], self.ends[count:]
        for end in ending:
            end.set()
        await settle()
        return len(self.granted)


@asynccontextmanager
async def uploads() -> AsyncIterator[Uploads]:
    tasks = TaskRegistry()
    try:
        yield Uploads(tasks)
    finally:
        await tasks.close()


def demand(turns: RequestTurns, count: int) -> list[Turn]:
    found = [turn for _ in range(count) if (turn := turns.try_acquire("client")) is not None]
    assert len(found) == count
    return found


async def test_alone_uploads_leave_turns_for_who_comes() -> None:
    async with uploads() as drain:
        assert await drain.send(["a"] * CAPACITY) == ALONE
        demand(drain.writes, CAPACITY - ALONE)


@pytest.mark.parametrize("kind", ["reads", "writes"])
async def test_beside_demand_uploads_have_a_quarter(kind: str) -> None:
    async with uploads() as drain:
        turns = drain.reads if kind == "reads" else drain.writes
        [held] = demand(turns, 1)
        assert await drain.send(["a"] * CAPACITY) == BESIDE_DEMAND
        held.release()
        await settle()
        assert len(drain.granted) == ALONE


async def test_while_demand_waits_uploads_have_their_minimum() -> None:
    async with uploads() as drain:
        demand(drain.reads, CAPACITY)
        waiting = drain.tasks.spawn(drain.reads.acquire("client", 60.0), "a read")
        await settle()
        assert await drain.send(["a"] * CAPACITY) == MINIMUM
        assert await drain.end(1) == MINIMUM + 1, "and never fewer"
        assert not waiting.done()


async def test_prefetched_reads_are_no_demand() -> None:
    async with uploads() as drain:
        assert drain.reads.try_acquire(BACKGROUND) is not None
        assert await drain.send(["a"] * CAPACITY) == ALONE


async def test_small_requests_wait_for_no_large_one() -> None:
    async with uploads() as drain:
        assert await drain.send(["large"] * CAPACITY, LARGE + 1) == ALONE * 3 // 4
        assert await drain.send(["small"]) == ALONE * 3 // 4 + 1
        assert drain.granted[-1] == "small"


async def test_small_requests_starve_no_large_one() -> None:
    async with uploads() as drain:
        await drain.send(["small"] * 2 * CAPACITY)
        await drain.send(["large"] * 2 * CAPACITY, LARGE + 1)
        assert set(drain.granted) == {"small"}
        await drain.end(20)
        assert drain.granted[ALONE:] == ["large"] * 20


async def test_at_the_minimum_both_get_through() -> None:
    async with uploads() as drain:
        demand(drain.reads, CAPACITY)
        drain.tasks.spawn(drain.reads.acquire("client", 60.0), "a read")
        await settle()
        await drain.send(["large"] * 2, LARGE + 1)
        await drain.send(["small"] * 2)
        assert drain.granted == ["large", "small"]
        await drain.end(2)
        assert sorted(drain.granted) == ["large", "large", "small", "small"]


async def test_what_a_client_waits_for_does_not_wait_here() -> None:
    async with uploads() as drain:
        await drain.send(["a"] * CAPACITY)
        async with drain.turns.turn(0):
            assert drain.turns.in_use == ALONE


async def test_a_cancelled_wait_leaves_nothing_behind() -> None:
    async with uploads() as drain:
        await drain.send(["a"] * (ALONE + 2))
        drain.sent[ALONE].cancel()
        await settle()
        assert drain.turns.waiting == 1
        granted, _ = drain.ends.pop(0), drain.sent[ALONE + 1]
        granted.set()
        await asyncio.sleep(0)
        drain.sent[ALONE + 1].cancel()  # as it is granted, or right after
        await settle()
        assert (drain.turns.in_use, drain.turns.waiting) == (ALONE - 1, 0)
        assert await drain.end(ALONE) == len(drain.granted)
        assert (drain.turns.in_use, drain.writes.in_use) == (0, 0)

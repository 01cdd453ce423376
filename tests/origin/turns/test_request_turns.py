"""Turns at the origin: bounded, fair between principals, and not kept by slow clients while others wait."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.core.errors import Throttled
from forebay.origin.turns.request_turns import RequestTurns, Turn
from forebay.policy.client_pace import WINDOW
from harness.manual_timers import ManualTimers

LONG = 1000.0
RATE = 1000.0


async def settle() -> None:
    """Let everybody who can go on do so."""
    for _ in range(5):
        await asyncio.sleep(0)


class Requests:
    """Requests by name, each a task that waits for its turn and keeps it until it is released."""

    def __init__(self, turns: RequestTurns, group: asyncio.TaskGroup) -> None:
        self.turns, self._group = turns, group
        self.tasks: dict[str, asyncio.Task[Turn]] = {}
        self.served: list[str] = []

    async def start(self, name: str, principal: str, *, paced: bool = False) -> None:
        async def acquire() -> Turn:
            turn = await self.turns.acquire(principal, LONG, paced=paced)
            self.served.append(name)
            return turn

        self.tasks[name] = self._group.create_task(acquire())
        await settle()

    async def release(self, name: str) -> None:
        (await self.tasks.pop(name)).release()
        await settle()

    async def cancel(self, name: str) -> None:
        self.tasks.pop(name).cancel()
        await settle()


async def test_reads_come_in_the_order_of_a_single_principal() -> None:
    turns = RequestTurns(1, "reads", ManualTimers())
    async with asyncio.TaskGroup() as group:
        requests = Requests(turns, group)
        for name in "abcd":
            await requests.start(name, "p")
        assert (turns.in_use, turns.waiting) == (1, 3)
        await requests.cancel("b")
        for name in "acd":
            await requests.release(name)
    assert (requests.served, turns.in_use, turns.waiting) == (["a", "c", "d"], 0, 0)


async def test_a_free_turn_goes_to_the_principal_with_the_fewest() -> None:
    turns = RequestTurns(4, "writes", ManualTimers())
    async with asyncio.TaskGroup() as group:
        requests = Requests(turns, group)
        for number in range(8):
            await requests.start(f"greedy {number}", "greedy")
        for number in range(3):
            await requests.start(f"modest {number}", "modest")
        for number in range(4):
            await requests.release(f"greedy {number}")
        # Two each after two releases. From then on each gets the turns that it returns.
        assert requests.served[4:] == ["modest 0", "modest 1", "greedy 4", "greedy 5"]
        for name in ("modest 0", "modest 1", "modest 2", "greedy 4", "greedy 5", "greedy 6", "greedy 7"):
            await requests.release(name)
    assert (turns.in_use, turns.waiting) == (0, 0)


async def test_paced_requests_leave_turns_to_others() -> None:
    turns = RequestTurns(64, "writes", ManualTimers())
    async with asyncio.TaskGroup() as group:
        requests = Requests(turns, group)
        for number in range(100):
            await requests.start(f"drip {number}", "slow", paced=True)
        assert (turns.paced, turns.in_use) == (36, 36)
        for number in range(100):
            await requests.start(f"other {number}", "another", paced=True)
        assert (turns.paced, turns.in_use) == (48, 48)
        for number in range(16):
            await requests.start(f"bodyless {number}", "slow")
        assert (turns.in_use, len(requests.served)) == (64, 64)
        (await requests.tasks["drip 0"]).complete_body()
        await settle()
        assert (turns.paced, turns.in_use, requests.served[64:]) == (47, 64, [])
        await requests.release("bodyless 0")
        assert requests.served[64:] == ["other 12"]
        for name, task in list(requests.tasks.items()):
            if not task.done():
                await requests.cancel(name)
        for name in list(requests.tasks):
            await requests.release(name)
    assert (turns.in_use, turns.paced, turns.waiting) == (0, 0, 0)


async def test_slow_requests_of_a_principal_leave_turns_to_others() -> None:
    turns = RequestTurns(64, "writes", ManualTimers())
    async with asyncio.TaskGroup() as group:
        requests = Requests(turns, group)
        for number in range(64):
            await requests.start(f"alone {number}", "p")
        assert turns.in_use == 64  # nobody else is known
        await requests.start("other", "q")
        for number in range(8):
            await requests.start(f"more {number}", "p")
            await requests.release(f"alone {number}")
        assert requests.served[64:] == ["other"]
        assert (turns.in_use, turns.waiting) == (57, 8)
        for number in range(7):
            await requests.start(f"other {number}", "q")
        assert requests.served[65:] == [f"other {number}" for number in range(7)]
        for name, task in list(requests.tasks.items()):
            if not task.done():
                await requests.cancel(name)
        for name in list(requests.tasks):
            await requests.release(name)
    assert (turns.in_use, turns.waiting) == (0, 0)


@pytest.mark.parametrize(("capacity", "paced", "own"), [(1, 1, 1), (2, 1, 1), (3, 2, 1), (4, 3, 2), (256, 192, 144)])
def test_three_of_four_turns_may_be_paced(capacity: int, paced: int, own: int) -> None:
    turns = RequestTurns(capacity, "reads", ManualTimers())
    assert (turns.paced_capacity, turns.own_paced_capacity) == (paced, own)


async def test_a_wait_that_ends_leaves_nothing() -> None:
    turns = RequestTurns(1, "reads", ManualTimers())
    turn = await turns.acquire("p", 0.0)
    with pytest.raises(Throttled, match="reads"):
        await turns.acquire("p", 0.0)
    async with asyncio.TaskGroup() as group:
        granted = group.create_task(turns.acquire("q", LONG))
        await settle()
        turn.release()  # granted now ...
        granted.cancel()  # ... and cancelled before it could run
    async with asyncio.TaskGroup() as group:
        turn = await turns.acquire("p", 0.0)
        waiting = group.create_task(turns.acquire("q", LONG))
        await settle()
        waiting.cancel()
        turn.release()
    assert (turns.in_use, turns.waiting) == (0, 0)


class SlowClients:
    """Paced requests that are ended are released at once, as an upload that is broken off."""

    def __init__(self, capacity: int) -> None:
        self.timers = ManualTimers()
        self.turns = RequestTurns(capacity, "writes", self.timers, min_rate=RATE)
        self.ended: list[str] = []

    async def start(self, name: str, principal: str) -> Turn:
        turn = await self.turns.acquire(principal, LONG, paced=True)

        def end() -> None:
            self.ended.append(name)
            turn.release()

        turn.on_end = end
        turn.wait_for_client()
        return turn

    def drip(self, turn: Turn, size: int) -> None:
        turn.receive(size)
        turn.wait_for_client()


async def test_slow_clients_lose_their_turns_only_to_waiters() -> None:
    slow = SlowClients(4)  # three paced, two of a principal
    first, second, third = [await slow.start(*who) for who in (("first", "p"), ("second", "p"), ("third", "q"))]
    for _ in range(60):
        slow.timers.advance(1)
        for turn, size in ((first, 1), (second, 2), (third, 5000)):
            slow.drip(turn, size)
    assert slow.ended == []  # nobody waits
    bodyless = await slow.turns.acquire("r", LONG)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(slow.turns.acquire("r", LONG))
        await settle()
        assert slow.ended == ["first"]  # the slowest, and no more than it takes
        (await waiting).release()
        slow.timers.advance(60)
        assert slow.ended == ["first"]
    for turn in (second, third, bodyless):
        turn.release()
    assert (slow.turns.in_use, slow.turns.paced, slow.turns.waiting) == (0, 0, 0)


async def test_a_client_has_the_window_to_prove_its_pace() -> None:
    slow = SlowClients(4)
    turns = [await slow.start("new", "p"), await slow.start("fast", "p")]
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(slow.turns.acquire("p", LONG, paced=True))
        for _ in range(int(WINDOW) - 1):
            slow.timers.advance(1)
            slow.drip(turns[1], 2000)
            await settle()
            assert (slow.ended, waiting.done()) == ([], False)
        slow.timers.advance(2)
        await settle()
        assert slow.ended == ["new"]
        (await waiting).release()
    turns[1].release()


async def test_no_turn_is_ended_that_helps_nobody() -> None:
    slow = SlowClients(8)  # six paced, four of a principal
    others = [await slow.start(f"other {number}", "q") for number in range(2)]
    mine = [await slow.start(f"mine {number}", "p") for number in range(4)]
    for _ in range(10):
        slow.timers.advance(1)
        for turn in others:
            slow.drip(turn, 1)
        for turn in mine:
            slow.drip(turn, 5000)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(slow.turns.acquire("p", LONG, paced=True))
        await settle()
        assert (slow.ended, waiting.done()) == ([], False)  # it is its own principal's turns that it waits for
        waiting.cancel()
    for turn in (*others, *mine):
        turn.release()


@dataclass
class Model:
    """What is out and who waits, by the rules as they are written."""

    capacity: int
    out: dict[int, tuple[str, bool]] = field(default_factory=dict)
    waiting: dict[int, tuple[str, bool]] = field(default_factory=dict)
    principals: set[str] = field(default_factory=set)

    def count(self, principal: str | None = None, *, paced: bool | None = None) -> int:
        return sum(
            (principal is None or who == principal) and (paced is None or kind == paced)
            for who, kind in self.out.values()
        )

    def allows(self, principal: str, *, paced: bool) -> bool:
        if self.count() >= self.capacity:
            return False
        if len(self.principals) > 1 and self.count(principal) >= self.capacity - self.capacity // 8:
            return False
        bound = max(1, self.capacity * 3 // 4)
        own = max(1, bound * 3 // 4)
        return not paced or (self.count(paced=True) < bound and self.count(principal, paced=True) < own)

    def serve(self) -> Iterator[int]:
        """Moves waiters whose turn it is. Yields them."""
        while True:
            allowed = [number for number, (who, kind) in self.waiting.items() if self.allows(who, paced=kind)]
            if not allowed:
                return
            number = min(allowed, key=lambda each: (self.count(self.waiting[each][0]), each))
            self.out[number] = self.waiting.pop(number)
            yield number


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("start"), st.sampled_from("pqr"), st.booleans()),
        st.tuples(st.sampled_from(["release", "cancel", "complete"]), st.integers(0, 100)),
    ),
    max_size=60,
)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 10), STEPS)
def test_turns_are_shared_as_the_model_says(capacity: int, steps: list[tuple[Any, ...]]) -> None:
    asyncio.run(follow(capacity, steps))


async def follow(capacity: int, steps: list[tuple[Any, ...]]) -> None:
    turns, model = RequestTurns(capacity, "turns", ManualTimers()), Model(capacity)
    async with asyncio.TaskGroup() as group:
        requests, number = Requests(turns, group), 0
        expected: list[str] = []
        for step in steps:
            match step:
                case ("start", str(principal), bool(paced)):
                    model.waiting[number] = (principal, paced)
                    model.principals.add(principal)
                    expected += map(str, model.serve())
                    await requests.start(str(number), principal, paced=paced)
                    number += 1
                case ("cancel", int(index)) if model.waiting:
                    waiter = list(model.waiting)[index % len(model.waiting)]
                    del model.waiting[waiter]
                    await requests.cancel(str(waiter))
                case ("release", int(index)) if model.out:
                    holder = list(model.out)[index % len(model.out)]
                    del model.out[holder]
                    expected += map(str, model.serve())
                    await requests.release(str(holder))
                case ("complete", int(index)) if model.out:
                    holder = list(model.out)[index % len(model.out)]
                    model.out[holder] = (model.out[holder][0], False)
                    expected += map(str, model.serve())
                    (await requests.tasks[str(holder)]).complete_body()
                    await settle()
            assert requests.served == expected
            assert (turns.in_use, turns.paced) == (model.count(), model.count(paced=True))
            assert turns.waiting == len(model.waiting)
        while model.out:  # nobody starves: as turns are returned, every waiter is served
            holder = next(iter(model.out))
            del model.out[holder]
            expected += map(str, model.serve())
            await requests.release(str(holder))
        assert (requests.served, model.waiting) == (expected, {})
    assert (turns.in_use, turns.paced, turns.waiting) == (0, 0, 0)

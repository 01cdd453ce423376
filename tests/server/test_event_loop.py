"""The loop that cuts what is due into slices, on both kinds of loop that it is made of."""

import asyncio
import contextvars
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
import uvloop

from forebay.server.event_loop import SLICE, loop_factory, sliced_loop

KINDS = [asyncio.SelectorEventLoop, uvloop.Loop]


class Clock:
    """Moves on when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=KINDS, ids=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest, clock: Clock) -> Iterator[asyncio.AbstractEventLoop]:
    kind: Callable[[], asyncio.AbstractEventLoop] = sliced_loop(request.param, clock)
    with closing(kind()) as made:
        yield made


def _readable(loop: asyncio.AbstractEventLoop, then: Callable[[], object]) -> list[socket.socket]:
    """Two ends of a connection; `then` is called when the loop sees that the first has something to read."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)

    def look() -> None:
        loop.remove_reader(ours)
        then()

    loop.add_reader(ours, look)
    return [ours, theirs]


@pytest.mark.parametrize(("takes", "in_a_slice"), [(2 * SLICE, 1), (SLICE / 2.5, 3)])
def test_what_arrives_waits_for_a_slice_or_two(
    loop: asyncio.AbstractEventLoop, clock: Clock, takes: float, in_a_slice: int
) -> None:
    """However much is due. Ten callbacks are, and during the first of them something arrives: it waits for the end of
    that slice, on asyncio's own loop for that of the next."""
    told: list[object] = []
    ends = _readable(loop, lambda: told.append("arrived"))

    def work(number: int) -> None:
        if number == 0:
            ends[1].send(b"x")
        clock.now += takes
        told.append(number)

    async def wait_for_all() -> None:
        for number in range(10):
            loop.call_soon(work, number)
        while len(told) < 11:  # noqa: ASYNC110 # one turn more, each time
            await asyncio.sleep(0)

    loop.run_until_complete(wait_for_all())
    for end in ends:
        end.close()
    assert [each for each in told if each != "arrived"] == list(range(10))
    assert told.index("arrived") <= 2 * in_a_slice


def test_what_is_due_runs_in_its_order_and_in_its_context(loop: asyncio.AbstractEventLoop) -> None:
    told: list[object] = []
    who = contextvars.ContextVar("who", default="nobody")

    def tell(name: str) -> None:
        told.append((name, who.get()))
        if name == "first":
            loop.call_soon(tell, "made due by the first")

    loop.call_soon(tell, "first")
    who.set("somebody")
    loop.call_soon(tell, "second")
    loop.call_soon(tell, "cancelled").cancel()
    assert loop.call_soon(tell, "third", context=contextvars.Context()).cancelled() is False
    loop.call_soon(loop.call_soon, loop.stop)
    loop.run_forever()
    assert told == [
        ("first", "nobody"),
        ("second", "somebody"),
        ("third", "nobody"),
        ("made due by the first", "nobody"),
    ]


def test_a_callback_that_fails_is_told_of_and_the_others_run(loop: asyncio.AbstractEventLoop) -> None:
    told: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, what: told.append(what))

    def fail() -> None:
        raise ValueError("a defect")

    ran: list[int] = []
    loop.call_soon(fail)
    loop.call_soon(ran.append, 1)
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert ran == [1]
    assert [(type(each["exception"]), "fail" in each["message"]) for each in told] == [(ValueError, True)]


def test_who_ends_the_loop_ends_it_and_what_is_due_is_not_lost(loop: asyncio.AbstractEventLoop) -> None:
    def leave() -> None:
        raise KeyboardInterrupt

    ran: list[int] = []
    loop.call_soon(leave)
    loop.call_soon(ran.append, 1)
    with pytest.raises(KeyboardInterrupt):
        loop.run_forever()
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert ran == [1]


def test_the_one_that_serves_is_cut_and_works() -> None:
    async def works() -> str:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(asyncio.to_thread(str, 1))
        return await asyncio.wait_for(task, 5)

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        assert "Sliced" in type(runner.get_loop()).__name__
        assert isinstance(runner.get_loop(), uvloop.Loop)
        assert runner.run(works()) == "1"

import asyncio

import pytest

from forebay.server.http.sendfile_writer import TURN_SECONDS, SendQueue


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_all_leave_once_everybody_was_answered_and_in_their_order() -> None:
    departures = SendQueue(asyncio.get_running_loop())
    told: list[object] = []
    for number in range(3):
        departures.add(lambda number=number: told.append(number))  # type: ignore[misc] # lambdas can't be annotated
        told.append("answered")
    await asyncio.sleep(0)
    assert told == ["answered"] * 3 + [0, 1, 2]


async def test_what_comes_while_they_leave_waits_for_the_next_time() -> None:
    departures = SendQueue(asyncio.get_running_loop())
    told: list[str] = []

    def first() -> None:
        told.append("first")
        departures.add(lambda: told.append("second"))

    departures.add(first)
    await asyncio.sleep(0)
    assert told == ["first"]
    await asyncio.sleep(0)
    assert told == ["first", "second"]


async def test_sockets_are_looked_at_when_it_takes_long() -> None:
    clock = Clock()
    departures = SendQueue(asyncio.get_running_loop(), clock)
    told: list[int] = []

    def depart() -> None:
        clock.now += 0.6 * TURN_SECONDS
        told.append(len(told))

    for _ in range(5):
        departures.add(depart)
    counts = []
    for _ in range(3):
        await asyncio.sleep(0)
        counts.append(len(told))
    assert counts == [2, 4, 5]


async def test_one_that_fails_keeps_nobody_from_leaving() -> None:
    loop, failed, told = asyncio.get_running_loop(), [], []
    loop.set_exception_handler(lambda _, context: failed.append(context["exception"]))
    departures = SendQueue(loop)

    def broken() -> None:
        raise ZeroDivisionError

    departures.add(broken)
    departures.add(lambda: told.append("left"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert told == ["left"]
    with pytest.raises(ZeroDivisionError):
        raise failed[0]

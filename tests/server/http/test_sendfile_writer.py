"""The queue of bodies that the kernel sends. Whole bodies over sockets: tests/scenarios/test_sendfile.py."""

import asyncio

import pytest

from forebay.server.http.sendfile_writer import TURN_SECONDS, SendQueue
from harness.manual_timers import Clock


async def test_bodies_leave_in_order_after_all_were_answered() -> None:
    queue = SendQueue(asyncio.get_running_loop())
    log: list[object] = []
    for number in range(3):
        queue.add(lambda number=number: log.append(number))  # type: ignore[misc] # lambdas can't be annotated
        log.append("answered")
    await asyncio.sleep(0)
    assert log == ["answered"] * 3 + [0, 1, 2]


async def test_a_body_added_while_others_leave_waits_a_turn() -> None:
    queue = SendQueue(asyncio.get_running_loop())
    log: list[str] = []

    def first() -> None:
        log.append("first")
        queue.add(lambda: log.append("second"))

    queue.add(first)
    await asyncio.sleep(0)
    assert log == ["first"]
    await asyncio.sleep(0)
    assert log == ["first", "second"]


async def test_sockets_have_their_turn_when_sending_takes_long() -> None:
    clock = Clock()
    queue = SendQueue(asyncio.get_running_loop(), clock)
    log: list[int] = []

    def send() -> None:
        clock.now += 0.6 * TURN_SECONDS
        log.append(len(log))

    for _ in range(5):
        queue.add(send)
    counts = []
    for _ in range(3):
        await asyncio.sleep(0)
        counts.append(len(log))
    assert counts == [2, 4, 5]


async def test_a_failing_body_does_not_hold_up_the_others() -> None:
    loop, failed, log = asyncio.get_running_loop(), [], []
    loop.set_exception_handler(lambda _, context: failed.append(context["exception"]))
    queue = SendQueue(loop)

    def broken() -> None:
        raise ZeroDivisionError

    queue.add(broken)
    queue.add(lambda: log.append("left"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert log == ["left"]
    with pytest.raises(ZeroDivisionError):
        raise failed[0]

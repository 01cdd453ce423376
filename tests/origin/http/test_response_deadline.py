"""The deadline of a response moves without its timer."""

import asyncio

from forebay.origin.http.response_deadline import ResponseDeadline


async def test_the_last_deadline_counts() -> None:
    loop, due = asyncio.get_running_loop(), asyncio.Event()
    deadline = ResponseDeadline(loop, due.set)
    started = loop.time()
    for seconds in (0.0, 60.0, 0.01):
        deadline.set(seconds)
    await due.wait()
    assert 0.01 <= loop.time() - started < 30.0


async def test_a_deadline_that_is_moved_on_is_not_due_before() -> None:
    loop, due = asyncio.get_running_loop(), asyncio.Event()
    deadline = ResponseDeadline(loop, due.set)
    started = loop.time()
    deadline.set(0.005)
    deadline.set(0.02)
    await due.wait()
    assert loop.time() - started >= 0.02


async def test_a_closed_deadline_is_never_due() -> None:
    loop, due, later = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
    deadline = ResponseDeadline(loop, due.set)
    deadline.set(0.0)
    deadline.close()
    loop.call_later(0.005, later.set)
    await later.wait()
    assert not due.is_set()

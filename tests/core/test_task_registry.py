"""The task registry: nothing that was begun is lost, whoever leaves."""

import asyncio
import logging

import pytest

from forebay.core.errors import OriginUnreachable
from forebay.core.task_registry import TaskRegistry


async def test_work_is_carried_through_when_its_caller_is_cancelled() -> None:
    tasks, go, done = TaskRegistry(), asyncio.Event(), []

    async def work() -> None:
        await go.wait()
        done.append(True)

    async with asyncio.TaskGroup() as group:
        caller = group.create_task(tasks.finish(work(), "work"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        caller.cancel()
    assert len(tasks) == 1
    go.set()
    await tasks.wait_idle()
    assert (done, len(tasks)) == ([True], 0)


async def test_finish_gives_the_result_or_raises() -> None:
    tasks = TaskRegistry()

    async def give() -> int:
        return 7

    async def fail() -> None:
        raise OriginUnreachable("down")

    assert await tasks.finish(give(), "give") == 7
    with pytest.raises(OriginUnreachable):
        await tasks.finish(fail(), "fail")


@pytest.mark.parametrize(("error", "level"), [(OriginUnreachable("down"), "INFO"), (KeyError("bug"), "ERROR")])
async def test_a_failure_is_logged_loudly_only_if_it_is_a_defect(
    caplog: pytest.LogCaptureFixture, error: Exception, level: str
) -> None:
    caplog.set_level(logging.INFO)
    tasks = TaskRegistry()

    async def fail() -> None:
        raise error

    tasks.spawn(fail(), "the failing one")
    await tasks.wait_idle()
    assert [(record.levelname, "the failing one" in record.message) for record in caplog.records] == [(level, True)]


async def test_close_cancels_what_is_left_and_awaits_it() -> None:
    tasks, ended = TaskRegistry(), []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    tasks.spawn(work(), "work")
    await asyncio.sleep(0)
    await tasks.close()
    assert (ended, len(tasks)) == ([True], 0)


async def test_close_awaits_what_a_cancelled_task_starts() -> None:
    tasks, ended = TaskRegistry(), []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)
            if len(ended) < 3:
                tasks.spawn(work(), "work")
                await asyncio.sleep(0)  # it has begun

    tasks.spawn(work(), "work")
    await asyncio.sleep(0)
    await tasks.close()
    assert (ended, len(tasks)) == ([True] * 3, 0)

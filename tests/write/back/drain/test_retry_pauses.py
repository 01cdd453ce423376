"""Retry pauses: doubled, and ended together with an outage of their origin, but not all at once."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from forebay.core.task_registry import TaskRegistry
from forebay.write.back.drain.retry_pauses import FIRST_PAUSE, LONGEST_PAUSE, RESUMED_PER_SECOND, RetryPauses
from harness.jumping_loop import JumpingLoop

T = TypeVar("T")


class _Rig:
    """Pauses of writes to the bucket `b`, by a clock that jumps."""

    def __init__(self) -> None:
        self.tasks, self.taken = TaskRegistry(), list[float]()
        self.pauses = RetryPauses(self.tasks, lambda bucket: f"origin of {bucket}", self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.taken.append(seconds)
        await asyncio.sleep(seconds)

    async def fail_until(self, seconds: float, *, is_unanswered: bool = True) -> float:
        """Fails for so long; returns the time of the attempt that comes then."""
        pause, clock = self.pauses.of("b"), asyncio.get_running_loop().time
        began = clock()
        while clock() - began < seconds:
            await pause.wait(is_unanswered=is_unanswered)
        return clock() - began


def _run(work: Coroutine[Any, Any, T]) -> T:
    async def jump() -> T:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, JumpingLoop)
        with loop.jumping():
            return await work

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(jump())


def test_pauses_double_up_to_a_minute() -> None:
    async def work() -> list[float]:
        rig = _Rig()
        await rig.fail_until(300)
        return rig.taken

    assert _run(work()) == [min(FIRST_PAUSE * 2**nth, LONGEST_PAUSE) for nth in range(11)]


async def _end_outage(rig: _Rig, after: float, origin: str = "origin of b") -> None:
    await asyncio.sleep(after)
    rig.pauses.end(origin)


def test_a_pause_ends_with_the_outage() -> None:
    async def work() -> tuple[float, list[float]]:
        rig = _Rig()
        attempt, _ = await asyncio.gather(rig.fail_until(100), _end_outage(rig, 100))
        await rig.tasks.wait_idle()
        assert not rig.pauses.under_way
        return attempt, rig.taken

    attempt, taken = _run(work())
    assert 100 <= attempt < 100.1
    assert taken[-1] == LONGEST_PAUSE, "it would have waited for that"


def test_after_an_outage_pauses_are_short_again() -> None:
    async def work() -> list[float]:
        rig = _Rig()
        await asyncio.gather(rig.fail_until(102), _end_outage(rig, 100))
        return rig.taken

    assert _run(work())[-4:] == [LONGEST_PAUSE, FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE]


def test_a_pause_that_the_origin_asked_for_stays() -> None:
    async def work() -> float:
        rig = _Rig()
        attempt, _ = await asyncio.gather(rig.fail_until(100, is_unanswered=False), _end_outage(rig, 100))
        return attempt

    assert 120 < _run(work()) < 130


def test_an_outage_of_another_origin_ends_no_pause() -> None:
    async def work() -> float:
        rig = _Rig()
        attempt, _ = await asyncio.gather(rig.fail_until(100), _end_outage(rig, 100, "another"))
        return attempt

    assert 120 < _run(work()) < 130


def test_pauses_end_one_after_the_other() -> None:
    async def work() -> list[float]:
        rig = _Rig()
        ending = rig.tasks.spawn(_end_outage(rig, 100), "end")
        attempts = await asyncio.gather(*(rig.fail_until(100) for _ in range(4 * RESUMED_PER_SECOND)))
        await ending
        return sorted(attempts)

    attempts = _run(work())
    in_seconds = [sum(number < attempt - attempts[0] <= number + 1 for attempt in attempts) for number in range(4)]
    assert in_seconds == pytest.approx([RESUMED_PER_SECOND] * 4, abs=RESUMED_PER_SECOND // 2)
    assert (attempts[0], attempts[-1]) == pytest.approx((100, 104), abs=0.5)


def test_an_attempt_that_outlasts_its_outage_has_a_short_pause() -> None:
    """Its connection hung: the origin answered all others before it was given up."""

    async def work() -> list[float]:
        rig = _Rig()
        pause = rig.pauses.of("b")
        for _ in range(8):
            await pause.wait(is_unanswered=True)
        rig.pauses.end("origin of b")
        await pause.wait(is_unanswered=True)
        return rig.taken

    assert _run(work())[-2:] == [LONGEST_PAUSE, FIRST_PAUSE]


def test_a_process_that_ends_leaves_no_pause() -> None:
    async def work() -> int:
        rig = _Rig()
        rig.tasks.spawn(rig.fail_until(1e9), "a write")
        await asyncio.sleep(100)
        await rig.tasks.close()
        return len(rig.pauses.under_way) + len(rig.tasks)

    assert _run(work()) == 0

"""Liveness: connections to a silent worker are aborted; those to a slow one are not."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from forebay.core.errors import OriginBroken, PeerUnavailable
from forebay.core.task_registry import TaskRegistry
from forebay.peers.liveness import MAX_MISSED, Heartbeat


class Waiting:
    """A connection on which a response is waited for."""

    def __init__(self) -> None:
        self.broken = asyncio.Event()
        self.frames_received = 0

    def abort(self) -> None:
        self.broken.set()


class Worker:
    """A worker that answers each ping with the next of `answers`, then always with the last."""

    def __init__(self, *answers: str) -> None:
        self._answers = list(answers)
        self.pinged = 0
        self._changed = asyncio.Event()

    async def ping(self) -> None:
        self.pinged += 1
        self._changed.set()
        match self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]:
            case "never":
                await asyncio.Event().wait()
            case "gone":
                raise PeerUnavailable("ended")
            case "failed":
                raise OriginBroken("no ping today")

    def answers(self, *answers: str) -> None:
        self._answers[:] = answers

    async def until(self, reached: Callable[[], bool]) -> None:
        while not reached():
            self._changed.clear()
            await self._changed.wait()


@asynccontextmanager
async def felt(worker: Worker) -> AsyncIterator[Heartbeat]:
    tasks = TaskRegistry()
    try:
        yield Heartbeat(worker.ping, tasks.spawn, "worker 1", interval=0.0, timeout=0.001)
    finally:
        await tasks.close()


async def test_connections_to_a_silent_worker_are_aborted_until_it_answers() -> None:
    worker = Worker("once", "never")
    async with felt(worker) as pulse:
        waiting, left = Waiting(), Waiting()
        pulse.watch(waiting)
        pulse.watch(left)
        pulse.unwatch(left)
        await waiting.broken.wait()
        assert pulse.is_silent
        assert worker.pinged >= 1 + MAX_MISSED
        assert not left.broken.is_set(), "it had its answer"
        worker.answers("at last")
        await worker.until(lambda: not pulse.is_silent)
        again = Waiting()
        pulse.watch(again)
        pinged = worker.pinged
        await worker.until(lambda: worker.pinged > pinged + 3)
        assert not again.broken.is_set()
        pulse.unwatch(again)


async def test_neither_one_late_ping_nor_an_ended_process_is_silence() -> None:
    worker = Worker("never", "once", "never", "gone", "never", "once")
    async with felt(worker) as pulse:
        waiting = Waiting()
        pulse.watch(waiting)
        await worker.until(lambda: worker.pinged > 10)
        assert not pulse.is_silent
        assert not waiting.broken.is_set()
        pulse.unwatch(waiting)


async def test_a_worker_whose_frames_arrive_is_not_silent() -> None:
    worker = Worker("never")
    async with felt(worker) as pulse:
        receiving, waiting = Waiting(), Waiting()
        pulse.watch(receiving)
        pulse.watch(waiting)
        while worker.pinged < 5 * MAX_MISSED:
            pinged = worker.pinged
            receiving.frames_received += 1
            await worker.until(lambda pinged=pinged: worker.pinged > pinged)  # type: ignore[misc] # a lambda's argument
        assert not pulse.is_silent
        assert not waiting.broken.is_set()
        await waiting.broken.wait()  # no more frames
        assert pulse.is_silent


async def test_a_worker_that_answers_with_a_failure_is_not_silent() -> None:
    worker = Worker(*["never"] * MAX_MISSED, "failed", "once")
    async with felt(worker) as pulse:
        waiting, later = Waiting(), Waiting()
        pulse.watch(waiting)
        await waiting.broken.wait()
        async with asyncio.timeout(60):
            await worker.until(lambda: not pulse.is_silent)
        pulse.watch(later)
        pinged = worker.pinged
        await worker.until(lambda: worker.pinged > pinged + 3)
        assert not later.broken.is_set()
        pulse.unwatch(later)


async def test_pings_stop_when_no_connection_is_watched() -> None:
    worker = Worker("once")
    tasks = TaskRegistry()
    pulse = Heartbeat(worker.ping, tasks.spawn, "worker 1", interval=0.0, timeout=1.0)
    waiting = Waiting()
    pulse.watch(waiting)
    await worker.until(lambda: worker.pinged > 2)
    pulse.unwatch(waiting)
    await tasks.wait_idle()

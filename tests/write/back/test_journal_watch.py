"""The journal watch: what it calls each second. How it starts and takes over: scenarios/test_write_back_takeover.py."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from forebay.core.task_registry import TaskRegistry
from forebay.peers.owners import Peers
from forebay.write.back.drain.own_uploads import OwnUploads
from forebay.write.back.journal_watch import CHECK_SECONDS, JournalWatch
from harness.jumping_loop import JumpingLoop


def _parts(*, is_full: bool) -> tuple[Any, Any]:
    """A journal and records of which nothing is used but whether there is room."""
    state = SimpleNamespace(journal=None, pending=None)
    room = SimpleNamespace(is_full=is_full)
    return state, SimpleNamespace(shown=None, loader=None, exchange=None, room=room)


def test_a_counter_that_fails_does_not_end_the_watch() -> None:
    counted: list[int] = []

    def count(seconds: int) -> None:
        counted.append(seconds)
        raise ValueError("a defect")

    async def scenario() -> None:
        loop, duty = asyncio.get_running_loop(), cast("Any", SimpleNamespace(is_taken=True))
        assert isinstance(loop, JumpingLoop)
        watch = JournalWatch(*_parts(is_full=True), duty, OwnUploads(Peers()), count)
        watching = TaskRegistry().spawn(watch.run(), "watch")
        with loop.jumping():
            await asyncio.sleep(3.5 * CHECK_SECONDS)
        watching.cancel()

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        runner.run(scenario())
    assert counted == [int(CHECK_SECONDS)] * 3


@pytest.mark.parametrize("is_taken", [True, False])
def test_the_drainer_alone_aborts_what_was_left(*, is_taken: bool) -> None:
    aborted = list[float]()

    async def scenario() -> None:
        loop, duty = asyncio.get_running_loop(), cast("Any", SimpleNamespace(is_taken=is_taken))
        assert isinstance(loop, JumpingLoop)

        async def abort_left() -> None:
            aborted.append(loop.time())

        own = cast("Any", SimpleNamespace(abort_left=abort_left))
        watch = JournalWatch(*_parts(is_full=False), duty, own, lambda _: None)
        watching = TaskRegistry().spawn(watch.run(), "watch")
        with loop.jumping():
            await asyncio.sleep(1.5 * CHECK_SECONDS)
        watching.cancel()

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        runner.run(scenario())
    assert len(aborted) == int(is_taken)

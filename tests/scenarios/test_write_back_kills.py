"""SIGKILL at every system call of the journal, at every step at the origin, and at random calls and moments: every
acknowledged write is at the origin in the end, whole and in order.

`make crash` kills 10,000 times at random.
"""

import os
from pathlib import Path
from random import Random
from typing import Final

import pytest

from harness.journal_kills import KilledWorker, killed_worker
from harness.kill_points import JOURNAL_POINTS, ORIGIN_POINTS, JournalPoint, OriginPoint, random_moment, random_point
from harness.killed_node import killed_node

SCALE: Final = int(os.environ.get("FOREBAY_CRASH_SCALE", "0"))
KILLS: Final = 90
"""At random, of one journal: two of these and a node's make 200 in each run of the tests."""
TRIES: Final = 6
"""Rounds in which a point has to be reached."""
WRITES: Final = 12
"""Acknowledged from the journal in a round, if its point is not reached."""
_RECLAIMED: Final = ("unlink log", "unlink settled")
"""What a start does once nothing of an earlier log is pending."""


async def reach(killed: KilledWorker, point: JournalPoint | OriginPoint) -> None:
    """Has the worker killed at this point."""
    for _ in range(TRIES):
        if point.name is not None and ("unlink" in point.name or "truncate" in point.name):
            await killed.drain()  # so that there is something to remove
        if await killed.round(point):
            return
    pytest.fail(f"no run reached the point: {point}")


def test_there_are_enough_points() -> None:
    assert len({*JOURNAL_POINTS, *ORIGIN_POINTS}) >= 60


@pytest.mark.parametrize("part", range(3))
async def test_a_kill_at_each_call_of_the_journal_loses_nothing(tmp_path: Path, part: int) -> None:
    """What removes logs comes first: the log of an upload that a kill has left unfinished stays until a drain."""
    points = sorted(JOURNAL_POINTS, key=lambda name: not name.endswith(_RECLAIMED))[part::3]
    async with killed_worker(tmp_path, part, WRITES) as killed:
        await killed.round(JournalPoint(None, -1))
        for name in points:
            await reach(killed, JournalPoint(name, 0))
        await killed.check()
        assert {point.name for point in killed.reached if isinstance(point, JournalPoint)} == set(points)


async def test_a_kill_at_each_step_at_the_origin_loses_nothing(tmp_path: Path) -> None:
    async with killed_worker(tmp_path, 2, WRITES) as killed:
        for name in ORIGIN_POINTS:
            await reach(killed, OriginPoint(name))
        await killed.check()


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("nth", [1, 4])
async def test_a_kill_at_a_later_time_of_each_point_loses_nothing(tmp_path: Path, nth: int) -> None:
    async with killed_worker(tmp_path, nth, WRITES) as killed:
        for name in JOURNAL_POINTS:
            await killed.round(JournalPoint(name, nth))
        for name in ORIGIN_POINTS:
            await killed.round(OriginPoint(name, nth))
        await killed.check()
        assert len(killed.reached) > 30


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(SCALE or 2))
async def test_kills_at_random_lose_nothing(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    async with killed_worker(tmp_path, seed, 2 * WRITES) as killed:
        for nth in range(KILLS):
            if nth % (KILLS // 3) == KILLS // 3 - 1:
                await killed.drain()
            await killed.round(random_point(random))
        await killed.check()
        assert len(killed.reached) > 0.85 * KILLS
        assert killed.writers.local > len(killed.writers.acknowledged) // 2


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(max(1, SCALE // 5)))
async def test_kills_of_workers_of_a_node_lose_nothing(tmp_path: Path, seed: int) -> None:
    """Of one of four at a time, while the others go on, and of all of them."""
    random = Random(seed)
    async with killed_node(tmp_path, seed, 4) as node:
        for _ in range(50 if SCALE else 20):
            await node.kill(random_moment(random), [random.randrange(4)] if random.random() < 0.8 else [])
        await node.check()
        assert node.writers.local > len(node.writers.acknowledged) // 2

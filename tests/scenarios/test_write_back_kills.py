"""SIGKILL at every system call of the journal and step at the origin: every acknowledged write is at the origin in
the end, whole and in order.

`make crash` tries every point, several times, and kills at random calls; here is a sample.
"""

import os
from pathlib import Path
from random import Random
from typing import Final

import pytest

from harness.journal_kills import JOURNAL_POINTS, ORIGIN_POINTS, KillPoint, killed_workers

SCALE: Final = int(os.environ.get("FOREBAY_CRASH_SCALE", "0"))
WRITES: Final = 12
"""Acknowledged before a point that is not reached is given up."""


async def kill(directory: Path, seed: int, points: list[KillPoint]) -> list[KillPoint]:
    """Returns the points that were reached."""
    async with killed_workers(directory, seed) as killed:
        for point in points:
            if "unlink" in (point.name or ""):
                await killed.drain()  # so that there is something to remove
            await killed.round(point, WRITES)
        await killed.check()
        assert killed.local > len(killed.acknowledged) // 2
        return killed.kills


async def test_kills_at_named_points_and_random_calls_lose_nothing(tmp_path: Path) -> None:
    points = [
        KillPoint("after sync log", 2),
        KillPoint("before write settled", 0),
        KillPoint("PutObject done", 0, origin=True),
        KillPoint("within write log", 3),
        KillPoint("before unlink body", 0),
        *(KillPoint(None, nth) for nth in (30, 75)),
    ]
    assert len(await kill(tmp_path, 1, points)) >= 4


def test_there_are_enough_points() -> None:
    assert len({*JOURNAL_POINTS, *ORIGIN_POINTS}) >= 60


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(0, len(JOURNAL_POINTS), 20))
async def test_every_call_of_the_journal(tmp_path: Path, first: int) -> None:
    names = JOURNAL_POINTS[first : first + 20]
    reached = await kill(tmp_path, first, [KillPoint(name, nth) for nth in (0, 1, 4) for name in names])
    unreached = set(names) - {str(point.name) for point in reached}
    # A log goes once nothing of it is pending, and the parts of an upload that a kill left unfinished stay.
    assert all("unlink log" in name or "unlink settled" in name for name in unreached), unreached


@pytest.mark.long
@pytest.mark.timeout(3600)
async def test_every_step_at_the_origin(tmp_path: Path) -> None:
    points = [KillPoint(name, nth, origin=True) for nth in (0, 1, 3) for name in ORIGIN_POINTS]
    reached = await kill(tmp_path, 2, points)
    assert not set(ORIGIN_POINTS) - {str(point.name) for point in reached}, "not reached"


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(max(1, SCALE)))
async def test_kills_at_random_calls(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    reached = await kill(tmp_path, seed, [KillPoint(None, random.randrange(400)) for _ in range(100)])
    assert len(reached) > 50

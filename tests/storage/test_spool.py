"""The spool: all bodies that are not released, and their end."""

from pathlib import Path

import pytest

from forebay.core.errors import SpoolFailed, SpoolFull
from forebay.core.fair_semaphore import FairSemaphore
from forebay.storage.spool import Spool


def left(directory: Path) -> int:
    return len(list(directory.iterdir()))


async def test_all_bodies_share_the_space(tmp_path: Path) -> None:
    budget = FairSemaphore(1000)
    spool = Spool(10, budget, share=1000, wait=0.01, parent=tmp_path)
    first, second = spool.create(), spool.create()
    await first.reserve(6)
    assert (len(spool), spool.limit, spool.in_use, spool.in_memory, budget.in_use) == (2, 10, 6, 6, 6)
    assert (spool.has_space(4), spool.has_space(5)) == (True, False)
    with pytest.raises(SpoolFull):
        await second.reserve(5)
    first.release()
    await second.reserve(5)
    assert (len(spool), spool.in_use) == (1, 5)
    spool.close()


async def test_the_end_releases_all_bodies_and_their_files(tmp_path: Path) -> None:
    budget = FairSemaphore(1000)
    spool = Spool(1000, budget, share=0, wait=0.01, parent=tmp_path)
    bodies = [spool.create() for _ in range(2)]
    for body in bodies:
        await body.reserve(3)
        body.append(b"abc")
    await bodies[0].spill()
    assert left(tmp_path) == 1
    spool.close()
    assert (len(spool), spool.in_use, spool.in_memory, budget.in_use) == (0, 0, 0, 0)
    assert left(tmp_path) == 0
    for body in bodies:
        with pytest.raises(SpoolFailed):
            [piece async for piece in body.pieces()]


def test_files_of_killed_processes_are_removed(tmp_path: Path) -> None:
    (tmp_path / "forebay-holds-dead").mkdir()
    (tmp_path / "forebay-holds-dead" / "lock").touch()
    Spool(1000, FairSemaphore(1000), share=0, wait=0.01, parent=tmp_path).remove_abandoned()
    assert left(tmp_path) == 0

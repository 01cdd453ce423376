"""A worker is killed, or fails, at each call by which it changes files of its directories: the SSD tier's, the
journal's, and those of the state directory. What was acknowledged is there after the next start, and what is read is
right.

`make failing-files` does so at each call; here is a sample. So does `make crash`, from SCALE=10 on.
"""

import asyncio
import errno
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from harness.changed_files import KILLED
from harness.fake_origin import FakeOrigin
from harness.fork_server import fork_server
from harness.state_program import StateProgram

IS_WHOLE: Final = int(os.environ.get("FOREBAY_CRASH_SCALE", "0")) >= 10
SAMPLE: Final = 1 if IS_WHOLE else 24
"""Of so many calls, one."""
MOST: Final = 5 if IS_WHOLE else 1
"""Calls of one point."""
PARTS: Final = 4 if IS_WHOLE else 1
_WRITES: Final = frozenset({"write", "pwrite", "pwritev"})
FAILURES: Final = {
    "EIO": (errno.EIO, False),
    "ENOSPC": (errno.ENOSPC, False),
    "half": (0, True),
    "half-then-ENOSPC": (errno.ENOSPC, True),
}
"""The errno of a failing call, and whether half is written before. 0: the rest of the write succeeds."""


class Fault(NamedTuple):
    """A call that is to fail."""

    point: str
    nth: int
    is_new: bool
    """Whether the directories are new ones."""


def faults_of(new: Counter[str], old: Counter[str], most: int) -> list[Fault]:
    """Each call of a program, at most so many of a point: in the directories that the round before has left, and in new
    ones where there are more."""
    found = []
    for point in sorted(new | old):
        found += [Fault(point, nth, is_new=False) for nth in range(min(old[point], most))]
        if new[point] > old[point]:
            found += [Fault(point, nth, is_new=True) for nth in range(min(new[point], most))]
    return found


@asynccontextmanager
async def state_program(directory: Path) -> AsyncIterator[tuple[StateProgram, tuple[Counter[str], Counter[str]]]]:
    """A program, and how often it reaches each point in new directories and in those that it has left."""
    log = directory / "log"
    async with FakeOrigin() as origin, fork_server(log) as server:
        program = StateProgram(origin, directory, server)
        program.configure()
        new = Counter(await program.round(None, None))
        await program.check()
        old = Counter(await program.round(None, None))
        await program.check()
        yield program, (new, old)
    text = await asyncio.to_thread(log.read_text)
    assert "Traceback" not in text, text[text.index("Traceback") - 500 :][:4000]


def sampled(faults: Sequence[Fault], part: int) -> Iterable[Fault]:
    return faults[part :: PARTS * SAMPLE]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(PARTS))
async def test_a_kill_at_each_change_of_a_file_loses_nothing(tmp_path: Path, part: int) -> None:
    async with state_program(tmp_path) as (program, points):
        new, old = points
        assert len(new | old) > 150
        assert {name.split()[2] for name in new | old} == KILLED
        for fault in sampled(faults_of(new, old, MOST), part):
            if fault.is_new:
                await program.start_over()
            await program.round(fault.point, fault.nth)
            await program.check()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", FAILURES)
async def test_any_one_change_of_a_file_may_fail(tmp_path: Path, kind: str, part: int) -> None:
    error, is_short = FAILURES[kind]
    async with state_program(tmp_path) as (program, points):
        faults = [fault for fault in faults_of(*points, MOST) if fault.point.startswith("before")]
        if is_short:
            faults = [fault for fault in faults if fault.point.split()[1] in _WRITES]
        for fault in sampled(faults, part + list(FAILURES).index(kind)):
            if fault.is_new:
                await program.start_over()
            await program.round(fault.point, fault.nth, error, is_short=is_short)
            await program.check()

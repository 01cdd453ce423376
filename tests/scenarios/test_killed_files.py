"""A worker is killed, or fails, at each call by which it changes files of its directories: the SSD tier's, the
journal's, and those of the state directory. What was acknowledged is there after the next start, and what is read is
right.

`make crash` does so at each point, from SCALE=10 on; here is a sample.
"""

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from harness.changed_files import KILLED
from harness.fake_origin import FakeOrigin
from harness.fork_server import fork_server
from harness.state_program import StateProgram

SCALE: Final = int(os.environ.get("FOREBAY_CRASH_SCALE", "0"))
IS_WHOLE: Final = SCALE >= 10
SAMPLE: Final = 1 if IS_WHOLE else 16
"""Of so many points, one."""
NTHS: Final = (0, 2) if IS_WHOLE else (0,)
PARTS: Final = 4 if IS_WHOLE else 1


@asynccontextmanager
async def state_program(directory: Path) -> AsyncIterator[tuple[StateProgram, list[str]]]:
    """A program, and the points that it reaches in a new directory and in one that it has left."""
    log = directory / "log"
    async with FakeOrigin() as origin, fork_server(log) as server:
        program = StateProgram(origin, directory, server)
        program.configure()
        points = set[str]()
        for _ in range(2):
            points.update(await program.round(None, None))
            await program.check()
        yield program, sorted(points)
    text = await asyncio.to_thread(log.read_text)
    assert "Traceback" not in text, text[text.index("Traceback") - 500 :][:4000]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(PARTS))
async def test_a_kill_at_each_change_of_a_file_loses_nothing(tmp_path: Path, part: int) -> None:
    async with state_program(tmp_path) as (program, points):
        assert len(points) > 100, "of some 120"
        assert {name.split()[2] for name in points} == KILLED
        for name in points[part :: PARTS * SAMPLE]:
            for nth in NTHS:
                await program.round(name, nth)
                await program.check()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=errno.errorcode.get)
async def test_any_one_change_of_a_file_may_fail(tmp_path: Path, error: int) -> None:
    async with state_program(tmp_path) as (program, points):
        names = [name for name in points if name.startswith("before") and " close " not in name]
        for name in names[error % SAMPLE :: SAMPLE]:
            for nth in NTHS:
                await program.round(name, nth, error)
                await program.check()

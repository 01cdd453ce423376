"""Batches of cells of the whole fault matrix, each for a process of its own."""

import asyncio
import random
import resource
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from faults.cell_run import bench
from faults.matrix import Cell, Setting, Timing, cell_of, cells
from harness.jumping_loop import JumpingLoop

SETTINGS: Final = (
    Setting(),
    Setting(ssd=True),
    Setting(fast_lane=False),
    Setting("oss"),
    Setting("oss", ssd=True),
    Setting("oss", fast_lane=False),
)
BATCH: Final = 200
"""Cells of one worker of Forebay: long enough for connections that are used again, short enough for fresh ones."""


class Batch(NamedTuple):
    """Cells for one process, by their place in the list of all."""

    setting: Setting
    seed: str
    families: frozenset[str]
    start: int


class BatchResult(NamedTuple):
    """What became of a batch."""

    cells: int
    wrong: list[str]
    seconds: float
    """Of processor time."""


def order_of(setting: Setting, seed: str, families: frozenset[str]) -> list[Cell]:
    """The cells of a setting, in the order of the seed, with its timings."""
    rng = random.Random(f"{seed}/{setting}")
    found = [each for each in cells(setting.origin) if not families or each.fault.family in families]
    rng.shuffle(found)
    timings = [Timing(rng.choice((0, 0, 0, 1, 2, 3, 4)), rng.choice((1, 2, None))) for _ in found]
    return [cell_of(each.fault, each.operation, timing) for each, timing in zip(found, timings, strict=True)]


def run_batch(batch: Batch) -> BatchResult:
    row = order_of(batch.setting, batch.seed, batch.families)[batch.start : batch.start + BATCH]
    before = _cpu()
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        wrong = runner.run(_run_row(runner.get_loop(), row, batch.setting))
    return BatchResult(len(row), wrong, _cpu() - before)


async def _run_row(loop: asyncio.AbstractEventLoop, row: Sequence[Cell], setting: Setting) -> list[str]:
    assert isinstance(loop, JumpingLoop)
    wrong = []
    with tempfile.TemporaryDirectory() as directory:
        async with bench(loop, Path(directory), setting) as tried:
            for cell in row:
                complaints = await tried.run(cell)
                if complaints:
                    wrong.append(f"{setting} | {cell.title}: {'; '.join(complaints)}")
    return wrong


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime

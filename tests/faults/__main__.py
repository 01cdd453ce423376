"""The whole fault matrix: every cell, in every setting, with other timings for each seed.

    PYTHONPATH=proxy:client:tests python -m faults [ROUNDS] [SEED, 0 for any] [WORKERS] [FAMILIES, with commas]

A round runs every cell once in each setting: S3 and OSS origins, memory alone and with an SSD tier, both lanes and the
full lane alone. The seed chooses the order, and for each cell which of the origin's answers are spoilt: from which
request on, so at which block, and how many. Prints each cell that is wrong, and adds the run to docs/faults.md. Exits
with 1 if any cell is wrong.
"""

import asyncio
import multiprocessing
import os
import platform
import random
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from faults.cell_run import bench
from faults.matrix import Cell, Setting, Timing, cell_of, cells
from faults.page import add_run
from harness.jumping_loop import JumpingLoop

SETTINGS: Final = (
    Setting(),
    Setting(ssd=True),
    Setting(fast_lane=False),
    Setting("oss"),
    Setting("oss", ssd=True),
    Setting("oss", fast_lane=False),
)
_BATCH: Final = 200
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
    row = order_of(batch.setting, batch.seed, batch.families)[batch.start : batch.start + _BATCH]
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


def _machine() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    kernel = ".".join(platform.release().split(".")[:2])
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{model or platform.machine()}, {os.cpu_count()} cores, {platform.system()} {kernel}, {python}"


def main() -> int:
    given = dict(enumerate(sys.argv[1:]))
    rounds, workers = int(given.get(0, "1")), int(given.get(2, "0")) or os.cpu_count() or 1
    seed = int(given.get(1, "0")) or random.randrange(1 << 32)
    families = frozenset(given.get(3, "").split(",")) - {""}
    batches = [
        Batch(setting, f"{seed}/{number}", families, start)
        for number in range(rounds)
        for setting in SETTINGS
        for start in range(0, len(order_of(setting, "", families)), _BATCH)
    ]
    print(f"{rounds} rounds, seed {seed}, {workers} processes", flush=True)  # noqa: T201 # a command's output
    started, results = time.monotonic(), list[BatchResult]()
    # Not forked: a batch begins with a loop and a log of its own. Each process ends with its batch.
    with multiprocessing.get_context("spawn").Pool(workers, maxtasksperchild=4) as pool:
        for result in pool.imap_unordered(run_batch, batches):
            results.append(result)
            for wrong in result.wrong:
                print(wrong, flush=True)  # noqa: T201 # likewise
    tried, failed = sum(each.cells for each in results), sum(len(each.wrong) for each in results)
    seconds = round(time.monotonic() - started)
    cpu = round(sum(each.seconds for each in results))
    print(f"{tried:,} cells, {failed} wrong, {seconds} s, {cpu} s of processor time")  # noqa: T201 # likewise
    run = f"`ROUNDS={rounds} SEED={seed} WORKERS={workers}{f' FAMILIES={given[3]}' if families else ''}`"
    day = datetime.now(UTC).date().isoformat()
    add_run(
        day, _machine(), run, f"{tried:,} cells in {seconds} s, {cpu} s of processor time", str(failed or "nothing")
    )
    return min(1, failed)


if __name__ == "__main__":
    sys.exit(main())

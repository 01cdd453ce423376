"""The whole fault matrix: every cell, in every setting, with other timings for each seed.

    PYTHONPATH=proxy:client:tests python -m faults [ROUNDS] [SEED, 0 for any] [WORKERS] [FAMILIES, with commas]

A round runs every cell once in each setting: S3 and OSS origins, memory alone and with an SSD tier, both lanes and the
full lane alone. The seed chooses the order, and for each cell which of the origin's answers are spoilt: from which
request on, so at which block, and how many. Prints each cell that is wrong, and adds the run to docs/faults.md. Exits
with 1 if any cell is wrong.
"""

import multiprocessing
import os
import platform
import random
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from faults.batches import BATCH, SETTINGS, Batch, BatchResult, order_of, run_batch
from faults.page import add_run


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
        for start in range(0, len(order_of(setting, "", families)), BATCH)
    ]
    print(f"{rounds} rounds, seed {seed}, {workers} processes", flush=True)
    started, results = time.monotonic(), list[BatchResult]()
    # Not forked: a batch begins with a loop and a log of its own. Each process ends with its batch.
    with multiprocessing.get_context("spawn").Pool(workers, maxtasksperchild=4) as pool:
        for result in pool.imap_unordered(run_batch, batches):
            results.append(result)
            for wrong in result.wrong:
                print(wrong, flush=True)
    tried, failed = sum(each.cells for each in results), sum(len(each.wrong) for each in results)
    seconds = round(time.monotonic() - started)
    cpu = round(sum(each.seconds for each in results))
    print(f"{tried:,} cells, {failed} wrong, {seconds} s, {cpu} s of processor time")
    run = f"`ROUNDS={rounds} SEED={seed} WORKERS={workers}{f' FAMILIES={given[3]}' if families else ''}`"
    day = datetime.now(UTC).date().isoformat()
    add_run(
        day, _machine(), run, f"{tried:,} cells in {seconds} s, {cpu} s of processor time", str(failed or "nothing")
    )
    return min(1, failed)


if __name__ == "__main__":
    sys.exit(main())

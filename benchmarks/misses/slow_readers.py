"""Slow readers: what they cost a client that reads something cold beside them.

    python -m benchmarks.misses.slow_readers [CRAWLING [PACED]]

CRAWLING readers at a byte a second and PACED ones at 0.25 MB/s (slow_clients.py), each of an object of its own
that Forebay has never seen, with the default `memory.buffers`. Meanwhile one client reads further cold objects and
takes the time to the first byte, as it did alone. The origin is 20 ms away. In the end all bodies must be whole.
"""

import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

from benchmarks import ROOT
from benchmarks.errors import UnexpectedResponse
from benchmarks.load.http_client import KeepAliveConnection
from benchmarks.load.signed_requests import signed
from benchmarks.origins.link import Link
from benchmarks.origins.origin import Objects, running_origin
from benchmarks.run_sizes import MIB
from benchmarks.servers.forebay import Forebay

SIZE: Final = 8 * MIB
READS: Final = 30
"""Cold reads of the other client, alone and beside."""
ROUND_TRIP: Final = 0.020


def first_bytes(port: int, targets: list[str]) -> list[float]:
    """Seconds to the first byte of each object, sorted."""
    taken = []
    with KeepAliveConnection(port) as connection:
        for target in targets:
            answer = connection.get(signed(port, [target], time.time(), count=1)[0])
            if answer.status != 200 or answer.length != SIZE:
                raise UnexpectedResponse(f"status {answer.status}, {answer.length} bytes")
            taken.append(answer.first_byte)
            threading.Event().wait(0.1)
    return sorted(taken)


def measure(directory: Path, crawling: int, paced: int, *, ssd: bool, workers: int) -> str:
    """One row: where the blocks are kept, and what the other client and the slow ones saw."""
    objects = {
        "crawl": Objects(SIZE, crawling),
        "pace": Objects(SIZE, paced),
        "other": Objects(SIZE, 2 * READS),
        "warm": Objects(4096, 1),
    }
    with running_origin(directory, objects, (Link(ROUND_TRIP),), pinned=False) as origin:
        size = "20GiB" if ssd else None
        # They read on in the end, some at a time: until then none accepts a byte.
        rest = '\n[limits]\nbody_timeout = "1h"\n'
        forebay = Forebay(directory / "forebay", origin.far[0], memory="1GiB", ssd=size, workers=workers, rest=rest)
        others = origin.targets("other")
        with forebay.running(origin.targets("warm")[0]):
            alone = first_bytes(forebay.port, others[:READS])
            command = (sys.executable, "-m", "benchmarks.misses.slow_clients")
            arguments = map(str, (forebay.port, SIZE, crawling, paced))
            with subprocess.Popen(
                (*command, *arguments),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
            ) as slow:
                assert slow.stdin is not None
                assert slow.stdout is not None
                begun = slow.stdout.readline().strip()
                beside = first_bytes(forebay.port, others[READS:])
                slow.stdin.close()
                whole = slow.stdout.readline().strip()
    factor = statistics.median(beside) / statistics.median(alone)
    times = ", ".join(
        f"{name} {statistics.median(taken) * 1000:.0f} ms (at most {taken[-1] * 1000:.0f})"
        for name, taken in (("alone", alone), ("beside", beside))
    )
    where = f"{workers} worker{'s' if workers > 1 else ''}, {'SSD' if ssd else 'memory'}"
    return f"{where}: {begun}, {whole} of {crawling + paced}; first byte {times}, factor {factor:.1f}"


def main(arguments: list[str]) -> int:
    crawling, paced = map(int, (*arguments, "1000", "200")[:2] if len(arguments) < 2 else arguments[:2])
    for ssd in (True, False):
        for workers in (1, 2):
            with tempfile.TemporaryDirectory() as directory:
                print(measure(Path(directory), crawling, paced, ssd=ssd, workers=workers), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Restarts: how long from the start of the process to the first hit, with much on the SSD and with nothing."""

import shutil
import time
from statistics import median

from benchmarks.bench_context import BenchContext
from benchmarks.errors import UnexpectedResponse
from benchmarks.origins.origin import BUCKET, Objects, Origin, running_origin
from benchmarks.pages.tables import Section, Table, time_text
from benchmarks.processes import cores
from benchmarks.processes.processes import module
from benchmarks.run_sizes import KIB
from benchmarks.servers.forebay import HIT_HEADER, Forebay
from benchmarks.servers.ssd_fill import target

_SIZE = 4 * KIB
_CAPACITY = 8 << 30
_FILL_SECONDS = 600.0
_TEXT = """\
From the start of the process (of Python itself) to the last byte of the first answer: a hit on the SSD where the tier
holds many small objects, and for comparison a miss through an empty one. In turns; medians, and the slowest. Most of it
is Python importing the program, whose bytecode is there, as pip and the container's image leave it. The directory was
closed in order and is in the page cache."""


def run(bench: BenchContext) -> list[Section]:
    count = bench.sizes.cached_blocks
    with running_origin(bench.directory, {"small": Objects(_SIZE, 1)}) as origin:
        full = Forebay(bench.directory / "full", origin.port, memory="64MiB", ssd="8GiB")
        empty = Forebay(bench.directory / "empty", origin.port, memory="64MiB", ssd="8GiB")
        arguments = (str(full.cache), str(_CAPACITY), origin.endpoint, BUCKET, str(count), str(_SIZE), "1")
        started = time.perf_counter()
        with module("benchmarks.servers.ssd_fill", *arguments, log=bench.directory / "filling.log") as filling:
            filling.first_line(_FILL_SECONDS)
        filled = time.perf_counter() - started
        rows = _starts(bench, origin, full, empty, count)
    headings = ("SSD tier", "first answer after", "slowest", "CPU until then", "it was", "resident memory then")
    remark = (
        f"Writing the {count:,} blocks straight into the tier took {filled:.1f} s ({count / filled:,.0f} a second)."
    )
    return [Section("Restart", _TEXT, Table(headings, rows), remark)]


def _starts(bench: BenchContext, origin: Origin, full: Forebay, empty: Forebay, count: int) -> list[tuple[str, ...]]:
    cases = (
        (f"{count:,} blocks of 4 KiB", full, target(BUCKET, count // 2), "hit-ssd"),
        ("empty", empty, origin.targets("small")[0], "miss"),
    )
    seconds: dict[str, list[float]] = {name: [] for name, *_ in cases}
    used: dict[str, list[float]] = {name: [] for name, *_ in cases}
    resident = {}
    for turn in range(bench.sizes.restarts):
        for name, forebay, wanted, told in cases:
            if name == "empty":
                shutil.rmtree(forebay.cache, ignore_errors=True)
            with cores.pinned(cores.SERVER):
                started = time.perf_counter()
                child = forebay.start()
            with child:
                answer = forebay.first_answer(child, wanted)
                seconds[name].append(time.perf_counter() - started)
                used[name].append(cores.cpu_seconds(child.pid))
                resident[name] = cores.resident_bytes(child.pid)
            if (answer.status, answer.length, answer.headers.get(HIT_HEADER)) != (200, _SIZE, told):
                raise UnexpectedResponse(f"start {turn}: {answer} where a {told} was due")
    return [
        (
            name,
            f"**{time_text(median(seconds[name]))}**",
            time_text(max(seconds[name])),
            time_text(median(used[name])),
            told,
            _mib(resident[name]),
        )
        for name, _, _, told in cases
    ]


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.0f} MiB"

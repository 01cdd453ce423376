"""Misses: what it costs to fetch and keep a small object that nobody has asked for before."""

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple
from urllib.request import Request, urlopen

from benchmarks.bench_context import BenchContext
from benchmarks.errors import UnexpectedResponse
from benchmarks.load.wrk import run_wrk_misses
from benchmarks.origins.origin import Origin
from benchmarks.pages.tables import Section, Table, count_text, time_text
from benchmarks.processes import cores
from benchmarks.processes.processes import module, ready_line
from benchmarks.servers.forebay import Forebay
from benchmarks.servers.nginx import running_nginx, running_nginx_origin

SIZE: Final = 20_480
CONNECTIONS: Final = 32
ROUNDS: Final = 5
POLL_SECONDS: Final = 0.1
"""An answer takes a server over a millisecond: every 20 ms, that was a tenth of a warm-up."""
SHARED_MEMORY: Final = Path("/dev/shm")
_TEMPLATE: Final = Path(__file__).with_name("misses.toml")
_TEXT: Final = f"""\
Objects of {SIZE:,} B from nginx on loopback, each read for the first time, over {CONNECTIONS} connections; or brought
in by a warm-up job of as many tasks. No signature is asked. All take turns, one second or {{objects:,}} objects each.
The figures are CPU of the server for an object, its threads and the kernel included, medians of {ROUNDS} turns, the
least in brackets; the ratio is nginx's median to that: as many times nginx's rate would a core of its own give.
"Bare" is an event loop of a few lines that fetches and stores, without files
([baseline.py](../benchmarks/bare/baseline.py)): it looks at nothing and counts nothing. Forebay counts each
request, writes an access line for it, signs its own request to the origin, and fetches a block once for all who wait
for it. nginx writes a file for each object, Forebay appends to segments: where the cache lies decides how the two
compare. Of two workers the one that is asked for an object first fetches it, as long as none runs ahead; a warm-up
job tells the owner of each object what to fetch. All servers share one core, and two processes on it cost more than
one does: two Forebays of one worker, which share nothing, with half of the connections each, are the least that two
workers can take here. A job's status is asked for every {POLL_SECONDS:g} s, which counts."""


_Run = Callable[[str, int], int]
"""Reads objects below a prefix that nobody has read; returns how many. The number is that of the turn's objects."""


class _Way(NamedTuple):
    name: str
    groups: tuple[int, ...]
    """The process groups whose CPU is counted."""
    run: _Run


def run(bench: BenchContext) -> list[Section]:
    if bench.nginx is None or bench.wrk is None:
        raise UnexpectedResponse("misses are measured with nginx and wrk (make peers)")
    objects = bench.sizes.scale_misses[0] // 5
    with _in_shared_memory() as memory:
        places = {"on disk": bench.directory, **({"in memory (tmpfs)": memory} if memory is not None else {})}
        return [_section(bench, bench.nginx, bench.wrk, place, path, objects) for place, path in places.items()]


def _section(bench: BenchContext, nginx: str, wrk: str, place: str, directory: Path, objects: int) -> Section:
    costs: dict[str, list[float]] = {}
    with ExitStack() as stack:
        origin = stack.enter_context(running_nginx_origin(nginx, directory / "origin", SIZE))
        ways = list(_ways(stack, nginx, wrk, origin, directory, bench.sizes.round_seconds))
        prefixes = count()
        for turn in range(ROUNDS + 1):
            for way in ways:
                before = sum(map(cores.cpu_seconds, way.groups))
                number = way.run(f"{next(prefixes)}", objects)
                if turn:  # the first one warms up
                    used = sum(map(cores.cpu_seconds, way.groups)) - before
                    costs.setdefault(way.name, []).append(used / number)
    theirs = median(costs["nginx, proxy_cache"])
    rows = [_row(name, each, theirs) for name, each in costs.items()]
    headings = ("", "CPU an object", "objects a second of CPU", "ratio to nginx")
    return Section(f"Misses, the cache {place}", _TEXT.format(objects=objects), Table(headings, rows))


def _row(name: str, costs: list[float], theirs: float) -> tuple[str, ...]:
    middle = median(costs)
    return (
        name,
        f"{time_text(middle)} ({time_text(min(costs))})",
        count_text(1 / middle),
        f"{theirs / middle:.2f}",
    )


def _ways(stack: ExitStack, nginx: str, wrk: str, origin: Origin, directory: Path, seconds: float) -> Iterator[_Way]:
    def reads(port: int, connections: int = CONNECTIONS) -> _Run:
        return lambda prefix, _: run_wrk_misses(wrk, port, prefix, connections, seconds).requests

    def started(name: str, ssd: str | None = None, workers: int = 1) -> tuple[Forebay, int]:
        forebay = Forebay(
            directory / f"forebay-{name.replace(' ', '-')}",
            origin.port,
            memory="256MiB",
            ssd=ssd,
            workers=workers,
            pinned=True,
            template=_TEMPLATE,
        )
        return forebay, stack.enter_context(forebay.running("/bench/first/0")).group

    peer = stack.enter_context(running_nginx(nginx, origin, directory / "nginx"))
    yield _Way("nginx, proxy_cache", (peer.group,), reads(peer.port))
    with cores.pinned(cores.SERVER):
        bare = module("benchmarks.bare.baseline", "store", str(origin.port), log=directory / "bare.log")
    stack.enter_context(bare)
    yield _Way("bare loop, no files", (bare.pid,), reads(int(ready_line(bare))))
    for name, ssd, workers in (("memory", None, 1), ("memory and SSD", "2GiB", 1), ("memory, two workers", None, 2)):
        forebay, group = started(name, ssd, workers)
        yield _Way(f"Forebay, {name}: reads", (group,), reads(forebay.port))
        yield _Way(f"Forebay, {name}: warm-up", (group,), partial(_warm, forebay.admin, CONNECTIONS))
    pair = [started(name) for name in ("first of two", "second of two")]
    groups = tuple(group for _, group in pair)
    half = CONNECTIONS // 2
    yield _Way("two Forebays, memory: reads", groups, _together([reads(each.port, half) for each, _ in pair]))
    warm_ups = [partial(_warm, each.admin, half) for each, _ in pair]
    yield _Way("two Forebays, memory: warm-up", groups, _together(warm_ups))


def _together(runs: Sequence[_Run]) -> _Run:
    """Runs at the same time, each with its share of the objects, below a prefix of its own."""

    def run(prefix: str, objects: int) -> int:
        with ThreadPoolExecutor(len(runs)) as pool:
            share = objects // len(runs)
            started = [pool.submit(each, f"{prefix}-{number}", share) for number, each in enumerate(runs)]
            return sum(each.result() for each in started)

    return run


def _warm(admin: int, connections: int, prefix: str, objects: int) -> int:
    """Warms objects by a job, to its end."""
    keys = [f"{prefix}/{number:07}" for number in range(objects)]
    job = _call(admin, "POST", "/v1/jobs", {"bucket": "bench", "keys": keys, "concurrency": connections})
    while job["state"] in {"queued", "running"}:
        time.sleep(POLL_SECONDS)  # noqa: TID251 # another process is waited for
        job = _call(admin, "GET", f"/v1/jobs/{job['id']}")
    if job["state"] != "done":
        raise UnexpectedResponse(f"a warm-up is {job['state']}: {job['reason']}")
    return objects


def _call(admin: int, method: str, path: str, document: Mapping[str, object] | None = None) -> dict[str, Any]:
    body = json.dumps(document).encode() if document is not None else None
    request = Request(f"http://127.0.0.1:{admin}{path}", body, {"Content-Type": "application/json"}, method=method)
    with urlopen(request) as response:
        found: dict[str, Any] = json.loads(response.read())
    return found


@contextmanager
def _in_shared_memory() -> Iterator[Path | None]:
    """A directory in memory that is gone afterwards; None where there is no such file system."""
    if not SHARED_MEMORY.is_dir():
        yield None
        return
    directory = Path(tempfile.mkdtemp(prefix="forebay-bench-", dir=SHARED_MEMORY))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)

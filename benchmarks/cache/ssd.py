"""Hits on the SSD after a restart, against nginx, which has nothing but its files."""

from contextlib import ExitStack
from typing import Final

from benchmarks.bench_context import BenchContext, digests
from benchmarks.cache.rows import HEADINGS, missing, row
from benchmarks.load.paced_reads import times
from benchmarks.origins.origin import Objects, Origin, running_origin
from benchmarks.pages.tables import Section, Table, time_text
from benchmarks.processes import cores
from benchmarks.processes.processes import module, ready_line
from benchmarks.run_sizes import MIB
from benchmarks.servers.forebay import Forebay

_TEXT: Final = """\
The same contest after Forebay was restarted, with half as much memory as the objects of each size take, read in turn:
most are out of memory again when they come round, and are read from the SSD, page cache warm, compared with their
checksums at least once a minute. nginx serves its files as before, without checking them."""
_COLD: Final = """\
One client asks for the smallest of these objects, which is in memory, every 2 ms: alone, and beside another client that
reads the largest ones while the page cache is made to forget them again and again, so that the disk must be waited for.
The factor is of the 99th percentile. What of it is the machine's own is told by a server that does nothing but answer
with as many bytes ([baseline.py](../benchmarks/bare/baseline.py)), beside a process of its own, on the
same core, that reads the same files from the disk."""
_CONNECTIONS: Final = 16
_MEMORY: Final = 8 * MIB


def run(bench: BenchContext) -> list[Section]:
    sizes = bench.sizes.ssd_sizes
    objects = {str(size): Objects(size, max(bench.sizes.ssd_objects, 1 + 2 * _MEMORY // size)) for size in sizes}
    rows: list[tuple[str, ...]] = []
    with running_origin(bench.directory, objects) as origin:
        first = origin.targets(next(iter(objects)))[0]
        forebay = Forebay(bench.directory / "forebay", origin.port, memory=f"{_MEMORY}B", ssd="4GiB")
        with forebay.running(first, "miss") as peer:
            for prefix in objects:
                peer.settle(origin, origin.targets(prefix))
        with bench.peers(forebay, origin, first, "hit-ssd") as peers:
            for prefix, (size, _) in objects.items():
                targets, expected = origin.targets(prefix), digests(origin, prefix)
                for peer in peers[1:]:
                    peer.fill(targets)
                held = bench.comparison.run_rounds(peers, targets, size, expected, _CONNECTIONS)
                rows += [row(rounds, held, size, str(_CONNECTIONS)) for rounds in held]
        cold = _cold(bench, forebay, origin)
    return [Section("Hits on the SSD", _TEXT, Table(HEADINGS, rows), missing(bench).strip()), cold]


def _cold(bench: BenchContext, forebay: Forebay, origin: Origin) -> Section:
    """Whether the loop waits for the disk: what a client of memory hits feels of one whose hits are on the disk."""
    *_, largest = origin.objects
    first, *others = origin.targets(next(iter(origin.objects)))
    requests, rows = bench.sizes.neighbour_requests, []
    with forebay.running(first, "hit-ssd"), cores.pinned(cores.LOAD):
        arguments = (str(forebay.port), str(forebay.cache), *others[-8:], *origin.targets(largest))
        before = times(forebay.port, first, requests)
        with module("benchmarks.cache.uncached_reader", *arguments, log=bench.directory / "dropping.log") as child:
            ready_line(child)
            beside = times(forebay.port, first, requests)
        after = times(forebay.port, first, requests)
    rows = _rows("Forebay", "reads through it", [before, after], beside)
    log, segments = bench.directory / "bare.log", sorted(map(str, forebay.cache.rglob("*.seg")))
    with ExitStack() as stack:
        with cores.pinned(cores.SERVER):
            server = stack.enter_context(
                module("benchmarks.bare.baseline", "serve", str(min(bench.sizes.ssd_sizes)), log=log)
            )
            port = int(ready_line(server))
        with cores.pinned(cores.LOAD):
            before = times(port, first, requests)
            with cores.pinned(cores.SERVER):
                reader = stack.enter_context(module("benchmarks.bare.baseline", "read", *segments, log=log))
            ready_line(reader)
            beside = times(port, first, requests)
    rows += _rows("a bare server", "another process that reads", [before], beside)
    return Section("Beside reads from the disk", _COLD, Table(("server", "beside", "p50", "p99", "factor"), rows))


def _rows(
    server: str, disturbance: str, alone: list[tuple[float, float]], beside: tuple[float, float]
) -> list[tuple[str, ...]]:
    longest = max(alone, key=lambda took: took[1])
    return [
        (server, "nobody", *map(time_text, longest), "1.0"),
        (server, disturbance, *map(time_text, beside), f"**{beside[1] / longest[1]:.1f}**"),
    ]

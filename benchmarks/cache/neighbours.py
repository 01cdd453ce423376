"""Neighbours: what a client that behaves feels of others that don't."""

import time

from benchmarks.bench_context import BenchContext
from benchmarks.cache.noisy_clients import KINDS
from benchmarks.load.http_client import KeepAliveConnection
from benchmarks.load.paced_reads import times
from benchmarks.load.signed_requests import signed
from benchmarks.origins.origin import Objects, running_origin
from benchmarks.pages.tables import Section, Table, time_text
from benchmarks.processes import cores
from benchmarks.processes.processes import module, ready_line
from benchmarks.run_sizes import KIB, MIB
from benchmarks.servers.forebay import Forebay

_TEXT = """\
One client asks for 4 KiB from memory every 2 ms, alone and then beside clients that keep Forebay busy with nothing
(what each kind does stands in [noisy_clients.py](../benchmarks/cache/noisy_clients.py)). Forebay has one core,
everybody else shares the other, where the one client comes before all others (real-time priority, as root), so that
what it waits for is Forebay. The factor is of the 99th percentile, to the median of the rounds in which the client was
alone."""


def run(bench: BenchContext) -> list[Section]:
    requests = bench.sizes.neighbour_requests
    with running_origin(bench.directory, {"small": Objects(4 * KIB, 1), "large": Objects(8 * MIB, 1)}) as origin:
        forebay = Forebay(bench.directory / "forebay", origin.port)
        [small], [large] = origin.targets("small"), origin.targets("large")
        with forebay.running(small), cores.pinned(cores.LOAD):
            with KeepAliveConnection(forebay.port) as connection:
                connection.get(signed(forebay.port, [large], time.time(), count=1)[0])
            alone, beside = [], {}
            for kind in KINDS:
                alone.append(times(forebay.port, small, requests))
                log = bench.directory / f"{kind}.log"
                with module("benchmarks.cache.noisy_clients", kind, str(forebay.port), log=log) as child:
                    ready_line(child)
                    beside[kind] = times(forebay.port, small, requests)
    baseline = sorted(alone, key=lambda took: took[1])[len(alone) // 2]
    rows = [("nobody", *map(time_text, baseline), "1.0")]
    rows += [(kind, *map(time_text, took), f"**{took[1] / baseline[1]:.1f}**") for kind, took in beside.items()]
    return [Section("Neighbours", _TEXT, Table(("beside", "p50", "p99", "factor"), rows))]

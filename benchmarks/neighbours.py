"""Neighbours: what a client that behaves feels of others that don't."""

import threading
import time

from benchmarks import cores
from benchmarks.bench_context import BenchContext
from benchmarks.forebay import Forebay
from benchmarks.http_client import KeepAliveConnection, UnexpectedResponse
from benchmarks.noisy_clients import KINDS
from benchmarks.origin import Objects, running_origin
from benchmarks.processes import module, ready_line
from benchmarks.run_sizes import KIB, MIB
from benchmarks.signed_requests import signed
from benchmarks.tables import Section, Table, time_text

PACE = 0.002
"""Seconds between two requests: a client that is not at its limit."""

_TEXT = """\
One client asks for 4 KiB from memory every 2 ms, alone and then beside clients that keep Forebay busy with nothing
(what each kind does stands in [benchmarks/noisy_clients.py](../benchmarks/noisy_clients.py)). Forebay has one core,
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
                with module("benchmarks.noisy_clients", kind, str(forebay.port), log=log) as child:
                    ready_line(child)
                    beside[kind] = times(forebay.port, small, requests)
    baseline = sorted(alone, key=lambda took: took[1])[len(alone) // 2]
    rows = [("nobody", *map(time_text, baseline), "1.0")]
    rows += [(kind, *map(time_text, took), f"**{took[1] / baseline[1]:.1f}**") for kind, took in beside.items()]
    return [Section("Neighbours", _TEXT, Table(("beside", "p50", "p99", "factor"), rows))]


def times(port: int, target: str, count: int) -> tuple[float, float]:
    """Median and 99th percentile of `count` hits, one every PACE seconds."""
    taken = latencies(port, target, count)
    return taken[len(taken) // 2], taken[len(taken) * 99 // 100]


def latencies(port: int, target: str, count: int) -> list[float]:
    """The times of `count` hits, one every PACE seconds, ascending."""
    wires = signed(port, [target], time.time(), count=count)
    taken = []
    with KeepAliveConnection(port) as connection, cores.before_others():
        due = time.perf_counter()
        for wire in wires:
            due += PACE
            threading.Event().wait(max(0.0, due - time.perf_counter()))
            answer = connection.get(wire)
            if answer.status != 200:
                raise UnexpectedResponse(f"{answer.status} for a hit")
            taken.append(answer.total)
    return sorted(taken)

"""Several workers on a node: a hit in another worker's memory, and the first epoch with a plan."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Final

from benchmarks.bench_context import BenchContext
from benchmarks.epochs.boto_readers import TEXT, ReadEpoch, ReaderCase, data_sets, read_epochs
from benchmarks.errors import UnexpectedResponse
from benchmarks.load.http_client import KeepAliveConnection
from benchmarks.load.signed_requests import signed
from benchmarks.origins.link import BANDWIDTH, ROUND_TRIP, Link
from benchmarks.origins.origin import Objects, Origin, running_origin
from benchmarks.pages.tables import Section, Table, size_text, time_text
from benchmarks.processes import cores
from benchmarks.run_sizes import MIB, TENSOR
from benchmarks.servers.forebay import HIT_HEADER, Forebay

_ATTEMPTS: Final = 200
"""Connections until the kernel has given one to each worker."""
_HITS: Final = """\
Two workers, both on one core. One of them has read all objects ("miss"), then each is read through the other, which has
to ask the owner for it ("another's", `x-forebay-cache: hit-worker`), and once more, from the memory of the worker that
is asked ("own"). One read after another over one connection; CPU of both workers a read, medians of {rounds} turns of
new servers, the least and the largest in brackets. Lower is better."""
_EPOCHS: Final = f"""\
{TEXT} The tables of plans above, for a node with several workers: the first epoch with a plan, and the warm one behind
it, medians of {{rounds}} turns in which the numbers of workers follow one another, the least and the largest in
brackets. Half of the samples are read through a worker that does not own them. "CPU" is that of all workers together, a
sample. Lower is better; the goal is 1.1."""


def run(bench: BenchContext) -> list[Section]:
    """Both tables."""
    rows = [_hit_row(bench, size, count) for size, count in bench.sizes.relayed]
    hits = Table(("object", "miss", "another's", "own", "another's by own"), rows)
    return [
        Section("A hit in another worker's memory", _HITS.format(rounds=bench.sizes.plan_rounds), hits),
        _epochs(bench),
    ]


def _hit_row(bench: BenchContext, size: int, count: int) -> tuple[str, ...]:
    turns = []
    with running_origin(bench.directory, {"relayed": Objects(size, count)}) as origin:
        for turn in range(bench.sizes.plan_rounds):
            directory = bench.directory / f"relayed-{size}-{turn}"
            memory = f"{4 * size * count + (256 << 20)}"
            forebay = Forebay(directory, origin.port, memory=memory, workers=2, pinned=True)
            turns.append(_hit_turn(forebay, origin))
    missed, relayed, own = zip(*turns, strict=True)
    ratios = [another / kept for another, kept in zip(relayed, own, strict=True)]
    cells = (f"{time_text(median(each))} ({time_text(min(each))} to {time_text(max(each))})" for each in (relayed, own))
    return size_text(size), time_text(median(missed)), *cells, f"**{median(ratios):.2f}**"


def _hit_turn(forebay: Forebay, origin: Origin) -> tuple[float, float, float]:
    """Seconds of CPU of a miss, a hit in another worker's memory, and one in the own."""
    targets = origin.targets("relayed")
    with forebay.running(targets[0]) as peer:
        workers = cores.workers_of(peer.group)
        # The first answer of a new server is a read, too: the worker that gave it owns that object.
        with _connections(forebay.port, workers) as (first, second), cores.pinned(cores.LOAD):
            requests = signed(forebay.port, targets[1:], time.time(), count=len(targets) - 1)
            return (
                _cpu(workers, first, requests, "miss"),
                _cpu(workers, second, requests, "hit-worker"),
                _cpu(workers, second, requests, "hit-memory"),
            )


@contextmanager
def _connections(port: int, workers: Sequence[int]) -> Iterator[list[KeepAliveConnection]]:
    """One connection to each worker."""
    opened = [KeepAliveConnection(port)]
    try:
        for _ in range(_ATTEMPTS):
            while not (holders := cores.accepted_connections(workers, port)).keys() >= {each.port for each in opened}:
                pass  # some have not been accepted yet
            by_worker = {holders[each.port]: each for each in opened}
            if len(by_worker) == len(workers):
                yield [by_worker[worker] for worker in workers]
                return
            opened.append(KeepAliveConnection(port))
        raise UnexpectedResponse("the kernel gives one worker all connections")
    finally:
        for each in opened:
            each.close()


def _cpu(workers: Sequence[int], connection: KeepAliveConnection, requests: Sequence[bytes], expected: str) -> float:
    """Seconds of CPU of all workers a read. The answers have to be what is expected, but for one in twenty."""
    before = sum(map(cores.cpu_seconds_of, workers))
    found = Counter(connection.get(request).headers[HIT_HEADER] for request in requests)
    if found[expected] < 0.95 * len(requests):
        raise UnexpectedResponse(f"{dict(found)} in place of {expected}")
    return (sum(map(cores.cpu_seconds_of, workers)) - before) / len(requests)


def _epochs(bench: BenchContext) -> Section:
    case = ReaderCase(TENSOR, bench.sizes.plan_samples[0], max(bench.sizes.plan_readers))
    found: dict[int, list[tuple[ReadEpoch, ReadEpoch]]] = {workers: [] for workers in bench.sizes.node_workers}
    with running_origin(bench.directory, data_sets([case]), [Link(ROUND_TRIP, BANDWIDTH)], pinned=False) as origin:
        for turn in range(bench.sizes.plan_rounds):
            for workers, turns in found.items():
                turns.append(_epoch_turn(bench, origin, case, workers, turn))
    rows = [_epoch_row(workers, case, turns) for workers, turns in found.items()]
    headings = ("workers", "samples", "readers", "with a plan", "warm", "CPU, plan", "CPU, warm", "plan by warm")
    text = _EPOCHS.format(compute=bench.sizes.plan_compute * 1000, rounds=bench.sizes.plan_rounds)
    return Section("The first epoch with a plan, by several workers", text, Table(headings, rows))


def _epoch_turn(
    bench: BenchContext, origin: Origin, case: ReaderCase, workers: int, turn: int
) -> tuple[ReadEpoch, ReadEpoch]:
    directory = bench.directory / f"node-{workers}-{turn}"
    memory = f"{workers * (2 * case.size * case.samples + 64 * MIB)}"
    forebay = Forebay(directory, origin.far[0], memory=memory, workers=workers)
    with forebay.running(origin.targets(case.prefix)[-1]) as peer:
        watched = cores.workers_of(peer.group)
        planned, warm = read_epochs(forebay.port, case, bench.sizes.plan_compute, epochs=2, plans=1, watched=watched)
        return planned, warm


def _epoch_row(workers: int, case: ReaderCase, turns: Sequence[tuple[ReadEpoch, ReadEpoch]]) -> tuple[str, ...]:
    planned, warm = zip(*turns, strict=True)
    ratios = [first.seconds / second.seconds for first, second in turns]
    return (
        f"{workers}",
        f"{case.samples:,}",
        f"{case.readers}",
        *(time_text(median(each.seconds for each in epochs)) for epochs in (planned, warm)),
        *(time_text(median(sum(each.watched) for each in epochs) / case.samples) for epochs in (planned, warm)),
        f"**{median(ratios):.2f}** ({min(ratios):.2f} to {max(ratios):.2f})",
    )

"""Two workers against one: what a hit costs in either, and how evenly the kernel spreads connections over the two."""

import time
from collections import Counter
from statistics import median

from benchmarks.bench_context import BenchContext, digests
from benchmarks.load.generator import Generator, connected
from benchmarks.load.signed_requests import signed
from benchmarks.origins.origin import Objects, running_origin
from benchmarks.pages.tables import Section, Table, count_text, size_text
from benchmarks.processes import cores
from benchmarks.servers.forebay import Forebay
from benchmarks.servers.peer import Peer

_CONNECTIONS = 128
_TEXT = f"""\
Hits from memory over {_CONNECTIONS} connections: to one worker, and to one of two, in turns. The load generator needs a
core for itself, so on a machine of two cores no rate shows what two workers do together. So what is compared is what an
answer costs a worker that is alone and one that has another beside it: answers by the seconds of its CPU, on the same
core, over as many connections. (Two that share the load of one are each less busy, and what is less busy takes its
events in smaller helpings: their seconds would compare loads, not workers.) Two workers on a core each answer twice
as often as one, times the ratio, as long as both have something to do. If all connections ask equally often, the one to
which the kernel gave more of them is busy first: of {_CONNECTIONS} connections, the share of the busier, in the median
of the rounds. The last column is how much more two then answer than one. It knows nothing of what two cores have in
common (memory, cache, the kernel's locks)."""


def run(bench: BenchContext) -> list[Section]:
    rows = []
    sizes = [size for size in bench.sizes.warm_sizes if size < 1 << 20]
    prefixes = {f"size-{size}": Objects(size, bench.sizes.warm_objects) for size in sizes}
    with running_origin(bench.directory, prefixes) as origin:
        one = Forebay(bench.directory / "one", origin.port)
        two = Forebay(bench.directory / "two", origin.port, workers=2, pinned=True)
        first = origin.targets(next(iter(prefixes)))[0]
        with one.running(first) as single, two.running(first) as pair, cores.pinned(cores.LOAD):
            for size, prefix in zip(sizes, prefixes, strict=True):
                targets, expected = origin.targets(prefix), digests(origin, prefix)
                for peer in (single, pair):
                    for worker in cores.workers_of(peer.group):
                        _warm(peer, worker, targets)
                    peer.check(targets, expected)
                rows.append(_row(bench, size, single, pair, targets))
    headings = (
        "object",
        "one worker: answers a CPU second",
        "two workers: answers a CPU second",
        "ratio",
        "share of the busier",
        "two workers on two cores: times one",
    )
    return [Section("Workers", _TEXT, Table(headings, rows))]


def _warm(peer: Peer, worker: int, targets: list[str]) -> None:
    """Until this worker has every object in memory."""
    with _load(peer, worker, targets)[0] as generator:
        for _ in range(2):
            generator.once()


def _row(bench: BenchContext, size: int, single: Peer, pair: Peer, targets: list[str]) -> tuple[str, ...]:
    ones, twos, shares = [], [], []
    for _ in range(bench.sizes.rounds):
        ones.append(_round(bench, single, targets)[0])
        answers, share = _round(bench, pair, targets)
        twos.append(answers)
        shares.append(share)
    ratio, share = median(twos) / median(ones), median(shares)
    return (
        size_text(size),
        count_text(median(ones)),
        count_text(median(twos)),
        f"{ratio:.2f}",
        f"{share:.0%}",
        f"**{ratio / share:.2f}**",
    )


def _round(bench: BenchContext, peer: Peer, targets: list[str]) -> tuple[float, float]:
    """Answers for each second of CPU of the first worker, which alone is asked; the share of the connections that the
    kernel gave to the busiest, of those that were opened first."""
    worker = cores.workers_of(peer.group)[0]
    load, share = _load(peer, worker, targets)
    with load as generator:
        generator.once()
        before = cores.cpu_seconds_of(worker)
        answered = generator.run(bench.sizes.round_seconds).requests
        return answered / max(cores.cpu_seconds_of(worker) - before, 1e-9), share


def _load(peer: Peer, worker: int, targets: list[str]) -> tuple[Generator, float]:
    """Connections that `worker` has taken; the share of the busiest, of as many as came first."""
    workers = cores.workers_of(peer.group)
    opened = [connected(peer.port) for _ in range(_CONNECTIONS * len(workers) + _CONNECTIONS // 2)]
    ports = [connection.getsockname()[1] for connection in opened]
    while not (taken := cores.accepted_connections(workers, peer.port)).keys() >= set(ports):
        pass  # some have not been accepted yet
    first = Counter(taken[port] for port in ports[:_CONNECTIONS])
    ours = [connection for port, connection in zip(ports, opened, strict=True) if taken[port] == worker]
    for connection in [*ours[_CONNECTIONS:], *(set(opened) - set(ours))]:
        connection.close()
    ours = ours[:_CONNECTIONS]
    generator = Generator(peer.port, signed(peer.port, targets, time.time()), _CONNECTIONS, ours)
    return generator, max(first.values()) / _CONNECTIONS

"""Two workers against one: what a hit costs in either, and how evenly the kernel spreads connections over the two."""

import time
from statistics import median

from benchmarks import cores
from benchmarks.bench import Bench, digests
from benchmarks.forebay import Forebay
from benchmarks.generator import Generator
from benchmarks.load import Load
from benchmarks.origin import Objects, running_origin
from benchmarks.peer import Peer
from benchmarks.requests import signed
from benchmarks.tables import Section, Table, count_text, size_text

_CONNECTIONS = 128
_TEXT = f"""\
Hits from memory over {_CONNECTIONS} connections, one worker and two in turns. The load generator needs a core for
itself, so on a machine of two cores no rate shows what two workers can do. So what is compared is what an answer costs:
answers by the seconds of CPU that the workers used for them, whichever core those were on. Two workers on a core each
answer at most twice as often as one, times the ratio of these two columns; less where the kernel gives one of them more
of the connections, which the last but one column tells: the busier one's share of the CPU time. What this bounds is in
the last column."""


def run(bench: Bench) -> list[Section]:
    rows = []
    sizes = [size for size in bench.effort.warm_sizes if size < 1 << 20]
    prefixes = {f"size-{size}": Objects(size, bench.effort.warm_objects) for size in sizes}
    with running_origin(bench.directory, prefixes) as origin:
        one = Forebay(bench.directory / "one", origin.port)
        two = Forebay(bench.directory / "two", origin.port, workers=2)
        first = origin.targets(next(iter(prefixes)))[0]
        with one.running(first) as single, two.running(first) as pair:
            for size, prefix in zip(sizes, prefixes, strict=True):
                targets, expected = origin.targets(prefix), digests(origin, prefix)
                for peer in (single, pair):
                    _warm(peer, targets)
                    peer.check(targets, expected)
                rows.append(_row(bench, size, single, pair, targets))
    headings = (
        "object",
        "one worker: answers a CPU second",
        "two workers: answers a CPU second",
        "ratio",
        "share of the busier",
        "two workers on two cores: times one at most",
    )
    return [Section("Workers", _TEXT, Table(headings, rows))]


def _warm(peer: Peer, targets: list[str]) -> None:
    """Until every worker has every object in memory."""
    for _ in range(3):
        with Generator(peer.port, signed(peer.port, targets, time.time()), _CONNECTIONS) as generator:
            generator.once()


def _row(bench: Bench, size: int, single: Peer, pair: Peer, targets: list[str]) -> tuple[str, ...]:
    ones, twos, shares = [], [], []
    for _ in range(bench.effort.rounds):
        load, used = _round(bench, single, targets)
        ones.append(load.requests / max(sum(used), 1e-9))
        load, used = _round(bench, pair, targets)
        twos.append(load.requests / max(sum(used), 1e-9))
        shares.append(max(used) / max(sum(used), 1e-9))
    ratio, share = median(twos) / median(ones), median(shares)
    return (
        size_text(size),
        count_text(median(ones)),
        count_text(median(twos)),
        f"{ratio:.2f}",
        f"{share:.0%}",
        f"**{ratio / share:.2f}**",
    )


def _round(bench: Bench, peer: Peer, targets: list[str]) -> tuple[Load, list[float]]:
    """What it answered, and what each of its workers used for it."""
    workers = cores.workers_of(peer.group)
    with Generator(peer.port, signed(peer.port, targets, time.time()), _CONNECTIONS) as generator:
        before = [cores.cpu_seconds_of(worker) for worker in workers]
        load = generator.run(bench.effort.round_seconds)
        return load, [cores.cpu_seconds_of(worker) - used for worker, used in zip(workers, before, strict=True)]

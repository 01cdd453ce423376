"""What recording and following cost a hit: CPU of two servers in turns, one of which records and follows.

    order       shuffled: another one each epoch, so all is recorded and nothing recognised
                same: one order, recognised each epoch

Each turn is a number of requests, so both servers read whole epochs. Which of the two goes first is drawn for each
pair, so that what others do to the processor's caches falls on both. The ratio is of all turns; the difference of a
pair says how far it can be trusted.
"""

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from statistics import mean, stdev
from typing import Final, NamedTuple

from benchmarks import cores
from benchmarks.bench_context import BenchContext
from benchmarks.forebay import Forebay
from benchmarks.generator import Generator
from benchmarks.origin import Objects, running_origin
from benchmarks.peer import Peer
from benchmarks.run_sizes import KIB
from benchmarks.signed_requests import signed
from benchmarks.tables import Section, Table, time_text

SIZE: Final = 4 * KIB
CONNECTIONS: Final = 8
_RULES: Final = {
    "off": "",
    "on": '\n[[rules]]\npath = "bench/**"\nrecord = true\nfollow = true\n',
}
_TEXT: Final = f"""\
Hits of {SIZE} bytes from memory over {CONNECTIONS} connections. Two servers of this checkout in turns, one of them with
`record = true` and `follow = true`; both count and sample what is read, as under every rule. CPU of all of a server's
processes a request, and that of their event loops alone: the rest compresses and writes, in another thread. Ratios are
of the sums of all turns; the difference is the mean of the pairs, whose order is drawn, and its standard error.
"Shuffled" is another order each epoch, all of it recorded; "same" is one order, recognised each epoch. Lower is better;
the goal is 1.02."""


class _Used(NamedTuple):
    """CPU seconds a request."""

    all: float
    loops: float
    """Those of the event loops."""


def run(bench: BenchContext) -> list[Section]:
    rows = []
    for objects, turns, workers in bench.sizes.recorded_hits:
        with running_origin(bench.directory, {"hits": Objects(SIZE, objects)}) as origin, ExitStack() as stack:
            targets = origin.targets("hits")
            peers = []
            for name, rule in _RULES.items():
                directory = bench.directory / f"{name}-{objects}-{workers}"
                forebay = Forebay(directory, origin.port, workers=workers, pinned=True, rest=rule)
                peers.append(stack.enter_context(forebay.running(targets[0])))
            for peer in peers:
                for _ in range(4 * workers if workers > 1 else 1):  # each worker has its own memory
                    peer.fill(targets)
            rows += [_row(peers, targets, turns, workers, order) for order in ("shuffled", "same")]
    headings = ("order", "objects", "workers", "turns each", "off", "on", "on by off", "difference", "event loops")
    return [Section("The cost of recording", _TEXT, Table(headings, rows))]


def _row(peers: list[Peer], targets: list[str], turns: int, workers: int, order: str) -> tuple[str, ...]:
    streams = [_requests(peer, targets, order) for peer in peers]
    for peer, stream in zip(peers, streams, strict=True):
        _turn(peer, list(islice(stream, 2 * len(targets))))
    used: list[list[_Used]] = [[], []]
    chance = random.Random()
    for _ in range(turns):
        for number in chance.sample((0, 1), 2):
            used[number].append(_turn(peers[number], list(islice(streams[number], len(targets)))))
    off, on = ([turn.all for turn in each] for each in used)
    off_loops, on_loops = (sum(turn.loops for turn in each) for each in used)
    differences = [1e6 * (with_it - without) for without, with_it in zip(off, on, strict=True)]
    return (
        order,
        f"{len(targets):,}",
        f"{workers}",
        f"{turns}",
        *(time_text(mean(each)) for each in (off, on)),
        f"**{sum(on) / sum(off):.3f}**",
        f"{mean(differences):.2f} ± {stdev(differences) / turns**0.5:.2f} µs",
        f"{on_loops / off_loops:.3f}",
    )


def _requests(peer: Peer, targets: list[str], order: str) -> Iterator[bytes]:
    """Epoch after epoch."""
    requests = signed(peer.port, targets, time.time(), count=len(targets))
    shuffle = random.Random(1)
    shuffle.shuffle(requests)
    while True:
        yield from requests
        if order == "shuffled":
            shuffle.shuffle(requests)


def _turn(peer: Peer, requests: list[bytes]) -> _Used:
    with cores.pinned(cores.LOAD), Generator(peer.port, requests, CONNECTIONS) as generator:
        before = _Used(cores.cpu_seconds(peer.group), cores.loop_seconds(peer.group))
        generator.each_once()
        time.sleep(0.06)  # noqa: TID251 # the server is waited for: what was read is looked at a batch later
        after = _Used(cores.cpu_seconds(peer.group), cores.loop_seconds(peer.group))
    return _Used(*((end - begin) / len(requests) for begin, end in zip(before, after, strict=True)))

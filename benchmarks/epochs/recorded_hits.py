"""What recording and following cost a hit: CPU of one server, whose rule says so in some turns and not in others.

    order       shuffled: another one each epoch, so all is recorded and nothing recognised
                same: one order, recognised each epoch

One server, as two that are alike differ by up to a sixth: where their memory lies. A reload turns recording on and off.
Each turn is some epochs that are not counted, and one that is: a reload has all names learned anew in the first, and
written in the second, as pages are written up to 4,096 reads later. Of several workers each has to learn each name, and
which of them answers is chance: after two epochs two workers have yet to learn one in four. Which of the two kinds goes
first is drawn for each pair, so that what others do to the processor's caches falls on both. The ratio is of all turns;
the difference of a pair says how far it can be trusted.
"""

import math
import random
import time
from collections.abc import Iterator
from itertools import islice
from statistics import mean, stdev
from typing import Final, NamedTuple

from benchmarks.bench_context import BenchContext
from benchmarks.load.generator import Generator
from benchmarks.load.signed_requests import signed
from benchmarks.origins.origin import Objects, running_origin
from benchmarks.pages.tables import Section, Table, time_text
from benchmarks.processes import cores
from benchmarks.run_sizes import KIB
from benchmarks.servers.forebay import Forebay
from benchmarks.servers.peer import Peer

SIZE: Final = 4 * KIB
CONNECTIONS: Final = 8
_UNCOUNTED: Final = 2
"""Epochs behind a reload: see above."""
_UNLEARNED: Final = 0.005
"""Hits of a counted epoch, as a share, whose worker may not have answered for the object since the reload."""
_OFF: Final = ""
_ON: Final = '\n[[rules]]\npath = "bench/**"\nrecord = true\nfollow = true\n'
_TEXT: Final = f"""\
Hits of {SIZE} bytes from memory over {CONNECTIONS} connections. One server, whose rule has `record = true` and
`follow = true` in some turns, by a reload, and not in others; in these it notes no read at all, as no rule has a name.
CPU of all its processes a request, and that of their event loops alone: the rest compresses and writes, in another
thread. The first epochs behind a reload are not counted: two, and as many as it takes until each of several workers has
answered for each object. Ratios are of the sums of all turns; the
difference is the mean of the pairs, whose order is drawn, and its standard error.
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
        with running_origin(bench.directory, {"hits": Objects(SIZE, objects)}) as origin:
            targets = origin.targets("hits")
            directory = bench.directory / f"hits-{objects}-{workers}"
            forebay = Forebay(directory, origin.port, workers=workers, pinned=True)
            with forebay.running(targets[0]) as peer:
                for _ in range(4 * workers if workers > 1 else 1):  # each worker has its own memory
                    peer.fill(targets)
                rows += [_row(forebay, peer, targets, turns, order) for order in ("shuffled", "same")]
    headings = ("order", "objects", "workers", "turns each", "off", "on", "on by off", "difference", "event loops")
    return [Section("The cost of recording", _TEXT, Table(headings, rows))]


def _row(forebay: Forebay, peer: Peer, targets: list[str], turns: int, order: str) -> tuple[str, ...]:
    stream, chance = _requests(peer, targets, order), random.Random()
    used: dict[str, list[_Used]] = {_OFF: [], _ON: []}
    for _ in range(1 + turns):
        for rule in chance.sample((_OFF, _ON), 2):
            forebay.reload(rule)
            for _ in range(_uncounted(forebay.workers)):
                _turn(peer, list(islice(stream, len(targets))))
            used[rule].append(_turn(peer, list(islice(stream, len(targets)))))
    off, on = ([turn.all for turn in used[rule][1:]] for rule in (_OFF, _ON))
    off_loops, on_loops = (sum(turn.loops for turn in used[rule][1:]) for rule in (_OFF, _ON))
    differences = [1e6 * (with_it - without) for without, with_it in zip(off, on, strict=True)]
    return (
        order,
        f"{len(targets):,}",
        f"{forebay.workers}",
        f"{turns}",
        *(time_text(mean(each)) for each in (off, on)),
        f"**{sum(on) / sum(off):.3f}**",
        f"{mean(differences):.2f} ± {stdev(differences) / turns**0.5:.2f} µs",
        f"{on_loops / off_loops:.3f}",
    )


def _uncounted(workers: int) -> int:
    """Epochs of a turn that are not counted."""
    return _UNCOUNTED + (math.ceil(math.log(_UNLEARNED, 1 - 1 / workers)) if workers > 1 else 0)


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

"""Random ranges of one large object on the SSD, against nginx, which keeps it in slices."""

import random
from typing import Final

from benchmarks.bench_context import BenchContext
from benchmarks.cache.rows import HEADINGS, missing, row
from benchmarks.load.signed_requests import unsigned
from benchmarks.origins.origin import Objects, running_origin
from benchmarks.pages.tables import Section, Table, size_text
from benchmarks.run_sizes import KIB, MIB
from benchmarks.servers.forebay import Forebay
from benchmarks.servers.peer import digests_of

_TEXT: Final = """\
Ranges of one object, each beginning anywhere in it, over 16 connections. Forebay was restarted with 512 KiB of memory,
half a block, so it reads them from the SSD, page cache warm, and compares the checksums of what it touches at least
once a minute. nginx keeps the object in slices of 1 MiB (its `slice` module), as long as Forebay's blocks, and checks
nothing."""
_LENGTHS: Final = (64 * KIB, MIB)
_CONNECTIONS: Final = 16
_RANGES: Final = 256


def run(bench: BenchContext) -> list[Section]:
    size, rows = bench.sizes.ranged_size, []
    with running_origin(bench.directory, {"ranges": Objects(size, 1)}) as origin:
        [whole] = origin.targets("ranges")
        forebay = Forebay(bench.directory / "forebay", origin.port, memory="512KiB", ssd="4GiB")
        with forebay.running(f"{whole}#0-0", "miss") as peer:
            peer.settle(origin, [whole])
        with bench.peers(forebay, origin, f"{whole}#0-0", "hit-ssd") as peers:
            for peer in peers[1:]:
                peer.settle(origin, [whole])
            for length in _LENGTHS:
                targets = _spans(whole, size, length)
                wires = dict(zip(targets, unsigned(origin.port, targets), strict=True))
                held = bench.comparison.run_rounds(peers, targets, length, digests_of(origin.port, wires), _CONNECTIONS)
                rows += [row(rounds, held, length, str(_CONNECTIONS)) for rounds in held]
    title = f"Random ranges of {size_text(size)} on the SSD"
    return [Section(title, _TEXT, Table(("range", *HEADINGS[1:]), rows), missing(bench).strip())]


def _spans(whole: str, size: int, length: int) -> list[str]:
    """The same in each run, so that runs can be compared."""
    starts = random.Random(length)
    return [
        f"{whole}#{start}-{start + length - 1}" for start in (starts.randrange(size - length) for _ in range(_RANGES))
    ]

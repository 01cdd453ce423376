"""Hits on the SSD after a restart, against nginx, which has nothing but its files."""

from typing import Final

from benchmarks.bench import Bench, digests
from benchmarks.effort import MIB
from benchmarks.forebay import Forebay
from benchmarks.origin import Objects, running_origin
from benchmarks.rows import HEADINGS, missing, row
from benchmarks.tables import Section, Table

_TEXT: Final = """\
The same contest after Forebay was restarted, with half as much memory as the objects of each size take, read in turn:
each is out of memory again when it comes round, so every read is a hit on the SSD, page cache warm, checked against its
checksum. nginx serves its files as before, without checking them."""
_CONNECTIONS: Final = 16
_MEMORY: Final = 8 * MIB


def run(bench: Bench) -> list[Section]:
    sizes = [size for size in bench.effort.warm_sizes if size >= 64 << 10]
    objects = {str(size): Objects(size, max(bench.effort.ssd_objects, 1 + 2 * _MEMORY // size)) for size in sizes}
    rows: list[tuple[str, ...]] = []
    with running_origin(bench.directory, objects) as origin:
        first = origin.targets(next(iter(objects)))[0]
        forebay = Forebay(bench.directory / "forebay", origin.port, memory=f"{_MEMORY}B", ssd="4GiB")
        with forebay.running(first, "miss") as peer:
            for prefix in objects:
                peer.fill(origin.targets(prefix))
        with bench.peers(forebay, origin, first, "hit-ssd") as peers:
            for prefix, (size, _) in objects.items():
                targets, expected = origin.targets(prefix), digests(origin, prefix)
                for peer in peers[1:]:
                    peer.fill(targets)
                held = bench.contest.hold(peers, targets, size, expected, _CONNECTIONS)
                rows += [row(rounds, held, size, str(_CONNECTIONS)) for rounds in held]
    return [Section("Hits on the SSD", _TEXT, Table(HEADINGS, rows), missing(bench).strip())]

"""Hits on the SSD after a restart, against nginx, which has nothing but its files."""

from benchmarks import warm
from benchmarks.bench import Bench, digests
from benchmarks.contest import Rounds
from benchmarks.effort import TENSOR
from benchmarks.forebay import Forebay
from benchmarks.origin import Objects, running_origin
from benchmarks.tables import Section, Table

_TEXT = """\
The same contest after Forebay was restarted with a memory tier that is too small for any of these objects (512 KiB:
only their heads fit), so that each read is a hit on the SSD, page cache warm, checked against its checksum. nginx
serves its files as before, without checking them."""
_HEADINGS = ("object", "conn.", "server", "requests/s", "MB/s", "p50", "p99", "CPU/request", "busy", "ratio to nginx")


def run(bench: Bench) -> list[Section]:
    objects = {"tensor": Objects(TENSOR, bench.effort.ssd_objects)}
    rows: list[tuple[str, ...]] = []
    with running_origin(bench.directory, objects) as origin:
        targets, expected = origin.targets("tensor"), digests(origin, "tensor")
        forebay = Forebay(bench.directory / "forebay", origin.port, memory="512KiB", ssd="4GiB")
        with forebay.running(targets[0]) as peer:
            peer.fill(targets)
        with bench.peers(forebay, origin, targets[0], "hit-ssd") as peers:
            for peer in peers[1:]:
                peer.fill(targets)
            for connections in bench.effort.connections:
                held: list[Rounds] = bench.contest.hold(peers, targets, TENSOR, expected, connections)
                rows += [warm.row(rounds, held, TENSOR, str(connections)) for rounds in held]
    remark = "" if bench.nginx is not None else "**nginx is not installed (`make peers`): Forebay was measured alone.**"
    return [Section("Hits on the SSD", _TEXT, Table(_HEADINGS, rows), remark)]

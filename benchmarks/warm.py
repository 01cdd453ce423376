"""Warm reads: hits in memory against nginx's `proxy_cache` out of the page cache."""

from benchmarks.bench import Bench, digests
from benchmarks.contest import Rounds, ratio
from benchmarks.effort import MIB
from benchmarks.forebay import Forebay
from benchmarks.origin import Objects, Origin, running_origin
from benchmarks.peer import Peer
from benchmarks.tables import Section, Table, count_text, size_text, time_text
from benchmarks.wire import WrongAnswer

TITLE = "Warm reads"
_TEXT = """\
Whole objects, read again and again over keep-alive connections, in turns with nginx. One core for the server, the other
for the load. Forebay answers from memory; it verifies the signature of each request, applies grants and rules, counts
metrics and writes an access line for each request to a file. nginx answers from its `proxy_cache` (files in the page
cache, sendfile, open file cache) and does none of that: its access log is off, and it serves whoever asks. The ratio is
of requests a second, the median of the rounds' ratios, with the lowest and the highest round in brackets. "CPU" is what
a request costs the server's process; "busy" is how much of its core the server used: well under 100 % with many
connections, the load generator was the bottleneck, or others used the machine, and the server could have done more."""
_HEADINGS = ("object", "conn.", "server", "requests/s", "MB/s", "p50", "p99", "CPU/request", "busy", "ratio to nginx")


def run(bench: Bench) -> list[Section]:
    effort = bench.effort
    objects = {
        str(size): Objects(size, max(2, effort.warm_objects // (4 if size >= 8 * MIB else 1)))
        for size in effort.warm_sizes
    }
    forebay_directory = bench.directory / "forebay"
    with running_origin(bench.directory, objects) as origin:
        forebay = Forebay(forebay_directory, origin.port)
        rows: list[tuple[str, ...]] = []
        with bench.peers(forebay, origin, origin.targets(next(iter(objects)))[0]) as peers:
            for prefix, (size, _) in objects.items():
                rows += _size(bench, origin, peers, prefix, size)
        forms = _forms(bench, origin, forebay, next(iter(objects)))
    used = {size_text(size): bench.contest.generator(size) for size in effort.warm_sizes}
    generators = "Load generator: " + ", ".join(f"{name} for {size}" for size, name in used.items()) + "."
    missing = (
        "" if bench.nginx is not None else " **nginx is not installed (`make peers`): Forebay was measured alone.**"
    )
    if bench.wrk is None:
        missing += " wrk is not installed (`make peers`): our own generator limits the small sizes."
    return [Section(TITLE, _TEXT, Table(_HEADINGS, rows), generators + missing), forms]


def _size(bench: Bench, origin: Origin, peers: list[Peer], prefix: str, size: int) -> list[tuple[str, ...]]:
    targets, rows = origin.targets(prefix), []
    expected = digests(origin, prefix)
    for peer in peers:
        peer.fill(targets)
    before = origin.told().gets
    for connections in bench.effort.connections:
        held = bench.contest.hold(peers, targets, size, expected, connections)
        rows += [row(rounds, held, size, str(connections)) for rounds in held]
    if origin.told().gets != before:
        raise WrongAnswer("the origin was asked for objects that should have been hits")
    return rows


def row(rounds: Rounds, held: list[Rounds], size: int, label: str) -> tuple[str, ...]:
    """A row of a table of hits; the ratio stands in Forebay's."""
    compared = "–"
    if rounds is held[0] and len(held) > 1:
        against = ratio(held[0], held[1])
        compared = f"**{against.median:.2f}** ({against.low:.2f} to {against.high:.2f})"
    return (
        size_text(size),
        label,
        rounds.peer.name,
        count_text(rounds.rate),
        count_text(rounds.rate * size / 1e6),
        time_text(rounds.p50),
        time_text(rounds.p99),
        time_text(rounds.cpu_per_request),
        f"{sum(rounds.busy) / len(rounds.busy):.0%}",
        compared,
    )


def _forms(bench: Bench, origin: Origin, forebay: Forebay, prefix: str) -> Section:
    """What a presigned URL costs against a signature in the header."""
    targets, expected = origin.targets(prefix), digests(origin, prefix)
    size = origin.objects[prefix].size
    with forebay.running(targets[0]) as header:
        presigned = forebay.peer(header.group, form="presigned")
        header.fill(targets)
        held = bench.contest.hold([header, presigned], targets, size, expected, 16)
    against = ratio(held[1], held[0])
    rows = [
        (form, count_text(rounds.rate), time_text(rounds.p99), time_text(rounds.cpu_per_request))
        for form, rounds in zip(("in the header", "presigned URL"), held, strict=True)
    ]
    return Section(
        "The two forms of a signature",
        f"Forebay alone, {size_text(size)}, 16 connections, in turns.",
        Table(("signature", "requests/s", "p99", "CPU/request"), rows),
        f"A presigned URL is served {against.median:.2f} times as fast ({against.low:.2f} to {against.high:.2f}).",
    )

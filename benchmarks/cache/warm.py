"""Warm reads: hits in memory, against nginx's `proxy_cache` out of the page cache and Varnish's malloc storage."""

from typing import Final

from benchmarks.bench_context import BenchContext, digests
from benchmarks.cache.rows import COMPARED, HEADINGS, compared, missing, row
from benchmarks.errors import UnexpectedResponse
from benchmarks.load.signed_requests import Form
from benchmarks.origins.origin import Objects, Origin, running_origin
from benchmarks.pages.tables import Section, Table, count_text, size_text, time_text
from benchmarks.run_sizes import MIB
from benchmarks.servers.comparison import Rounds, p99_ratio, ratio
from benchmarks.servers.forebay import Forebay
from benchmarks.servers.peer import Peer

TITLE: Final = "Warm reads"
_TEXT: Final = """\
Whole objects, read again and again over keep-alive connections, in turns with the peers. One core for the server, the
other for the load. Forebay answers from memory; it verifies the signature of each request, applies grants and rules,
counts metrics and writes an access line for each request to a file. nginx answers from its `proxy_cache` (files in the
page cache, sendfile, open file cache), Varnish from malloc storage, and they do none of that: no access log is written,
and they serve whoever asks. The ratios are of requests a second, the median of the rounds' ratios, with the lowest and
the highest round in brackets. "CPU" is what a request costs the server's process; "busy" is how much of its core the
server used: well under 100 % with many connections, the load generator was the bottleneck, or others used the machine,
and the server could have done more."""
_PACED: Final = """\
The same objects over 16 connections, at one rate for all: half of what the slowest of them made above, at most 10,000 a
second. A request that is due while every connection waits for an answer waits as well, and its time begins when it was
due. The ratios are of the 99th percentiles: below 1, Forebay's is the shorter."""
_PIPELINED: Final = """\
The smallest objects over 16 connections, each of which sends 16 requests at once and takes their answers in order."""
_MOST: Final = 10_000.0
_CONNECTIONS: Final = 16
_TOGETHER: Final = 16
_FORMS: Final[dict[Form, str]] = {
    "if-match": "in the header, with If-Match",
    "presigned": "presigned URL",
    "oss-v4": "OSS version 4, in the header",
    "oss-v1": "OSS version 1, in the header",
    "oss-url": "OSS version 4, URL",
}


def run(bench: BenchContext) -> list[Section]:
    effort = bench.sizes
    objects = {
        str(size): Objects(size, max(2, effort.warm_objects // (4 if size >= 8 * MIB else 1)))
        for size in effort.warm_sizes
    }
    smallest = next(iter(objects))
    hits: list[tuple[str, ...]] = []
    paced: list[tuple[str, ...]] = []
    with running_origin(bench.directory, objects) as origin:
        forebay = Forebay(bench.directory / "forebay", origin.port)
        with bench.peers(forebay, origin, origin.targets(smallest)[0]) as peers:
            for prefix in objects:
                _size(bench, origin, peers, prefix, hits, paced)
            pipelined = _pipelining(bench, origin, peers, smallest)
        forms = _forms(bench, origin, forebay, smallest)
        log = _log(bench, origin, forebay, smallest)
    used = {size_text(size): bench.comparison.generator(size) for size in effort.warm_sizes}
    generators = "Load generator: " + ", ".join(f"{name} for {size}" for size, name in used.items()) + "."
    headings = ("object", "requests/s", "server", "p50", "p99", "CPU/request", *COMPARED)
    return [
        Section(TITLE, _TEXT, Table(HEADINGS, hits), generators + missing(bench)),
        Section("At the same rate", _PACED, Table(headings, paced)),
        *pipelined,
        forms,
        log,
    ]


def _size(
    bench: BenchContext,
    origin: Origin,
    peers: list[Peer],
    prefix: str,
    hits: list[tuple[str, ...]],
    paced: list[tuple[str, ...]],
) -> None:
    """The rows of one size: at full rate for each number of connections, and at half of the slowest's."""
    targets, size, expected = origin.targets(prefix), origin.objects[prefix].size, digests(origin, prefix)
    for peer in peers:
        peer.fill(targets)
    before, slowest = origin.counters().gets, _MOST
    for connections in bench.sizes.connections:
        held = bench.comparison.run_rounds(peers, targets, size, expected, connections)
        hits += [row(rounds, held, size, str(connections)) for rounds in held]
        if connections == _CONNECTIONS or len(bench.sizes.connections) == 1:
            slowest = min(_MOST, *(rounds.rate / 2 for rounds in held))
    held = bench.comparison.run_rounds(peers, targets, size, expected, _CONNECTIONS, rate=slowest)
    paced += [_paced_row(rounds, held, size) for rounds in held]
    if origin.counters().gets != before:
        raise UnexpectedResponse("the origin was asked for objects that should have been hits")


def _paced_row(rounds: Rounds, held: list[Rounds], size: int) -> tuple[str, ...]:
    told = (rounds.p50, rounds.p99, rounds.cpu_per_request)
    return (
        size_text(size),
        count_text(rounds.rate),
        rounds.peer.name,
        *map(time_text, told),
        *compared(rounds, held, p99_ratio),
    )


def _pipelining(bench: BenchContext, origin: Origin, peers: list[Peer], prefix: str) -> list[Section]:
    """Several requests at once on each connection; nothing without wrk, which alone can do that here."""
    if bench.wrk is None:
        return []
    targets, size = origin.targets(prefix), origin.objects[prefix].size
    held = bench.comparison.run_rounds(peers, targets, size, digests(origin, prefix), _CONNECTIONS, together=_TOGETHER)
    rows = [row(rounds, held, size, f"{_CONNECTIONS}, {_TOGETHER} at once") for rounds in held]
    return [Section("Pipelined requests", _PIPELINED, Table(HEADINGS, rows))]


def _forms(bench: BenchContext, origin: Origin, forebay: Forebay, prefix: str) -> Section:
    """What the other ways of signing cost against a signature in the header."""
    size = origin.objects[prefix].size
    with forebay.running(origin.targets(prefix)[0]) as header:
        peers = [header, *(forebay.peer(header.group, form=form) for form in _FORMS)]
        table, held = _turns(bench, origin, prefix, ("signature", "in the header", *_FORMS.values()), peers)
    told = [f"{name} {_times(rounds, held[0])}" for name, rounds in zip(_FORMS.values(), held[1:], strict=True)]
    return Section(
        "The forms of a signature",
        f"Forebay alone, {size_text(size)}, 16 connections, in turns. All are of S3's version 4 but where OSS is said; "
        "SDKs of S3 send If-Match with each range of a download.",
        table,
        f"Served so many times as fast as a signature in the header: {'; '.join(told)}.",
    )


def _log(bench: BenchContext, origin: Origin, forebay: Forebay, prefix: str) -> Section:
    """What the access log costs."""
    silent = Forebay(bench.directory / "silent", origin.port, access_log="off")
    first = origin.targets(prefix)[0]
    with forebay.running(first) as logging, silent.running(first) as quiet:
        table, held = _turns(bench, origin, prefix, ("access log", "to a file", "off"), [logging, quiet])
    return Section(
        "The access log",
        f"Two Forebays on one core, {size_text(origin.objects[prefix].size)}, 16 connections, in turns. It is on "
        "unless it is turned off, here as in every other figure.",
        table,
        f"Without it hits are served {_times(held[1], held[0])} times as fast.",
    )


def _turns(
    bench: BenchContext, origin: Origin, prefix: str, names: tuple[str, ...], peers: list[Peer]
) -> tuple[Table, list[Rounds]]:
    """Forebay in several ways, named as the rows are; `names` begins with the heading."""
    targets, expected = origin.targets(prefix), digests(origin, prefix)
    for peer in peers:
        peer.fill(targets)
    held = bench.comparison.run_rounds(peers, targets, origin.objects[prefix].size, expected, _CONNECTIONS)
    rows = [
        (name, count_text(rounds.rate), time_text(rounds.p99), time_text(rounds.cpu_per_request))
        for name, rounds in zip(names[1:], held, strict=True)
    ]
    return Table((names[0], "requests/s", "p99", "CPU/request"), rows), held


def _times(ours: Rounds, theirs: Rounds) -> str:
    against = ratio(ours, theirs)
    return f"{against.median:.2f} ({against.low:.2f} to {against.high:.2f})"

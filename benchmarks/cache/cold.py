"""Cold reads: what it costs, and gives, that Forebay stands between the client and the origin when it has nothing."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import NamedTuple

from benchmarks.bench_context import BenchContext
from benchmarks.errors import UnexpectedResponse
from benchmarks.load.http_client import KeepAliveConnection, TimedResponse
from benchmarks.load.parallel import read_in_parallel
from benchmarks.load.signed_requests import signed, unsigned
from benchmarks.origins.link import BANDWIDTH, ROUND_TRIP, Link
from benchmarks.origins.origin import Objects, Origin, running_origin
from benchmarks.pages.tables import Section, Table, count_text, size_text, time_text
from benchmarks.processes import cores
from benchmarks.processes.processes import module, ready_line
from benchmarks.run_sizes import MIB
from benchmarks.servers.forebay import HIT_HEADER, Forebay

PARALLEL = 16
"""Connections of the parallel client: as many as Forebay asks over for one reader (origin.parallel)."""
_RUN = 8 * MIB
"""Bytes of its ranged GETs: as Forebay's (origin.max_run)."""
_TEXT = f"""\
One reader on one warm connection, a different object each time, directly from the origin and through a Forebay that has
never seen it, in turns; medians. The origin is on loopback; or {ROUND_TRIP * 1000:g} ms away; or as far, and a
connection carries no more than {BANDWIDTH / 1e6:g} MB/s, as with a bucket in the cloud
([link.py](../benchmarks/origins/link.py) makes it so, inside the origin's process). Client, origin and Forebay share
this machine's cores, and nobody is pinned: without a bound on the bandwidth the totals of large objects say what CPU
Forebay costs, as three processes copy them at the same time. "First byte" is the first of the body.
"A relay" is an event loop of a few lines ([baseline.py](../benchmarks/bare/baseline.py)) that looks at
nothing and keeps nothing, between the same client and origin, third in the turns: what any process between them
costs."""
_LARGE_TEXT = f"""\
The same link of {ROUND_TRIP * 1000:g} ms and {BANDWIDTH / 1e6:g} MB/s a connection, and a large object that Forebay has
never seen: by one plain GET from the origin; by {PARALLEL} connections at once, each with ranged GETs of
{size_text(_RUN)}, which is what a client can get out of the link if it knows how; and by one plain GET through Forebay,
which asks over as many connections. In turns; medians, and the ratio's lowest and highest round in brackets. "CPU" is
what Forebay's process used for a byte, checksums and memory tier included."""


class _Turn(NamedTuple):
    """Bytes a second, and the time to the first byte."""

    direct: TimedResponse
    parallel: float
    forebay: TimedResponse
    cpu: float
    """Seconds of Forebay's."""


def run(bench: BenchContext) -> list[Section]:
    # One more of each, read first and not counted: connections and code paths are warm then.
    objects = {str(size): Objects(size, count + 1) for size, count in bench.sizes.cold_reads}
    large, turns = bench.sizes.cold_large
    links = (Link(ROUND_TRIP), Link(ROUND_TRIP, BANDWIDTH))
    rows: list[tuple[str, ...]] = []
    others = {"first": Objects(4096, 1), "large": Objects(large, turns)}
    with running_origin(bench.directory, {**objects, **others}, links, pinned=False) as origin:
        distances = ("loopback", f"{ROUND_TRIP * 1000:g} ms", f"{ROUND_TRIP * 1000:g} ms, {BANDWIDTH / 1e6:g} MB/s")
        for port, distance in zip((origin.port, *origin.far), distances, strict=True):
            rows += _distance(bench, origin, list(objects), port, distance)
        held = _large(bench, origin, origin.far[-1])
    headings = (
        "origin",
        "object",
        "first byte, direct",
        "Forebay",
        "difference",
        "a relay's difference",
        "total, direct",
        "Forebay",
        "ratio of totals",
    )
    return [Section("Cold reads", _TEXT, Table(headings, rows)), _large_section(large, held)]


def _distance(
    bench: BenchContext, origin: Origin, prefixes: list[str], port: int, distance: str
) -> list[tuple[str, ...]]:
    rows = []
    forebay = Forebay(bench.directory / f"forebay-{port}", port)
    log = bench.directory / "relay.log"
    with forebay.start() as child, module("benchmarks.bare.baseline", "relay", str(port), log=log) as relay:
        forebay.first_answer(child, origin.targets("first")[0])
        relayed = int(ready_line(relay))
        with (
            KeepAliveConnection(port) as straight,
            KeepAliveConnection(forebay.port) as through,
            KeepAliveConnection(relayed) as between,
        ):
            for prefix in prefixes:
                size = origin.objects[prefix].size
                ways = [
                    partial(_direct, straight, port, size),
                    partial(_direct, between, port, size),
                    partial(_cold, through, forebay.port, size),
                ]
                rows.append(_row(distance, size, *_in_turns(ways, origin.targets(prefix))))
    return rows


def _in_turns(ways: Sequence[Callable[[str], TimedResponse]], targets: Sequence[str]) -> list[list[TimedResponse]]:
    """The answers of each way, without the first."""
    answers: list[list[TimedResponse]] = [[] for _ in ways]
    for number, target in enumerate(targets):
        for turn in range(len(ways)):
            way = (number + turn) % len(ways)
            answers[way].append(ways[way](target))
    return [of_one[1:] for of_one in answers]


def _get(connection: KeepAliveConnection, request: bytes, size: int) -> TimedResponse:
    answer = connection.get(request)
    if answer.status != 200 or answer.length != size:
        raise UnexpectedResponse(f"status {answer.status}, {answer.length} bytes instead of {size}")
    return answer


def _direct(connection: KeepAliveConnection, port: int, size: int, target: str) -> TimedResponse:
    return _get(connection, unsigned(port, [target])[0], size)


def _cold(through: KeepAliveConnection, port: int, size: int, target: str) -> TimedResponse:
    answer = _get(through, signed(port, [target], time.time(), count=1)[0], size)
    if answer.headers.get(HIT_HEADER) != "miss":
        raise UnexpectedResponse(f"a cold read was a {answer.headers.get(HIT_HEADER)}")
    return answer


def _row(
    distance: str, size: int, direct: list[TimedResponse], relayed: list[TimedResponse], cold: list[TimedResponse]
) -> tuple[str, ...]:
    first = [median(answer.first_byte for answer in answers) for answers in (direct, relayed, cold)]
    total = [median(answer.total for answer in answers) for answers in (direct, cold)]
    return (
        distance,
        size_text(size),
        time_text(first[0]),
        time_text(first[2]),
        _difference(first[2] - first[0]),
        _difference(first[1] - first[0]),
        time_text(total[0]),
        time_text(total[1]),
        f"{total[1] / total[0]:.2f}",
    )


def _difference(seconds: float) -> str:
    return f"{'+' if seconds >= 0 else '-'}{time_text(abs(seconds))}"


def _large(bench: BenchContext, origin: Origin, port: int) -> list[_Turn]:
    size = origin.objects["large"].size
    turns = []
    forebay = Forebay(bench.directory / "forebay-large", port, memory="512MiB")
    with forebay.start() as child:
        forebay.first_answer(child, origin.targets("first")[0])
        with KeepAliveConnection(port) as straight, KeepAliveConnection(forebay.port) as through:
            for target in origin.targets("large"):
                direct = _direct(straight, port, size, target)
                seconds = read_in_parallel(port, target, size, PARALLEL, _RUN)
                before = cores.cpu_seconds(child.pid)
                cold = _cold(through, forebay.port, size, target)
                turns.append(_Turn(direct, size / seconds, cold, cores.cpu_seconds(child.pid) - before))
    return turns


def _large_section(size: int, turns: list[_Turn]) -> Section:
    direct = [size / turn.direct.total for turn in turns]
    parallel = [turn.parallel for turn in turns]
    forebay = [size / turn.forebay.total for turn in turns]
    rows = [
        ("direct, one GET", _rate(direct), time_text(median(turn.direct.first_byte for turn in turns)), "1", "", ""),
        (f"direct, {PARALLEL} connections", _rate(parallel), "", _ratio(parallel, direct), "1", ""),
        (
            "through Forebay, one GET",
            _rate(forebay),
            time_text(median(turn.forebay.first_byte for turn in turns)),
            f"**{_ratio(forebay, direct)}**",
            f"**{_ratio(forebay, parallel)}**",
            f"{median(turn.cpu for turn in turns) / size * 1e9:.2f} ns",
        ),
    ]
    headings = (size_text(size), "MB/s", "first byte", "ratio to one GET", "ratio to all connections", "CPU a byte")
    return Section("A large cold object", _LARGE_TEXT, Table(headings, rows))


def _rate(rates: list[float]) -> str:
    return count_text(median(rates) / 1e6)


def _ratio(ours: list[float], theirs: list[float]) -> str:
    each = sorted(mine / other for mine, other in zip(ours, theirs, strict=True))
    return f"{median(each):.2f} ({each[0]:.2f} to {each[-1]:.2f})"

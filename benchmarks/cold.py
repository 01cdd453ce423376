"""Cold reads: what it costs that Forebay stands between the client and the origin, when it has nothing yet."""

import time
from statistics import median

from benchmarks.bench import Bench
from benchmarks.forebay import HIT_HEADER, Forebay
from benchmarks.origin import Objects, Origin, far, running_origin
from benchmarks.requests import signed, unsigned
from benchmarks.tables import Section, Table, size_text, time_text
from benchmarks.wire import Answer, Connection, WrongAnswer

ROUND_TRIP = 0.020
BANDWIDTH = 80e6
"""Bytes a second that one connection to a bucket gives; many of them together give more."""
_TEXT = f"""\
One reader on one warm connection, a different object each time, directly from the origin and through a Forebay that has
never seen it, in turns; medians. The origin is on loopback; or {ROUND_TRIP * 1000:g} ms away; or as far, and a
connection carries no more than {BANDWIDTH / 1e6:g} MB/s, as with a bucket in the cloud. A relay in a process of its own
makes it so. Client, origin, relay and Forebay share this machine's cores, and nobody is pinned: without a bound on the
bandwidth the totals of large objects say what CPU Forebay costs, as three or four processes copy them at the same time.
"First byte" is the first of the body."""


def run(bench: Bench) -> list[Section]:
    # One more of each, read first and not counted: connections and code paths are warm then.
    objects = {str(size): Objects(size, count + 1) for size, count in bench.effort.cold_reads}
    rows: list[tuple[str, ...]] = []
    with running_origin(bench.directory, objects) as origin:
        rows += _distance(bench, origin, origin.port, "loopback")
        for bandwidth, said in ((None, ""), (BANDWIDTH, f", {BANDWIDTH / 1e6:g} MB/s")):
            with far(origin, ROUND_TRIP, bandwidth, bench.directory) as link:
                rows += _distance(bench, origin, link, f"{ROUND_TRIP * 1000:g} ms{said}")
    headings = (
        "origin",
        "object",
        "first byte, direct",
        "Forebay",
        "difference",
        "total, direct",
        "Forebay",
        "ratio of totals",
    )
    return [Section("Cold reads", _TEXT, Table(headings, rows))]


def _distance(bench: Bench, origin: Origin, port: int, distance: str) -> list[tuple[str, ...]]:
    rows = []
    forebay = Forebay(bench.directory / f"forebay-{port}", port)
    with forebay.start() as child:
        first = origin.targets(next(iter(origin.objects)))[0]
        forebay.first_answer(child, first)
        with Connection(port) as straight, Connection(forebay.port) as through:
            for prefix, (size, _) in origin.objects.items():
                direct, cold = _reads(origin, prefix, straight, through, port, forebay.port)
                rows.append(_row(distance, size, direct, cold))
    return rows


def _reads(
    origin: Origin, prefix: str, straight: Connection, through: Connection, port: int, forebay_port: int
) -> tuple[list[Answer], list[Answer]]:
    targets = origin.targets(prefix)
    direct: list[Answer] = []
    cold: list[Answer] = []
    for number, target in enumerate(targets):
        [asked] = signed(forebay_port, [target], time.time(), count=1)
        ways = [
            (direct, straight, unsigned(port, [target])[0]),
            (cold, through, asked),
        ]
        for answers, connection, request in ways if number % 2 else reversed(ways):
            answer = connection.get(request)
            if answer.status != 200 or answer.length != origin.objects[prefix].size:
                raise WrongAnswer(f"status {answer.status}, {answer.length} bytes for {target}")
            answers.append(answer)
    told = {answer.headers.get(HIT_HEADER) for answer in cold[1:]}
    if told != {"miss"}:
        raise WrongAnswer(f"cold reads were {told}")
    return direct[1:], cold[1:]


def _row(distance: str, size: int, direct: list[Answer], cold: list[Answer]) -> tuple[str, ...]:
    first = [median(answer.first_byte for answer in answers) for answers in (direct, cold)]
    total = [median(answer.total for answer in answers) for answers in (direct, cold)]
    difference = first[1] - first[0]
    return (
        distance,
        size_text(size),
        time_text(first[0]),
        time_text(first[1]),
        f"{'+' if difference >= 0 else '-'}{time_text(abs(difference))}",
        time_text(total[0]),
        time_text(total[1]),
        f"{total[1] / total[0]:.2f}",
    )

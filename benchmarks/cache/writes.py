"""Writes: what a PUT costs that goes through Forebay."""

import time
from hashlib import sha256
from random import Random
from statistics import median
from typing import Final, NamedTuple

from benchmarks.bench_context import BenchContext
from benchmarks.errors import UnexpectedResponse
from benchmarks.load.http_client import KeepAliveConnection
from benchmarks.load.signed_requests import TRAINER
from benchmarks.origins.link import BANDWIDTH, ROUND_TRIP, Link
from benchmarks.origins.origin import BUCKET, Objects, running_origin
from benchmarks.pages.tables import Section, Table, size_text, time_text
from benchmarks.processes import cores
from benchmarks.run_sizes import MIB
from benchmarks.servers.forebay import Forebay
from harness.clients import UNSIGNED_PAYLOAD, RawClient

_FORMS: Final = ("SHA-256", "unsigned")
_TEXT = f"""\
One client on one warm connection writes objects, directly to the origin and through Forebay, in turns; medians of the
time from the first byte of the request to the last of the answer, and the ratio's lowest and highest round in brackets.
The origin is on loopback, or {ROUND_TRIP * 1000:g} ms away over connections that carry {BANDWIDTH / 1e6:g} MB/s. With
"SHA-256" the signature covers the body, so Forebay has to hash each byte, and holds the last of them back until the
hash was right; the client hashes beforehand, which is not counted. The origin hashes what it stores (MD5, and SHA-256
if it was given), after the last byte, in either case. "CPU" is what Forebay's process used for a byte: on loopback, on
the few cores of this machine, the ratio says little else."""


class _Turn(NamedTuple):
    direct: float
    forebay: float
    cpu: float


def run(bench: BenchContext) -> list[Section]:
    link = Link(ROUND_TRIP, BANDWIDTH)
    rows: list[tuple[str, ...]] = []
    with running_origin(bench.directory, {"first": Objects(4096, 1)}, [link], pinned=False) as origin:
        for port, distance in ((origin.port, "loopback"), (origin.far[0], f"{ROUND_TRIP * 1000:g} ms, 80 MB/s")):
            forebay = Forebay(bench.directory / f"forebay-{port}", port)
            with forebay.start() as child:
                forebay.first_answer(child, origin.targets("first")[0])
                for size, count in bench.sizes.writes:
                    for form in _FORMS:
                        turns = _turns(port, forebay.port, child.pid, size, form, count)
                        rows.append(_row(distance, size, form, turns))
    headings = ("origin", "object", "body", "direct", "through Forebay", "ratio", "CPU a byte")
    return [Section("Writes", _TEXT, Table(headings, rows))]


def _turns(port: int, forebay_port: int, group: int, size: int, form: str, count: int) -> list[_Turn]:
    body = Random(size).randbytes(min(size, MIB)) * max(1, size // MIB)
    payload = sha256(body).hexdigest() if form == "SHA-256" else UNSIGNED_PAYLOAD
    turns = []
    with KeepAliveConnection(port) as straight, KeepAliveConnection(forebay_port) as through:
        for number in range(count + 1):
            target = f"/{BUCKET}/written/{number}"
            ways = {"direct": (straight, port), "forebay": (through, forebay_port)}
            seconds: dict[str, float] = {}
            before = cores.cpu_seconds(group)
            for name in ways if number % 2 else reversed(ways):
                connection, to = ways[name]
                seconds[name] = _put(connection, to, target, body, payload)
            turns.append(_Turn(seconds["direct"], seconds["forebay"], cores.cpu_seconds(group) - before))
    return turns[1:]  # the first is for connections and code paths to become warm


def _put(connection: KeepAliveConnection, port: int, target: str, body: bytes, payload: str) -> float:
    client = RawClient(f"http://127.0.0.1:{port}", TRAINER, clock=time.time)
    head = client.sign("PUT", target, payload=payload, headers=[("x-amz-meta-size", str(len(body)))])
    wire = head.wire.replace(b"Content-Length: 0\r\n", b"Content-Length: %d\r\n" % len(body))
    answer = connection.get(wire, body)
    if answer.status != 200:
        raise UnexpectedResponse(f"status {answer.status} to a PUT of {len(body)} bytes at port {port}")
    return answer.total


def _row(distance: str, size: int, form: str, turns: list[_Turn]) -> tuple[str, ...]:
    ratios = sorted(turn.forebay / turn.direct for turn in turns)
    return (
        distance,
        size_text(size),
        form,
        time_text(median(turn.direct for turn in turns)),
        time_text(median(turn.forebay for turn in turns)),
        f"**{median(ratios):.2f}** ({ratios[0]:.2f} to {ratios[-1]:.2f})",
        f"{sum(turn.cpu for turn in turns) / len(turns) / size * 1e9:.2f} ns",
    )

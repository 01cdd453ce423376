"""A stampede: many readers of one cold object at the same time. How often does the origin send it?"""

import time

from benchmarks.bench_context import BenchContext, digests
from benchmarks.errors import UnexpectedResponse
from benchmarks.load.generator import Generator
from benchmarks.load.http_client import KeepAliveConnection
from benchmarks.load.signed_requests import signed
from benchmarks.origins.origin import Objects, running_origin
from benchmarks.pages.tables import Section, Table, count_text, size_text, time_text
from benchmarks.processes import cores
from benchmarks.servers.forebay import Forebay
from benchmarks.servers.peer import Peer

_TEXT = """\
Readers on connections of their own ask at the same moment for one object that Forebay has never seen, all of it. The
origin's own count says what it had to send. Every answer is counted to its last byte; one more reader afterwards
compares them all."""


def run(bench: BenchContext) -> list[Section]:
    rows = [_row(bench, workers) for workers in (1, 2)]
    headings = (
        "workers",
        "readers",
        "object",
        "origin bytes by object bytes",
        "origin GETs",
        "until all had it",
        "median reader",
        "MB/s",
        "resident memory after",
    )
    return [Section("Stampede", _TEXT, Table(headings, rows))]


def _compare(peer: Peer, target: str, digest: str) -> None:
    """Whether one more reader gets the object, from whichever worker, wherever that has it from."""
    with KeepAliveConnection(peer.port) as connection:
        answer = connection.get(peer.requests([target])[0], digest=True)
    if answer.status != 200 or answer.sha256 != digest:
        raise UnexpectedResponse(f"status {answer.status}, {answer.length} bytes, sha256 {answer.sha256} for {target}")


def _row(bench: BenchContext, workers: int) -> tuple[str, ...]:
    readers, size = bench.sizes.readers, bench.sizes.stampede_size
    with running_origin(bench.directory, {"warm-up": Objects(4096, 1), "cold": Objects(size, 1)}) as origin:
        [target] = origin.targets("cold")
        forebay = Forebay(bench.directory / f"forebay-{workers}", origin.port, workers=workers)
        expected = digests(origin, "cold")
        with forebay.running(origin.targets("warm-up")[0]) as peer:
            before = origin.counters()
            with cores.pinned(cores.LOAD):
                requests = signed(forebay.port, [target], time.time(), count=readers)
                with Generator(forebay.port, requests, readers) as generator:
                    load = generator.once()
            after = origin.counters()
            resident = cores.resident_bytes(peer.group)
            _compare(peer, target, expected[target])
    sent = after.sent - before.sent
    return (
        str(workers),
        f"{readers:,}",
        size_text(size),
        f"**{sent / size:.3f}**",
        str(after.gets - before.gets),
        time_text(load.seconds),
        time_text(load.p50),
        count_text(load.requests * size / load.seconds / 1e6),
        f"{resident / (1 << 20):.0f} MiB",
    )

"""Small writes: how long 10 KB take to be acknowledged, beside one sync of the same disk."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

from benchmarks.bench_context import BenchContext
from benchmarks.checkpoints.write_back import BACK, THROUGH, running_write_back
from benchmarks.errors import UnexpectedResponse
from benchmarks.load.http_client import KeepAliveConnection
from benchmarks.load.load import percentile
from benchmarks.origins.link import BANDWIDTH, ROUND_TRIP, Link
from benchmarks.origins.origin import BUCKET, Objects, running_origin
from benchmarks.pages.tables import Section, Table, time_text
from benchmarks.processes.processes import module, ready_line
from harness.clients import RawClient
from harness.reference_sigv4 import Secret

SIZE: Final = 10_000
_SYNC: Final = "one fdatasync"
_THROUGH: Final = "PUT, through"
_DIRECT: Final = "PUT, direct"
_FAR: Final = (_THROUGH, _DIRECT)
"""They wait for the origin."""
Way: TypeAlias = Callable[[int], float]
_WRITER: Final = Secret("writer", "writer-secret")
_TEXT: Final = f"""\
{SIZE:,} bytes at a time, {{writes:,}} times, in turns: appended to a file on the disk on which the journal is, with one
fdatasync; by PUT over one warm connection under `write = "back"`, acknowledged by the journal; under `through`, and
straight to the origin, which is {ROUND_TRIP * 1000:g} ms away. The time is until the answer. What is not the journal's
in it: the same PUT to a server that answers as its bytes come, and to a bare loop that receives it, computes the MD5,
writes it to a file of its own and syncs that ([bare_journal.py](../benchmarks/bare/bare_journal.py)). Some
20 ms lie between two of them, so caches and cores are cold."""
_IN_A_ROW_TEXT: Final = """\
The same, but each way for itself, one write behind the other: {writes:,} of each, in {rounds} rounds. While they are
acknowledged, the drainer carries earlier ones to the origin, in the same process."""
_ROUNDS: Final = 5


def run(bench: BenchContext) -> list[Section]:
    writes = bench.sizes.small_writes
    with running_origin(
        bench.directory, {"first": Objects(4096, 1)}, [Link(ROUND_TRIP, BANDWIDTH)], pinned=False
    ) as origin:
        target = origin.targets("first")[0]
        with (
            running_write_back(bench.directory / "forebay", origin.far[0], target) as forebay,
            module("benchmarks.bare.baseline", "serve", "0", log=bench.directory / "fixed.log") as fixed,
            module("benchmarks.bare.bare_journal", str(bench.directory), log=bench.directory / "bare.log") as bare,
        ):
            before = forebay.backlog()
            ports = forebay.port, origin.far[0], int(ready_line(fixed)), int(ready_line(bare))
            with _writing(bench.directory / "synced", *ports) as ways:
                spaced = _spaced(ways, writes)
                in_a_row = _in_a_row({name: way for name, way in ways.items() if name not in _FAR}, writes)
            accepted = forebay.backlog().accepted - before.accepted
            forebay.wait_drained()
    if accepted < 2 * writes:
        raise UnexpectedResponse(f"{accepted} of {2 * writes} writes were acknowledged from the journal")
    row_text = _IN_A_ROW_TEXT.format(writes=writes, rounds=_ROUNDS)
    return [
        Section("Small writes, acknowledged", _TEXT.format(writes=writes), _table(spaced)),
        Section("Small writes in a row, acknowledged", row_text, _table(in_a_row)),
    ]


def _table(taken: dict[str, list[float]]) -> Table:
    sync = percentile(taken[_SYNC], 0.5)
    rows = [
        (
            name,
            time_text(percentile(times, 0.5)),
            time_text(percentile(times, 0.99)),
            f"**{percentile(times, 0.5) / sync:.2f}**",
        )
        for name, times in taken.items()
    ]
    return Table(("10 KB", "p50", "p99", "p50 by that of one fdatasync"), rows)


@contextmanager
def _writing(path: Path, port: int, origin: int, fixed: int, bare: int) -> Iterator[dict[str, Way]]:
    """Each way to write, by its name: a function of a number that no other write has, which returns seconds."""
    body = os.urandom(SIZE)
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    with (
        KeepAliveConnection(port) as ours,
        KeepAliveConnection(origin) as theirs,
        KeepAliveConnection(fixed) as at_once,
        KeepAliveConnection(bare) as least,
    ):
        _put(ours, port, f"{BACK}/first", body)  # it goes through, and proves that others may follow
        yield {
            _SYNC: lambda _: _synced(file, body),
            "PUT, answered at once": lambda number: _put(at_once, fixed, f"fixed/{number}", body),
            "PUT, a bare loop": lambda number: _put(least, bare, f"bare/{number}", body),
            'PUT, write = "back"': lambda number: _put(ours, port, f"{BACK}/{number}", body),
            _THROUGH: lambda number: _put(ours, port, f"{THROUGH}/{number}", body),
            _DIRECT: lambda number: _put(theirs, origin, f"written/direct/{number}", body),
        }
    os.close(file)


def _spaced(ways: dict[str, Way], writes: int) -> dict[str, list[float]]:
    """The times of each way, ascending: one of each, in turns."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(writes):
        for name, way in ways.items():
            taken[name].append(way(number))
    return {name: sorted(times) for name, times in taken.items()}


def _in_a_row(ways: dict[str, Way], writes: int) -> dict[str, list[float]]:
    """The times of each way, ascending: many of one, then many of the next."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for start in range(writes, 2 * writes, writes // _ROUNDS):
        for name, way in ways.items():
            taken[name] += [way(start + nth) for nth in range(writes // _ROUNDS)]
    return {name: sorted(times) for name, times in taken.items()}


def _synced(file: int, body: bytes) -> float:
    started = time.perf_counter()
    os.write(file, body)
    os.fdatasync(file)
    return time.perf_counter() - started


def _put(connection: KeepAliveConnection, port: int, key: str, body: bytes) -> float:
    client = RawClient(f"http://127.0.0.1:{port}", _WRITER, clock=time.time)
    head = client.sign("PUT", f"/{BUCKET}/{key}", body=body).wire
    answer = connection.get(head)
    if answer.status != 200:
        raise UnexpectedResponse(f"status {answer.status} to a PUT of {len(body)} bytes at port {port}")
    return answer.total

"""Checkpoints: how fast they are acknowledged, by local files, by the origin, through Forebay, and by its journal."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from benchmarks.bench_context import BenchContext
from benchmarks.checkpoint_writers import CheckpointWay, CheckpointWriter, running_writer
from benchmarks.cold import BANDWIDTH, ROUND_TRIP
from benchmarks.http_client import UnexpectedResponse
from benchmarks.link import Link
from benchmarks.origin import Objects, Origin, running_origin
from benchmarks.tables import Section, Table, count_text
from benchmarks.write_back import BACK, THROUGH, WriteBackForebay, running_write_back

_ATTEMPTS: Final = 3
_TEXT: Final = f"""\
Unmodified clients ([benchmarks/peers/checkpoint_writer.py](../benchmarks/peers/checkpoint_writer.py)) write a
checkpoint, and the time runs until the last byte is acknowledged: MB/s, medians of {{rounds}} turns after one that
warms up. "Files": the same bytes by the same program into files on the disk on which the journal is, with fsync.
"Direct": straight to the origin; "through": through Forebay, acknowledged by the origin; "back": under
`write = "back"`, acknowledged by the journal. Each turn begins when the backlog of the one before is at the origin,
which is on loopback, or {ROUND_TRIP * 1000:g} ms away over connections of {BANDWIDTH / 1e6:g} MB/s. Ratios are of one
turn, the lowest and the highest in brackets: above 1, the journal acknowledges faster. "CPU" is what Forebay used for a
byte until the origin had it: one over it is what a core of its own does in a second. Clients, Forebay, and an origin in
Python share this machine's cores, and boto3 hashes what it sends, which files spare it."""


class _Turn(NamedTuple):
    """Seconds, and Forebay's CPU until the origin had everything."""

    files: float
    direct: float
    through: float
    back: float
    cpu: float


def run(bench: BenchContext) -> list[Section]:
    rows, absent = [], []
    ways = [CheckpointWay(*way) for way in bench.sizes.checkpoints]
    with running_origin(
        bench.directory, {"first": Objects(4096, 1)}, [Link(ROUND_TRIP, BANDWIDTH)], pinned=False
    ) as origin:
        for way in ways:
            if missing := way.missing:
                absent.append(f"{way.title}: {missing}.")
                continue
            for port, distance in ((origin.port, "loopback"), (origin.far[0], "far")):
                rows.append(_row(way, distance, _turns(bench, way, origin, port)))
    headings = (
        *("checkpoint", "origin", "files", "direct", "through", "back"),
        *("back by files", "back by direct", "back by through", "CPU a byte"),
    )
    text = _TEXT.format(rounds=bench.sizes.checkpoint_rounds)
    return [Section("Checkpoints, acknowledged", text, Table(headings, rows), " ".join(absent))]


def _turns(bench: BenchContext, way: CheckpointWay, origin: Origin, port: int) -> list[_Turn]:
    directory = bench.directory / f"{way.way}-{way.size}-{port}"
    with ExitStack() as stack:
        target = origin.targets("first")[0]
        forebay = stack.enter_context(running_write_back(directory, port, target))
        writer = stack.enter_context(running_writer(way, bench.directory / "writer.log"))
        names = map(str, count())
        turns = [
            _turn(forebay, writer, f"http://127.0.0.1:{port}", directory / "files", names)
            for _ in range(bench.sizes.checkpoint_rounds + 1)
        ]
    shutil.rmtree(directory)
    return turns[1:]


def _turn(
    forebay: WriteBackForebay, writer: CheckpointWriter, origin: str, directory: Path, names: Iterator[str]
) -> _Turn:
    directory.mkdir()
    files = writer.store(directory)
    shutil.rmtree(directory)
    direct = writer.upload(origin, f"written/direct/{next(names)}")
    through = writer.upload(forebay.endpoint, f"{THROUGH}/{next(names)}")
    for _ in range(_ATTEMPTS):
        before, cpu = forebay.backlog(), forebay.cpu_seconds
        back = writer.upload(forebay.endpoint, f"{BACK}/{next(names)}")
        after = forebay.backlog()
        forebay.wait_drained()
        if after.through == before.through and after.accepted > before.accepted:
            return _Turn(files, direct, through, back, forebay.cpu_seconds - cpu)
        # The first write of a kind, and after a while again, goes through: it proves that the origin accepts it.
    raise UnexpectedResponse(f"{_ATTEMPTS} checkpoints were not acknowledged from the journal alone")


def _row(way: CheckpointWay, distance: str, turns: list[_Turn]) -> tuple[str, ...]:
    times = {name: [getattr(turn, name) for turn in turns] for name in ("files", "direct", "through", "back")}
    return (
        way.title,
        distance,
        *(count_text(way.size / median(seconds) / 1e6) for seconds in times.values()),
        *(_ratio(times[name], times["back"]) for name in ("files", "direct", "through")),
        f"{median(turn.cpu for turn in turns) / way.size * 1e9:.2f} ns",
    )


def _ratio(theirs: list[float], ours: list[float]) -> str:
    each = sorted(other / mine for other, mine in zip(theirs, ours, strict=True))
    return f"**{median(each):.2f}** ({each[0]:.2f} to {each[-1]:.2f})"

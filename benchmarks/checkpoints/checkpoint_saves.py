"""Checkpoints: how fast they are acknowledged, by local files, by the origin, through Forebay, and by its journal."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from benchmarks.bench_context import BenchContext
from benchmarks.checkpoints.checkpoint_writers import CheckpointWay, CheckpointWriter, running_writer
from benchmarks.checkpoints.write_back import BACK, THROUGH, WriteBackForebay, running_write_back
from benchmarks.errors import UnexpectedResponse
from benchmarks.origins.link import BANDWIDTH, ROUND_TRIP, Link
from benchmarks.origins.origin import Objects, Origin, running_origin
from benchmarks.pages.tables import Section, Table, count_text
from benchmarks.processes.processes import module, ready_line

_ATTEMPTS: Final = 3
ABSENT: Final = "–"  # a dash, where there is no figure
_TEXT: Final = f"""\
Unmodified clients ([checkpoint_writer.py](../benchmarks/client_scripts/checkpoint_writer.py)) write a
checkpoint, and the time runs until the last byte is acknowledged: MB/s, medians of {{rounds}} turns after one that
warms up. "Files": the same bytes by the same program into files on the disk on which the journal is, with fsync.
"Direct": straight to the origin; "through": through Forebay, acknowledged by the origin; "back": under
`write = "back"`, acknowledged by the journal. Each turn begins when the backlog of the one before is at the origin,
which is on loopback, or {ROUND_TRIP * 1000:g} ms away over connections of {BANDWIDTH / 1e6:g} MB/s. Ratios are of one
turn, the lowest and the highest in brackets: above 1, the journal acknowledges faster. "Bare" is one event loop that
receives, computes the MD5, writes and syncs, and does nothing else
([bare_journal.py](../benchmarks/bare/bare_journal.py)): what the same client takes at the least against one core
of Python. "CPU" is what all threads of Forebay used for a byte, until the acknowledgement, and from then until the
origin had it: one over it is what a core of its own does in a second. Parts and objects that were acknowledged before
the last byte are on their way to the origin already, and count as acknowledging. "Client" is what all threads and
processes of the client used for a byte under `back`, and for files. Clients, Forebay, and an origin in Python share
this machine's cores, and boto3 hashes what it sends, which files spare it."""


class _Turn(NamedTuple):
    """Seconds; of Forebay's CPU those until the acknowledgement, and those from then until the origin had all; of the
    client's those for `back`, and for files."""

    files: float
    bare: float
    direct: float | None
    """None: the origin does not speak the client's dialect."""
    through: float
    back: float
    accepting: float
    draining: float
    client: float
    client_files: float


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
        *("checkpoint", "origin", "files", "bare", "direct", "through", "back"),
        *("back by files", "back by bare", "back by direct", "back by through", "CPU a byte", "draining"),
        *("client", "client, files"),
    )
    text = _TEXT.format(rounds=bench.sizes.checkpoint_rounds)
    return [Section("Checkpoints, acknowledged", text, Table(headings, rows), " ".join(absent))]


def _turns(bench: BenchContext, way: CheckpointWay, origin: Origin, port: int) -> list[_Turn]:
    directory = bench.directory / f"{way.way}-{way.size}-{port}"
    with ExitStack() as stack:
        target = origin.targets("first")[0]
        forebay = stack.enter_context(running_write_back(directory, port, target))
        writer = stack.enter_context(running_writer(way, bench.directory / "writer.log"))
        bare = stack.enter_context(_running_bare(bench.directory))
        names = map(str, count())
        turns = [
            _turn(forebay, writer, bare, port if way.reaches_origin else None, directory / "files", names)
            for _ in range(bench.sizes.checkpoint_rounds + 1)
        ]
    shutil.rmtree(directory)
    return turns[1:]


@contextmanager
def _running_bare(directory: Path) -> Iterator[int]:
    """The port of a bare loop."""
    with tempfile.TemporaryDirectory(dir=directory) as bodies:
        child = module("benchmarks.bare.bare_journal", bodies, log=directory / "bare.log")
        with child:
            yield int(ready_line(child))


def _turn(
    forebay: WriteBackForebay,
    writer: CheckpointWriter,
    bare_port: int,
    origin_port: int | None,
    directory: Path,
    names: Iterator[str],
) -> _Turn:
    directory.mkdir()
    files = writer.store(directory)
    shutil.rmtree(directory)
    bare = writer.upload(bare_port, f"written/bare/{next(names)}").seconds
    direct = writer.upload(origin_port, f"written/direct/{next(names)}").seconds if origin_port is not None else None
    through = writer.upload(forebay.port, f"{THROUGH}/{next(names)}").seconds
    for _ in range(_ATTEMPTS):
        before, cpu = forebay.backlog(), forebay.cpu_seconds
        back = writer.upload(forebay.port, f"{BACK}/{next(names)}")
        acknowledged = forebay.cpu_seconds
        after = forebay.backlog()
        forebay.wait_drained()
        if after.through == before.through and after.accepted > before.accepted:
            accepting, draining = acknowledged - cpu, forebay.cpu_seconds - acknowledged
            return _Turn(files.seconds, bare, direct, through, back.seconds, accepting, draining, back.cpu, files.cpu)
        # The first write of a kind, and after a while again, goes through: it proves that the origin accepts it.
    raise UnexpectedResponse(f"{_ATTEMPTS} checkpoints were not acknowledged from the journal alone")


def _row(way: CheckpointWay, distance: str, turns: list[_Turn]) -> tuple[str, ...]:
    def times(name: str) -> list[float]:
        return [seconds for turn in turns if (seconds := getattr(turn, name)) is not None]

    def speed(name: str) -> str:
        return count_text(way.size / median(taken) / 1e6) if (taken := times(name)) else ABSENT

    def ratio(name: str) -> str:
        each = sorted(other / mine for other, mine in zip(times(name), times("back"), strict=False))
        return f"**{median(each):.2f}** ({each[0]:.2f} to {each[-1]:.2f})" if each else ABSENT

    return (
        way.title,
        distance,
        *map(speed, ("files", "bare", "direct", "through", "back")),
        *map(ratio, ("files", "bare", "direct", "through")),
        *(
            f"{median(times(name)) / way.size * 1e9:.2f} ns"
            for name in ("accepting", "draining", "client", "client_files")
        ),
    )

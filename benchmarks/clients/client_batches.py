"""Clients: what small and large objects cost one process, in batches and one by one."""

import random
import sys
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from benchmarks import ROOT
from benchmarks.bench_context import BenchContext, digests
from benchmarks.origins.link import BANDWIDTH, ROUND_TRIP, Link
from benchmarks.origins.origin import BUCKET, Objects, Origin, running_origin
from benchmarks.pages.tables import Section, Table, size_text, time_text
from benchmarks.processes import cores
from benchmarks.processes.client_scripts import TORCH_PYTHON, script_output
from benchmarks.run_sizes import KIB, MIB
from benchmarks.servers.forebay import Forebay

PATIENCE: Final = 300.0


class ReaderTurn(NamedTuple):
    rate: float
    cpu: float
    """Of the client, seconds a read."""
    server: float
    """Of Forebay, seconds a read."""


_SMALL: Final = 10 * KIB
_BATCH: Final = 128
_BATCHES: Final = "batch_readers.py"
_BATCH_TEXT: Final = f"""\
{{count:,}} objects of {size_text(_SMALL)} that nobody has read, then once more: one worker, one call after another
([batch_readers.py](../benchmarks/client_scripts/batch_readers.py)); `get_many` with {_BATCH} keys a call. The
origin is {ROUND_TRIP * 1000:g} ms away, over connections of {BANDWIDTH / 1e6:g} MB/s. Bytes are compared, outside of
what is timed."""


class _BatchWay(NamedTuple):
    name: str
    way: str
    """Of the script's."""
    is_local: bool
    """Whether through shared memory."""


_WAYS: Final = (
    _BatchWay("boto3, a GET each", "boto3", False),
    _BatchWay("forebay_client over HTTP, a GET each", "get", False),
    _BatchWay("forebay_client over HTTP, `get_many`", "get_many", False),
    _BatchWay("forebay_client, shared memory, `get_many`", "get_many", True),
)


def run_batches(bench: BenchContext, python: Path = TORCH_PYTHON, count: int | None = None) -> list[Section]:
    """Small objects by one worker, cold and warm, one GET each and in batches."""
    number = count or (256 if bench.sizes.rounds == 1 else 1024)
    objects = {f"batch-{position}": Objects(_SMALL, number) for position in range(len(_WAYS))}
    objects["first"] = Objects(_SMALL, 1)
    far = [Link(ROUND_TRIP, BANDWIDTH)]
    rows = []
    with running_origin(bench.directory, objects, far, pinned=False) as origin:
        forebay = bench.forebay_with_socket(origin.far[0])
        with forebay.running(origin.targets("first")[0]):
            seconds = [
                _batch_seconds(bench, origin, python, forebay, way, f"batch-{position}", number)
                for position, way in enumerate(_WAYS)
            ]
    (cold, warm), *_ = seconds
    for way, (first, again) in zip(_WAYS, seconds, strict=True):
        ratios = f"**{cold / first:.1f}**", f"**{warm / again:.1f}**"
        rows.append((way.name, time_text(first), time_text(again), *ratios))
    headings = ("way", "cold", "warm", "times as fast, cold", "times as fast, warm")
    text = _BATCH_TEXT.format(count=number)
    return [Section(f"{number:,} objects of {size_text(_SMALL)}, one worker", text, Table(headings, rows))]


def _batch_seconds(
    bench: BenchContext, origin: Origin, python: Path, forebay: Forebay, way: _BatchWay, prefix: str, number: int
) -> list[float]:
    asked = {
        "way": way.way,
        "endpoint": f"http://127.0.0.1:{forebay.port}",
        "socket": str(bench.socket) if way.is_local else "",
        "bucket": BUCKET,
        "prefix": prefix,
        "first": origin.targets("first")[0].removeprefix(f"/{BUCKET}/"),
        "count": number,
        "batch": _BATCH,
        "digests": list(digests(origin, prefix).values()),
        "paths": [str(ROOT / "client"), str(ROOT / "proxy")],
    }
    seconds: list[float] = script_output(_BATCHES, asked, PATIENCE, python=python)
    return seconds


_LOOSE: Final = 20 * KIB
_LOOSE_BATCH: Final = 256
_LOOSE_READER: Final = "small_readers.py"
_LARGE: Final = MIB
_LARGE_BATCH: Final = 64
_LOOSE_TEXT: Final = """\
{count:,} objects of {size} from Forebay's memory, and the same as files of a local file system (in the
page cache), read by one process in a new order each time, {batch} at a time
([small_readers.py](../benchmarks/client_scripts/small_readers.py)). Each object is compared byte by byte,
within what is timed. All take turns, in drawn order; medians of {rounds} turns. The server's CPU is all that it used
meanwhile."""
_LOOSE_WAYS: Final = {
    "files": "local files: open, read, close",
    "get, http": "forebay_client over HTTP, a GET each",
    "get, socket": "forebay_client, shared memory, a GET each",
    "get_many, http": "forebay_client over HTTP, `get_many`",
    "get_many, socket": "forebay_client, shared memory, `get_many`",
}


def run_loose(bench: BenchContext, python: Path = Path(sys.executable), count: int | None = None) -> list[Section]:
    """Small objects by one process, in batches and one by one, beside local files read by the same loop."""
    number = count or (256 if bench.sizes.rounds == 1 else 1024)
    return [_beside_files(bench, python, _LOOSE, number, _LOOSE_BATCH)]


def run_large(bench: BenchContext, python: Path = Path(sys.executable), count: int | None = None) -> list[Section]:
    """Large objects, likewise."""
    return [_beside_files(bench, python, _LARGE, count or 2 * _LARGE_BATCH, _LARGE_BATCH)]


def _beside_files(bench: BenchContext, python: Path, size: int, number: int, batch: int) -> Section:
    directory = bench.directory / f"loose-{size}"
    with running_origin(bench.directory, {"loose": Objects(size, number)}, pinned=False) as origin:
        targets = origin.targets("loose")
        forebay = bench.forebay_with_socket(origin.port)
        turns: dict[str, list[ReaderTurn]] = {way: [] for way in _LOOSE_WAYS}
        with forebay.running(targets[0]) as peer:
            for _ in range(bench.sizes.rounds):
                for way in random.sample(tuple(turns), len(turns)):
                    name, _, lane = way.partition(", ")
                    before = cores.cpu_seconds(peer.group)
                    asked = {
                        "way": name,
                        "directory": str(directory),
                        "endpoint": f"http://127.0.0.1:{forebay.port}",
                        "socket": str(bench.socket) if lane == "socket" else "",
                        "bucket": BUCKET,
                        "prefix": "loose",
                        "count": number,
                        "batch": batch,
                        "seconds": bench.sizes.round_seconds,
                        "digests": list(digests(origin, "loose").values()),
                        "paths": [str(ROOT / "client"), str(ROOT / "proxy")],
                    }
                    read = script_output(_LOOSE_READER, asked, PATIENCE, python=python)
                    server = (cores.cpu_seconds(peer.group) - before) / read["objects"]
                    turns[way].append(ReaderTurn(1 / read["seconds"], read["cpu"], server))
    medians = {way: ReaderTurn(*(median(column) for column in zip(*each, strict=True))) for way, each in turns.items()}
    files, hit = medians["files"], medians["get, http"]
    rows = [
        (
            name,
            time_text(1 / medians[way].rate),
            time_text(medians[way].cpu),
            f"{files.rate / medians[way].rate:.2f}",
            "" if way == "files" else time_text(medians[way].server),
            "" if way == "files" else f"{medians[way].server / hit.server:.2f}",
        )
        for way, name in _LOOSE_WAYS.items()
    ]
    headings = ("way", "time an object", "CPU an object", "files' time by it", "server's CPU", "of its HTTP hit's")
    text = _LOOSE_TEXT.format(count=number, size=size_text(size), batch=batch, rounds=bench.sizes.rounds)
    return Section(f"{number:,} objects of {size_text(size)}, beside local files", text, Table(headings, rows))

"""Clients: what a read of a cached object costs in Python, by client library and transport."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from benchmarks import ROOT, cores
from benchmarks.bench_context import BenchContext, digests
from benchmarks.cold import BANDWIDTH, ROUND_TRIP
from benchmarks.forebay import Forebay, socket_template
from benchmarks.http_client import UnexpectedResponse
from benchmarks.link import Link
from benchmarks.origin import BUCKET, Objects, Origin, running_origin
from benchmarks.part_pages import Part
from benchmarks.processes import script_output
from benchmarks.run_sizes import KIB, MIB, TENSOR
from benchmarks.tables import Section, Table, count_text, size_text, time_text

PYTHON: Final = ROOT / ".clients" / "torch" / "bin" / "python"
SIZES: Final = (4 * KIB, 128 * KIB, TENSOR, 8 * MIB)
PROCESSES: Final = (1, 4)
PEERS: Final = ("boto3", "s3torchconnector", "aiohttp", "obstore")
OURS: Final = ("forebay", "forebay, get_into", "forebay, socket", "forebay, files")
_NAMES: Final = {
    "forebay": "forebay_client over HTTP",
    "forebay, get_into": "forebay_client over HTTP, `get_into`",
    "forebay, socket": "forebay_client, shared memory",
    "forebay, files": "forebay_client, shared memory, a key for everything",
}
_OBJECTS: Final = 32
"""Of each size: the reads are hits from memory. So many fill the memory files that descriptors are passed of."""
_READER: Final = Path(__file__).with_name("peers") / "object_readers.py"
_PATIENCE: Final = 300.0
_TEXT: Final = """\
Objects of {size} from Forebay's memory, read whole, one after another, by {processes}
([benchmarks/peers/object_readers.py](../benchmarks/peers/object_readers.py)), each with a client of its own. All take
turns; medians of {rounds} turns. Every client has read every object once before, and compared its SHA-256. The clients
sign each request; aiohttp, which can't, is handed URLs that were signed before. Clients and server share this machine's
cores, so that CPU for a read says more than the rate; the server's is all that Forebay used meanwhile."""


class _Turn(NamedTuple):
    rate: float
    cpu: float
    """Of the client, seconds a read."""
    server: float
    """Of Forebay, seconds a read."""


def run_reads(
    bench: BenchContext,
    python: Path = PYTHON,
    sizes: Sequence[int] = SIZES,
    numbers: Sequence[int] = PROCESSES,
) -> list[Section]:
    """Reads of hits: a section for each size and number of processes, with the clients that `python` has."""
    if not python.exists():
        raise UnexpectedResponse(f"{python} is not there: make clients-torch")
    objects = {str(size): Objects(size, _OBJECTS) for size in sizes}
    with running_origin(bench.directory, objects, pinned=False) as origin:
        forebay = _with_socket(bench, origin.port)
        with forebay.running(origin.targets(str(sizes[0]))[0]) as peer:
            return [
                _section(bench, origin, python, forebay, peer.group, size, processes)
                for size in sizes
                for processes in numbers
            ]


def _section(
    bench: BenchContext, origin: Origin, python: Path, forebay: Forebay, group: int, size: int, processes: int
) -> Section:
    asked = {
        "endpoint": f"http://127.0.0.1:{forebay.port}",
        "socket": str(_socket(bench)),
        "bucket": BUCKET,
        "prefix": str(size),
        "count": _OBJECTS,
        "size": size,
        "seconds": bench.sizes.round_seconds,
        "processes": processes,
        "digests": list(digests(origin, str(size)).values()),
        "paths": [str(ROOT / "client"), str(ROOT / "proxy"), *filter(None, _further_paths())],
    }
    turns: dict[str, list[_Turn]] = {}
    absent: list[str] = []
    for _ in range(bench.sizes.rounds):
        for client in (*PEERS, *OURS):
            if client in absent:
                continue
            before = cores.cpu_seconds(group)
            found: dict[str, Any] | None = script_output(_READER, {**asked, "client": client}, _PATIENCE, python=python)
            if found is None:
                absent.append(client)
                continue
            count = found["objects"]
            # The reads before the first that is counted are Forebay's work, too.
            server = (cores.cpu_seconds(group) - before) / (count + 2 * processes * _OBJECTS)
            turns.setdefault(client, []).append(_Turn(found["rate"], found["cpu"] / count, server))
    return _written(turns, absent, size, processes, bench.sizes.rounds)


def _written(turns: dict[str, list[_Turn]], absent: Sequence[str], size: int, processes: int, rounds: int) -> Section:
    medians = {client: _Turn(*(median(column) for column in zip(*each, strict=True))) for client, each in turns.items()}
    best = min((medians[client].cpu for client in PEERS if client in medians), default=None)
    boto3 = medians["boto3"].cpu if "boto3" in medians else None
    rows = [
        (
            _NAMES.get(client, client),
            f"{count_text(each.rate)}/s",
            time_text(each.cpu),
            f"{boto3 / each.cpu:.1f}" if boto3 else "",
            f"{best / each.cpu:.1f}" if best else "",
            time_text(each.server),
        )
        for client, each in medians.items()
    ]
    headings = ("client", "reads", "CPU a read", "boto3's by it", "the best other's by it", "server's CPU a read")
    who = "one process" if processes == 1 else f"{processes} processes"
    text = _TEXT.format(size=size_text(size), processes=who, rounds=rounds)
    remark = f"Not installed, so not measured: {', '.join(absent)}." if absent else ""
    return Section(f"{size_text(size)}, {who}", text, Table(headings, rows), remark)


def _further_paths() -> list[str]:
    """Where clients stand that are not in the environment of PyTorch's: FOREBAY_BENCH_PATHS."""
    return os.environ.get("FOREBAY_BENCH_PATHS", "").split(os.pathsep)


_SMALL: Final = 10 * KIB
_BATCH: Final = 128
_BATCHES: Final = Path(__file__).with_name("peers") / "batch_readers.py"
_BATCH_TEXT: Final = f"""\
{{count:,}} objects of {size_text(_SMALL)} that nobody has read, then once more: one worker, one call after another
([benchmarks/peers/batch_readers.py](../benchmarks/peers/batch_readers.py)); `get_many` with {_BATCH} keys a call. The
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


def run_batches(bench: BenchContext, python: Path = PYTHON, count: int | None = None) -> list[Section]:
    """Small objects by one worker, cold and warm, one GET each and in batches."""
    number = count or (256 if bench.sizes.rounds == 1 else 1024)
    objects = {f"batch-{position}": Objects(_SMALL, number) for position in range(len(_WAYS))}
    objects["first"] = Objects(_SMALL, 1)
    far = [Link(ROUND_TRIP, BANDWIDTH)]
    rows = []
    with running_origin(bench.directory, objects, far, pinned=False) as origin:
        forebay = _with_socket(bench, origin.far[0])
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
        "socket": str(_socket(bench)) if way.is_local else "",
        "bucket": BUCKET,
        "prefix": prefix,
        "first": origin.targets("first")[0].removeprefix(f"/{BUCKET}/"),
        "count": number,
        "batch": _BATCH,
        "digests": list(digests(origin, prefix).values()),
        "paths": [str(ROOT / "client"), str(ROOT / "proxy")],
    }
    seconds: list[float] = script_output(_BATCHES, asked, _PATIENCE, python=python)
    return seconds


_LOOSE: Final = 20 * KIB
_LOOSE_BATCH: Final = 256
_LOOSE_READER: Final = Path(__file__).with_name("peers") / "small_readers.py"
_LOOSE_TEXT: Final = f"""\
{{count:,}} objects of {size_text(_LOOSE)} from Forebay's memory, and the same as files of a local file system (in the
page cache), read by one process in a new order each time, {_LOOSE_BATCH} at a time
([benchmarks/peers/small_readers.py](../benchmarks/peers/small_readers.py)). Each object is compared byte by byte,
within what is timed. All take turns; medians of {{rounds}} turns. The server's CPU is all that it used meanwhile."""
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
    directory = bench.directory / "loose"
    with running_origin(bench.directory, {"loose": Objects(_LOOSE, number)}, pinned=False) as origin:
        targets = origin.targets("loose")
        forebay = _with_socket(bench, origin.port)
        turns: dict[str, list[_Turn]] = {way: [] for way in _LOOSE_WAYS}
        with forebay.running(targets[0]) as peer:
            for _ in range(bench.sizes.rounds):
                for way, found in turns.items():
                    name, _, lane = way.partition(", ")
                    before = cores.cpu_seconds(peer.group)
                    asked = {
                        "way": name,
                        "directory": str(directory),
                        "endpoint": f"http://127.0.0.1:{forebay.port}",
                        "socket": str(_socket(bench)) if lane == "socket" else "",
                        "bucket": BUCKET,
                        "prefix": "loose",
                        "count": number,
                        "batch": _LOOSE_BATCH,
                        "seconds": bench.sizes.round_seconds,
                        "digests": list(digests(origin, "loose").values()),
                        "paths": [str(ROOT / "client"), str(ROOT / "proxy")],
                    }
                    read = script_output(_LOOSE_READER, asked, _PATIENCE, python=python)
                    server = (cores.cpu_seconds(peer.group) - before) / read["objects"]
                    found.append(_Turn(1 / read["seconds"], read["cpu"], server))
    medians = {way: _Turn(*(median(column) for column in zip(*each, strict=True))) for way, each in turns.items()}
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
    text = _LOOSE_TEXT.format(count=number, rounds=bench.sizes.rounds)
    return [Section(f"{number:,} objects of {size_text(_LOOSE)}, beside local files", text, Table(headings, rows))]


def _with_socket(bench: BenchContext, origin_port: int) -> Forebay:
    template = socket_template(bench.directory)
    return Forebay(bench.directory / "forebay", origin_port, memory="2GiB", template=template)


def _socket(bench: BenchContext) -> Path:
    return bench.directory / "forebay.sock"


PARTS: Final[Mapping[str, Part]] = {"reads": run_reads, "batches": run_batches, "loose": run_loose}

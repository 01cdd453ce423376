"""Clients: what a read of a cached object costs in Python, by client library and transport."""

import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks import ROOT
from benchmarks.bench_context import BenchContext, digests
from benchmarks.clients.client_batches import (
    PATIENCE,
    ReaderTurn,
)
from benchmarks.origins.origin import BUCKET, Objects, Origin, running_origin
from benchmarks.pages.tables import Section, Table, count_text, size_text, time_text
from benchmarks.processes import cores
from benchmarks.processes.client_scripts import TORCH_PYTHON, require, script_output
from benchmarks.run_sizes import KIB, MIB, TENSOR
from benchmarks.servers.forebay import Forebay

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
_READER: Final = "object_readers.py"
_TEXT: Final = """\
Objects of {size} from Forebay's memory, read whole, one after another, by {processes}
([object_readers.py](../benchmarks/client_scripts/object_readers.py)), each with a client of its own. All take
turns, in drawn order; medians of {rounds} turns. Every client has read every object once before, and compared its
SHA-256. The clients sign each request; aiohttp, which can't, is handed URLs that were signed before. Clients and server
share this machine's cores, so that CPU for a read says more than the rate; the server's is all that Forebay used
meanwhile."""


def run_reads(
    bench: BenchContext,
    python: Path = TORCH_PYTHON,
    sizes: Sequence[int] = SIZES,
    numbers: Sequence[int] = PROCESSES,
) -> list[Section]:
    """Reads of hits: a section for each size and number of processes, with the clients that `python` has."""
    require(python)
    objects = {str(size): Objects(size, _OBJECTS) for size in sizes}
    with running_origin(bench.directory, objects, pinned=False) as origin:
        forebay = bench.forebay_with_socket(origin.port)
        with forebay.running(origin.targets(str(sizes[0]))[0]) as peer:
            return [
                _section(bench, origin, python, forebay, peer.group, size, processes)
                for size in sizes
                for processes in numbers
            ]


def _turns(
    bench: BenchContext,
    origin: Origin,
    python: Path,
    forebay: Forebay,
    group: int,
    size: int,
    processes: int,
    clients: Sequence[str],
    rounds: int,
) -> tuple[dict[str, list[ReaderTurn]], list[str]]:
    """The turns of each client, and the clients that are not installed."""
    asked = {
        "endpoint": f"http://127.0.0.1:{forebay.port}",
        "socket": str(bench.socket),
        "bucket": BUCKET,
        "prefix": str(size),
        "count": _OBJECTS,
        "size": size,
        "seconds": bench.sizes.round_seconds,
        "processes": processes,
        "digests": list(digests(origin, str(size)).values()),
        "paths": [str(ROOT / "client"), str(ROOT / "proxy"), *filter(None, _further_paths())],
    }
    turns: dict[str, list[ReaderTurn]] = {}
    absent: list[str] = []
    for _ in range(rounds):
        for client in random.sample(clients, len(clients)):
            if client in absent:
                continue
            before = cores.cpu_seconds(group)
            found: dict[str, Any] | None = script_output(_READER, {**asked, "client": client}, PATIENCE, python=python)
            if found is None:
                absent.append(client)
                continue
            count = found["objects"]
            # The reads before the first that is counted are Forebay's work, too.
            server = (cores.cpu_seconds(group) - before) / (count + 2 * processes * _OBJECTS)
            turns.setdefault(client, []).append(ReaderTurn(found["rate"], found["cpu"] / count, server))
    return {client: turns[client] for client in clients if client in turns}, sorted(absent)


def _section(
    bench: BenchContext, origin: Origin, python: Path, forebay: Forebay, group: int, size: int, processes: int
) -> Section:
    rounds = bench.sizes.rounds
    turns, absent = _turns(bench, origin, python, forebay, group, size, processes, (*PEERS, *OURS), rounds)
    medians = {
        client: ReaderTurn(*(median(column) for column in zip(*each, strict=True))) for client, each in turns.items()
    }
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


_SHARE_SIZES: Final = (128 * KIB, TENSOR, 8 * MIB)
_SHARES_TEXT: Final = """\
CPU of the server for a read from its memory, of one process that reads whole objects one after another, by the client
library over HTTP and through shared memory. Turns in drawn order, {rounds} of each: medians, and the least and the
most. The goal is a third of what HTTP takes."""


def run_shares(
    bench: BenchContext, python: Path = Path(sys.executable), sizes: Sequence[int] = _SHARE_SIZES
) -> list[Section]:
    """What a read through shared memory costs the server, of what it costs over HTTP."""
    over_http, *local = (client for client in OURS if client != "forebay, get_into")
    rounds, rows = 2 * bench.sizes.rounds, []
    with running_origin(
        bench.directory, {str(size): Objects(size, _OBJECTS) for size in sizes}, pinned=False
    ) as origin:
        forebay = bench.forebay_with_socket(origin.port)
        with forebay.running(origin.targets(str(sizes[0]))[0]) as peer:
            for size in sizes:
                clients = over_http, *local
                _turns(
                    bench, origin, python, forebay, peer.group, size, 1, clients, 1
                )  # from the origin to memory files
                turns, _ = _turns(bench, origin, python, forebay, peer.group, size, 1, clients, rounds)
                costs = {client: sorted(turn.server for turn in each) for client, each in turns.items()}
                for client in local:
                    mine, http = costs[client], median(costs[over_http])
                    row = size_text(size), _NAMES[client], time_text(http), time_text(median(mine))
                    low, high = mine[0] / http, mine[-1] / http
                    rows.append((*row, f"**{median(mine) / http:.2f}**", f"{low:.2f} to {high:.2f}"))
    headings = ("object", "client", "over HTTP", "through shared memory", "of it", "turns")
    return [Section("The server's CPU for a read", _SHARES_TEXT.format(rounds=rounds), Table(headings, rows))]


def _further_paths() -> list[str]:
    """Where clients stand that are not in the environment of PyTorch's: FOREBAY_BENCH_PATHS."""
    return os.environ.get("FOREBAY_BENCH_PATHS", "").split(os.pathsep)

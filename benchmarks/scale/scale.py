"""The scale of the cache: filling it, and what a million blocks cost beside a thousand."""

import json
import os
import shutil
import time
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.bench_context import BenchContext
from benchmarks.errors import UnexpectedResponse
from benchmarks.load.http_client import KeepAliveConnection
from benchmarks.load.parallel import read_all
from benchmarks.load.signed_requests import signed
from benchmarks.origins.origin import BUCKET, Objects, Origin, running_origin
from benchmarks.pages.tables import Section, Table, count_text, size_text, time_text
from benchmarks.processes import cores
from benchmarks.processes.processes import module
from benchmarks.run_sizes import KIB, MIB
from benchmarks.servers.forebay import HIT_HEADER, Forebay
from benchmarks.servers.ssd_fill import target

_CAPACITY: Final = 24 << 30
_FEW: Final = 1000
_EACH: Final = 64
"""Blocks of a large object."""
_PATIENCE: Final = 1800.0
_CONNECTIONS: Final = 16
_TURNS: Final = 3
_FILLING_TEXT = f"""\
Objects of one block each. "Straight": handed to the SSD tier of a process that does nothing else, head and block, until
all of them are committed. "Misses": {_CONNECTIONS} connections read objects through Forebay that it has never seen,
from an origin on loopback. "Plain file": the same bytes appended to a file in the same directory, 8 MiB at a time, and
nothing else. None of the three waits for the disk itself (fsync): the tier's promise is that of the page cache, too.
"CPU" is that of all threads of the process; "busy" by how much of one core it was at work: near 100 %, the CPU limits;
well below, the disk, or others who use this machine."""
_LOOKUPS_TEXT = f"""\
An SSD tier with a thousand and with a million blocks of 4 KiB, each an object of its own, in turns, medians. "First
answer" is counted from the start of Forebay's process, Python's own start and its imports included, to the last byte
of a hit. "Head" and "block" are the CPU time in which the tier, without a server, finds and checks the head of an
object drawn evenly, and finds, reads and checks its block (page cache warm). "Hit" is the CPU of a whole request,
signature verified, each for another object, over one connection, without a memory tier. Memory is what these look-ups
added, for each block of the tier: the process's own, and pages of the index that it mapped, of the rows of blocks,
heads and names alike. Those are page cache, which all workers share and the kernel takes back when it needs it. The
last row is of as many blocks in objects of {_EACH}: an object has one head and one name, however many its blocks."""


def run(bench: BenchContext) -> list[Section]:
    count = bench.sizes.scale_blocks
    misses, large = bench.sizes.scale_misses
    objects = {"small": Objects(4 * KIB, misses), "large": Objects(MIB, large), "first": Objects(KIB, 1)}
    with running_origin(bench.directory, objects) as origin:
        few = Forebay(bench.directory / "few", origin.port, memory="0", ssd="24GiB")
        many = Forebay(bench.directory / "many", origin.port, memory="0", ssd="24GiB")
        _fill(bench, few, origin, _FEW, 4 * KIB)
        rows = [
            _filled(4 * KIB, "straight", count, _fill(bench, many, origin, count, 4 * KIB)),
            _filled(4 * KIB, "misses", misses, _missed(bench, origin, "small")),
            _plain(bench.directory, 4 * KIB, count),
        ]
        blocks = Forebay(bench.directory / "blocks", origin.port, ssd="24GiB")
        rows.append(_filled(MIB, "straight", 4 * large, _fill(bench, blocks, origin, 4 * large, MIB)))
        shutil.rmtree(blocks.directory)
        rows += [
            _filled(MIB, "misses", large, _missed(bench, origin, "large")),
            _plain(bench.directory, MIB, 4 * large),
        ]
        large_ones = Forebay(bench.directory / "large-ones", origin.port, memory="0", ssd="24GiB")
        _fill(bench, large_ones, origin, count, 4 * KIB, _EACH)
        lookups = _lookups(bench, origin, {_FEW: few, count: many}, large_ones)
    headings = ("block", "how", "blocks", "blocks/s", "MB/s", "CPU a block", "busy")
    return [Section("Filling", _FILLING_TEXT, Table(headings, rows)), lookups]


def _fill(
    bench: BenchContext, forebay: Forebay, origin: Origin, count: int, size: int, each: int = 1
) -> dict[str, float]:
    arguments = (str(forebay.cache), str(_CAPACITY), origin.endpoint, BUCKET, str(count), str(size), str(each))
    with module("benchmarks.servers.ssd_fill", *arguments, log=bench.directory / "filling.log") as filling:
        told: dict[str, float] = json.loads(filling.first_line(_PATIENCE))
    return told


def _missed(bench: BenchContext, origin: Origin, prefix: str) -> dict[str, float]:
    """Read all objects under `prefix` once. What the tier still has to write then is less than a second's work."""
    forebay = Forebay(bench.directory / f"misses-{prefix}", origin.port, memory="64MiB", ssd="24GiB")
    with forebay.running(origin.targets("first")[0]) as peer, cores.pinned(cores.LOAD):
        targets = origin.targets(prefix)
        requests = signed(forebay.port, targets, time.time(), count=len(targets))
        cpu, started = cores.cpu_seconds(peer.group), time.perf_counter()
        read_all(forebay.port, requests[: len(targets)], _CONNECTIONS, origin.objects[prefix].size)
        told = {"seconds": time.perf_counter() - started, "cpu": cores.cpu_seconds(peer.group) - cpu}
    shutil.rmtree(forebay.directory)
    return told


def _filled(size: int, how: str, count: int, told: dict[str, float]) -> tuple[str, ...]:
    seconds, cpu = told["seconds"], told["cpu"]
    return (
        size_text(size),
        how,
        f"{count:,}",
        f"**{count_text(count / seconds)}**",
        count_text(count * size / seconds / 1e6),
        time_text(cpu / count),
        f"{cpu / seconds:.0%}",
    )


def _plain(directory: Path, size: int, count: int) -> tuple[str, ...]:
    path, piece = directory / "plain", os.urandom(8 * MIB)
    wall, cpu = time.perf_counter(), time.process_time()
    with path.open("wb", buffering=0) as file:
        for _ in range(max(1, size * count // len(piece))):
            file.write(piece)
    told = {"seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    written = path.stat().st_size // size
    path.unlink()
    return _filled(size, "plain file", written, told)


def _lookups(bench: BenchContext, origin: Origin, tiers: dict[int, Forebay], large_ones: Forebay) -> Section:
    starts: dict[int, list[float]] = {count: [] for count in tiers}
    hits: dict[int, list[float]] = {count: [] for count in tiers}
    looked: dict[int, list[dict[str, Any]]] = {count: [] for count in tiers}
    for _ in range(min(_TURNS, bench.sizes.restarts)):
        for count, forebay in tiers.items():
            looked[count].append(_looked_up(bench, forebay, origin, count))
            first, hit = _served(bench, forebay, count)
            starts[count].append(first)
            hits[count].append(hit)
    rows = []
    for count, told in looked.items():
        answer = f"**{time_text(median(starts[count]))}**"
        rows.append(_row(f"{count:,}", answer, time_text(median(hits[count])), count, told))
    count = max(tiers)
    rows.append(_row(f"{count:,}", "–", "–", count, [_looked_up(bench, large_ones, origin, count, _EACH)]))
    few, many = (hits[count] for count in tiers)
    ratio = median(one / other for one, other in zip(many, few, strict=True))
    headings = ("blocks", "first answer", "head", "block", "hit", "own memory", "index, mapped")
    remark = f"A hit among a million costs {ratio:.2f} times what it costs among a thousand." if rows else ""
    return Section("A million blocks", _LOOKUPS_TEXT, Table(headings, rows), remark)


def _row(blocks: str, first: str, hit: str, count: int, told: list[dict[str, Any]]) -> tuple[str, ...]:
    return (
        blocks,
        first,
        *(time_text(median(each[name] for each in told)) for name in ("head_seconds", "block_seconds")),
        hit,
        *(f"{max(0, told[-1][name]) / count:.0f} B" for name in ("anonymous", "mapped")),
    )


def _looked_up(bench: BenchContext, forebay: Forebay, origin: Origin, count: int, each: int = 1) -> dict[str, Any]:
    lookups = bench.sizes.scale_lookups
    numbers = map(str, (count, 4 * KIB, each, lookups))
    arguments = (str(forebay.cache), str(_CAPACITY), origin.endpoint, BUCKET, *numbers)
    with module("benchmarks.scale.ssd_lookups", *arguments, log=bench.directory / "lookups.log") as looking:
        told: dict[str, Any] = json.loads(looking.first_line(_PATIENCE))
    if (
        told["heads"] < lookups or told["found"] < lookups * 0.95
    ):  # a block whose pages are not in the page cache is left to a thread
        raise UnexpectedResponse(f"{told} where {lookups} look-ups were to find something")
    return told


def _served(bench: BenchContext, forebay: Forebay, count: int) -> tuple[float, float]:
    """Seconds to the first answer of a new process; CPU seconds of a hit."""
    requests = bench.sizes.scale_lookups // 50
    step = max(1, count // requests)
    targets = [target(BUCKET, number * step % count) for number in range(requests)]
    with cores.pinned(cores.SERVER):
        started = time.perf_counter()
        child = forebay.start()
    with child, cores.pinned(cores.LOAD):
        answer = forebay.first_answer(child, targets[-1])
        first = time.perf_counter() - started
        prepared = signed(forebay.port, targets, time.time(), count=len(targets))
        with KeepAliveConnection(forebay.port) as connection:
            for request in prepared:  # so that the page cache is warm
                connection.get(request)
            before = cores.cpu_seconds(child.pid)
            told = [connection.get(request).headers.get(HIT_HEADER) for request in prepared]
        spent = (cores.cpu_seconds(child.pid) - before) / len(targets)
    if {answer.headers.get(HIT_HEADER), *told} != {"hit-ssd"}:
        raise UnexpectedResponse(f"hits on the SSD among {count} blocks were {set(told)}")
    return first, spent

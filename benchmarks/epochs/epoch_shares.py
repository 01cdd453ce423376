"""The hit share of a tier that is smaller than the set: LRU, the stable share, nginx."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from math import log, sqrt
from pathlib import Path
from statistics import fmean
from typing import Final, Literal, NamedTuple

from benchmarks.bench_context import BenchContext
from benchmarks.epochs.epoch_reader import CONNECTIONS, TENTHS, EpochMisses, read_epochs
from benchmarks.origins.origin import Objects, Origin, running_origin
from benchmarks.pages.curves import Curve, write_plot
from benchmarks.pages.tables import Section, Table
from benchmarks.servers.forebay import Forebay
from benchmarks.servers.nginx import running_nginx
from benchmarks.servers.peer import Peer

_PREFIX: Final = "epochs"
_MEMORY_PART: Final = 4
"""One in so many bytes is memory, where there are both tiers."""
PLOTS: Final = "plots"
"""Their folder, as the page links to it."""
_SMALL_MEMORY: Final = "1MiB"
"""With the SSD alone: enough for some heads."""
_LARGEST_OF_TEN: Final = 1.54
STEADY: Final = 2
"""Epochs before those that are counted."""
_EVICTION_RULE: Final = '\n[[rules]]\npath = "bench/**"\neviction = "epoch"\n'
_TEXT: Final = """\
{objects:,} objects of {size:,} bytes, each read once an epoch over {connections} connections, in a new order each
time; x is the size of the tiers over that of the set: {tiers}. The share of the bytes read that the origin did not
send, by its own count, from the third epoch to the {epochs}th; and the misses of the worst tenth of an epoch over their
mean, which chance alone, where a hash decides, brings to {chance:.2f} at the largest x. By the law of LRU its share is
x + (1-x) ln(1-x), and no cache hits more than x. A tier keeps a little less than its size: each block and head costs
something beside."""
_NGINX: Final = """\
nginx, `proxy_cache` with `max_size` at x, on the same reads. Its cache manager removes files some seconds after they
are too many. While it is read as quickly as here it keeps far more than it may, so its hit share says nothing of x; it
stands here for what a cache without a bound would hit. "Kept" is what its directory had at the end, over the set."""

Tiers = Literal["memory and SSD", "SSD"]


class _Measured(NamedTuple):
    x: float
    workers: int
    eviction: str
    hit_share: float
    unevenness: float


def run(bench: BenchContext) -> list[Section]:
    objects, size = bench.sizes.epoch_set
    sections = []
    with running_origin(bench.directory, {_PREFIX: Objects(size, objects)}) as origin:
        for tiers in ("memory and SSD", "SSD"):
            measured = [
                _forebay(bench, origin, tiers, x, workers, eviction)
                for x in bench.sizes.epoch_shares
                for workers in bench.sizes.epoch_workers
                for eviction in ("lru", "epoch")
            ]
            sections.append(_section(bench, tiers, measured))
            plot(bench.sizes.plots, tiers, measured)
        if bench.nginx is not None:
            sections.append(_nginx(bench, bench.nginx, origin))
    return sections


def sizes_of(tiers: Tiers, total: int) -> tuple[str, str]:
    """The sizes of memory and of the SSD tier."""
    if tiers == "SSD":
        return _SMALL_MEMORY, f"{total}"
    return f"{total // _MEMORY_PART}", f"{total - total // _MEMORY_PART}"


@contextmanager
def running(bench: BenchContext, origin: Origin, tiers: Tiers, x: float, workers: int, eviction: str) -> Iterator[Peer]:
    """A Forebay with tiers of x times the set."""
    objects, size = bench.sizes.epoch_set
    memory, ssd = sizes_of(tiers, round(x * objects * size))
    directory = bench.directory / f"{tiers.replace(' ', '-')}-{x}-{workers}-{eviction}"
    rest = _EVICTION_RULE if eviction == "epoch" else ""
    forebay = Forebay(directory, origin.port, memory=memory, ssd=ssd, workers=workers, rest=rest)
    with forebay.running(origin.targets(_PREFIX)[0]) as peer:
        yield peer
    shutil.rmtree(directory)  # all of them together are larger than many a disk


def _forebay(bench: BenchContext, origin: Origin, tiers: Tiers, x: float, workers: int, eviction: str) -> _Measured:
    with running(bench, origin, tiers, x, workers, eviction) as peer:
        epochs = read_epochs(peer, origin, _PREFIX, bench.sizes.epoch_count)
    return _measured(x, workers, eviction, epochs)


def _measured(x: float, workers: int, eviction: str, epochs: list[EpochMisses]) -> _Measured:
    steady = epochs[STEADY:]
    return _Measured(
        x, workers, eviction, 1 - fmean(each.share for each in steady), fmean(each.unevenness for each in steady)
    )


def _section(bench: BenchContext, tiers: Tiers, measured: list[_Measured]) -> Section:
    objects, size = bench.sizes.epoch_set
    rows = []
    for x in bench.sizes.epoch_shares:
        for workers in bench.sizes.epoch_workers:
            found = {each.eviction: each for each in measured if (each.x, each.workers) == (x, workers)}
            lru, epoch = found["lru"], found["epoch"]
            rows.append(
                (
                    f"{x:.2f}",
                    f"{workers}",
                    f"{lru_law(x):.3f}",
                    f"{lru.hit_share:.3f}",
                    f"**{epoch.hit_share:.3f}**",
                    f"{lru.unevenness:.2f}",
                    f"{epoch.unevenness:.2f}",
                )
            )
    headings = ("x", "workers", "LRU, calculated", "LRU", "epoch", "worst tenth, LRU", "worst tenth, epoch")
    described = "the SSD tier alone" if tiers == "SSD" else "a quarter memory, three quarters SSD"
    text = _TEXT.format(
        objects=objects,
        size=size,
        connections=CONNECTIONS,
        tiers=described,
        epochs=bench.sizes.epoch_count,
        chance=worst_by_chance(max(bench.sizes.epoch_shares), objects),
    )
    plotted = f"![The hit share of an epoch over x]({PLOTS}/{_plot_name(tiers)})"
    return Section(f"Hit share of a set larger than the cache: {tiers}", text, Table(headings, rows), plotted)


def _nginx(bench: BenchContext, nginx: str, origin: Origin) -> Section:
    objects, size = bench.sizes.epoch_set
    rows = []
    for x in bench.sizes.epoch_shares:
        directory = bench.directory / f"nginx-{x}"
        with running_nginx(nginx, origin, directory, cache_size=round(x * objects * size)) as peer:
            epochs = read_epochs(peer, origin, _PREFIX, bench.sizes.epoch_count)
            kept = _bytes_in(directory / "cache") / (objects * size)
        shutil.rmtree(directory)
        measured = _measured(x, 1, "lru", epochs)
        rows.append((f"{x:.2f}", f"{kept:.2f}", f"{measured.hit_share:.3f}"))
    headings = ("x", "kept", "nginx")
    return Section("Hit share of a set larger than the cache: nginx", _NGINX, Table(headings, rows))


def _bytes_in(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())


def lru_law(x: float) -> float:
    """The hit share of LRU where a set is read once an epoch in a new order each time."""
    return x + (1 - x) * log(1 - x) if x < 1 else 1.0


def _plot_name(tiers: Tiers) -> str:
    return "hit-share-ssd.svg" if tiers == "SSD" else "hit-share-memory-and-ssd.svg"


def worst_by_chance(x: float, objects: int) -> float:
    """The misses of the worst of ten tenths over their mean, as is to be expected where 1-x of the objects miss and the
    order is random: the largest of ten normal deviates is 1.54 on average."""
    misses = objects * (1 - x) / TENTHS
    return 1 + _LARGEST_OF_TEN * sqrt(x * (1 - 1 / TENTHS) / misses)


def plot(directory: Path | None, tiers: Tiers, measured: list[_Measured]) -> None:
    """Draws the hit shares of one worker; None: nowhere."""
    if directory is None:
        return
    one = [each for each in measured if each.workers == min(each.workers for each in measured)]
    steps = [step / 50 for step in range(51)]
    curves = [
        Curve("no cache hits more", tuple((x, x) for x in steps), is_line=True),
        Curve("LRU, calculated", tuple((x, lru_law(x)) for x in steps), is_line=True),
        Curve("eviction = epoch, measured", tuple((e.x, e.hit_share) for e in one if e.eviction == "epoch")),
        Curve("eviction = lru, measured", tuple((e.x, e.hit_share) for e in one if e.eviction == "lru")),
    ]
    write_plot(
        directory / _plot_name(tiers), curves, "x: size of the tiers over that of the set", "hit share of an epoch"
    )

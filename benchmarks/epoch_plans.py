"""The first epoch of a training job: with a plan of its order, without, and with a cache that holds half of the set."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from statistics import median
from typing import Final

from benchmarks.bench_context import BenchContext
from benchmarks.boto_readers import TEXT, ReaderCase, data_sets, epoch_seconds, reader_cases
from benchmarks.cold import BANDWIDTH, ROUND_TRIP
from benchmarks.forebay import Forebay
from benchmarks.link import Link
from benchmarks.nginx import running_nginx
from benchmarks.origin import Origin, running_origin
from benchmarks.tables import Section, Table, size_text, time_text

_HALF_RULE: Final = '\n[[rules]]\npath = "bench/**"\neviction = "epoch"\n'
_HALF_EPOCHS: Final = 3
_TEXT: Final = f"""\
{TEXT} A plan is the list of the epoch's keys, sent as an object before the epoch begins. "Warm" is the epoch after it,
from memory, in another order, through the same Forebay; the ratio is of these two, which follow one another: the
median of {{rounds}} turns, the least and the largest in brackets. "Half": a Forebay with memory for half of the set,
`eviction = "epoch"` and a plan for each epoch; the longest of {_HALF_EPOCHS} epochs from an empty cache, over the warm
epoch. "Direct" is without a cache, "cold" the first epoch without a plan; nginx (`proxy_cache`) keeps everything.
Readers, Forebay and the origin share this machine's cores. Lower is better."""
_STOPS: Final = """\
The same tensors and {readers} readers with half of the set in memory and a plan for each epoch, and readers that
compute less and less: where the ratio leaves 1, either the link (half of what is read) or the machine's CPU, on which
boto3 needs more than anything else, is what bounds an epoch."""


def run(bench: BenchContext) -> list[Section]:
    compute, cases = bench.sizes.plan_compute, reader_cases(bench.sizes)
    with running_origin(bench.directory, data_sets(bench.sizes), [Link(ROUND_TRIP, BANDWIDTH)], pinned=False) as origin:
        rows = [_row(bench, origin, case) for case in cases]
        stops = [
            _faster(bench, origin, cases[0]._replace(readers=cases[-1].readers), each)
            for each in bench.sizes.plan_steps
        ]
    headings = (
        *("sample", "samples", "readers", "direct", "nginx, cold", "nginx, warm", "cold", "with a plan", "warm"),
        *("plan by warm", "half by warm"),
    )
    text = _TEXT.format(compute=compute * 1000, rounds=bench.sizes.plan_rounds)
    return [
        Section("The first epoch, with a plan", text, Table(headings, rows)),
        Section(
            "Half of the set in memory, and faster readers",
            _STOPS.format(readers=cases[-1].readers),
            Table(("compute", "warm", "half, longest", "half by warm", "MB/s read"), stops),
        ),
    ]


@contextmanager
def _running(bench: BenchContext, origin: Origin, case: ReaderCase, name: str, *, is_half: bool) -> Iterator[int]:
    """The port of a Forebay that is empty at first."""
    total = case.size * case.samples
    memory = f"{total // 2}" if is_half else f"{2 * total + (64 << 20)}"
    directory = bench.directory / f"{name}-{case.prefix}-{case.readers}"
    forebay = Forebay(directory, origin.far[0], memory=memory, rest=_HALF_RULE if is_half else "")
    with forebay.start() as child:
        forebay.first_answer(child, origin.targets(case.prefix)[-1])
        yield forebay.port


def _row(bench: BenchContext, origin: Origin, case: ReaderCase) -> tuple[str, ...]:
    compute = bench.sizes.plan_compute
    [direct] = epoch_seconds(origin.far[0], case, compute, epochs=1)
    peers = ["", ""]
    if bench.nginx is not None:
        directory = bench.directory / f"nginx-{case.prefix}-{case.readers}"
        far = replace(origin, port=origin.far[0])
        with running_nginx(bench.nginx, far, directory, is_pinned=False) as peer:
            peers = [time_text(each) for each in epoch_seconds(peer.port, case, compute, epochs=2)]
        shutil.rmtree(directory)
    with _running(bench, origin, case, "cold", is_half=False) as port:
        cold, _ = epoch_seconds(port, case, compute, epochs=2)
    turns = []
    for turn in range(bench.sizes.plan_rounds):
        with _running(bench, origin, case, f"plan-{turn}", is_half=False) as port:
            turns.append(epoch_seconds(port, case, compute, epochs=2, plans=1))
    half = _half(bench, origin, case, compute, "half")
    ratios = sorted(planned / warm for planned, warm in turns)
    warm = median(warm for _, warm in turns)
    return (
        size_text(case.size),
        f"{case.samples:,}",
        f"{case.readers}",
        time_text(direct),
        *peers,
        time_text(cold),
        time_text(median(planned for planned, _ in turns)),
        time_text(warm),
        f"**{median(ratios):.2f}** ({ratios[0]:.2f} to {ratios[-1]:.2f})",
        f"**{half / warm:.2f}**",
    )


def _half(bench: BenchContext, origin: Origin, case: ReaderCase, compute: float, name: str) -> float:
    """The seconds of the longest epoch with half of the set in memory."""
    with _running(bench, origin, case, name, is_half=True) as port:
        return max(epoch_seconds(port, case, compute, epochs=_HALF_EPOCHS, plans=_HALF_EPOCHS))


def _faster(bench: BenchContext, origin: Origin, case: ReaderCase, compute: float) -> tuple[str, ...]:
    with _running(bench, origin, case, f"warm-{compute:g}", is_half=False) as port:
        _, warm = epoch_seconds(port, case, compute, epochs=2, plans=1)
    half = _half(bench, origin, case, compute, f"half-{compute:g}")
    rate = case.size * case.samples / half / 1e6
    return f"{compute * 1000:g} ms", time_text(warm), time_text(half), f"**{half / warm:.2f}**", f"{rate:.0f}"

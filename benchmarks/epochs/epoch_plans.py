"""The first epoch of a training job: with a plan of its order, without, and with a cache that holds half of the set."""

import os
import random
import shutil
from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from statistics import median
from typing import Final, NamedTuple

from benchmarks.bare.bare_transfer import running_bare_receiver
from benchmarks.bench_context import BenchContext
from benchmarks.epochs.boto_readers import (
    TEXT,
    ReadEpoch,
    ReaderCase,
    data_sets,
    epoch_seconds,
    long_cases,
    read_epochs,
    reader_cases,
)
from benchmarks.origins.link import BANDWIDTH, ROUND_TRIP, Link
from benchmarks.origins.origin import Origin, running_origin
from benchmarks.pages.tables import Section, Table, size_text, time_text
from benchmarks.servers.forebay import Forebay
from benchmarks.servers.nginx import running_nginx

_HALF_RULE: Final = '\n[[rules]]\npath = "bench/**"\neviction = "epoch"\n'
_HALF_EPOCHS: Final = 3
_BARE: Final = 4
"""Connections of the bare loop: what they carry together is what the most readers read."""
_TEXT: Final = f"""\
{TEXT} A plan is the list of the epoch's keys, sent as an object just before the epoch begins. "Warm" is the epoch after
it, from memory, in another order, through the same Forebay; the ratio is of these two, which follow one another: the
median of {{rounds}} turns, the least and the largest in brackets. "Least" is what it could be at best: nobody has the
first sample sooner than two round trips (connections are new) and its bytes at a connection's rate after the plan was
sent; that is added to the warm epoch. "Bare" is a third epoch by the warm one: warm as well, while a bare loop in a
process of its own receives each sample from the same origin, over {_BARE} connections, into new memory, and does
nothing else ([bare_transfer.py](../benchmarks/bare/bare_transfer.py)). "Cold" is the first epoch without a plan,
"direct" one without a cache; nginx (`proxy_cache`) keeps everything. Readers, Forebay and the origin share this
machine's cores, so what it costs to fetch delays the readers as well; where "bare" is near 1 and Forebay is not, reads
wait for Forebay's loop, which fetches, too. Lower is better; the goal is 1.1."""
_EARLY: Final = 0.5
"""Seconds of a warm epoch after which its reads are compared: a plan leads by then."""
_SHARES: Final = f"""\
Of the same turns: CPU of a sample, by process, and how many cores all of them together kept busy. "Behind" is how much
later a sample arrives with a plan than the sample of the same number does in the warm epoch: at the one that this has
after {_EARLY:g} s, and at the last. What is added between the two is no start. With a plan each sample is fetched as
well, so the processes need more of the cores than in the warm epoch. Longer epochs have the same start."""
_HALF: Final = f"""\
{TEXT} Forebay has memory for half of the set, `eviction = "epoch"`, and gets a plan for each epoch: {_HALF_EPOCHS} of
them from an empty cache. Compared with a warm epoch with memory for all of it are the first, which has to fetch
everything, and the longest of the later ones, which fetch half: medians of {{rounds}} pairs, whose order is drawn, the
least and the largest in brackets. "Cores" are those that readers, Forebay and origin together kept busy in the later
epochs, of this machine's {{cores}}; "from the origin" is what it has sent in a second of all epochs, by its own count.
Where readers compute less and less the ratio leaves 1. What stops there is not the link, whose connections carry
{BANDWIDTH / 1e6:g} MB/s each: reads wait for Forebay's loop, which fetches on one core. Lower is better; the goal is
1.1 while the link allows it."""


class _Turn(NamedTuple):
    """Three epochs that follow one another."""

    planned: ReadEpoch
    warm: ReadEpoch
    floor: ReadEpoch
    """A warm one, beside a bare loop that receives each sample from the origin and keeps it."""


def run(bench: BenchContext) -> list[Section]:
    """The first epoch, and what of the machine it takes."""
    compute, cases = bench.sizes.plan_compute, reader_cases(bench.sizes)
    longer = long_cases(bench.sizes)
    rows, shares = list[tuple[str, ...]](), list[tuple[str, ...]]()
    with _running_origin(bench, [*cases, *longer]) as origin:
        for case in [*cases, *longer]:
            turns = _turns(bench, origin, case)
            shares.append(_share_row(case, turns))
            has_peers = case in cases and case.readers == max(bench.sizes.plan_readers)
            others = _without_plan(bench, origin, case, has_peers=has_peers) if case in cases else ("",) * 4
            rows.append((*_cells(case), *others, *_figures(case, turns)))
    headings = (
        *("sample", "samples", "readers", "direct", "nginx, cold", "nginx, warm", "cold", "with a plan", "warm"),
        *("least", "bare", "plan by warm"),
    )
    text = _TEXT.format(compute=compute * 1000, rounds=bench.sizes.plan_rounds)
    sections = [Section("The first epoch, with a plan", text, Table(headings, rows))]
    of_shares = (
        *("sample", "samples", "readers", "readers, plan", "Forebay, plan", "origin, plan", "readers, warm"),
        *("Forebay, warm", "cores, plan", "cores, warm", f"behind at {_EARLY:g} s", "behind at the end"),
    )
    sections.append(Section("What an epoch with a plan takes of the machine", _SHARES, Table(of_shares, shares)))
    return sections


def run_half(bench: BenchContext) -> list[Section]:
    """Every epoch, with half of the set in memory."""
    cases = [(case, bench.sizes.plan_compute) for case in reader_cases(bench.sizes)]
    tensors = [case for case, _ in cases if case.size == cases[0][0].size]
    cases += [(tensors[-1], compute) for compute in bench.sizes.plan_steps]
    with _running_origin(bench, [case for case, _ in cases]) as origin:
        rows = [_half_row(bench, origin, case, compute) for case, compute in cases]
    headings = (
        *("sample", "samples", "readers", "compute", "warm", "half, first", "half, later", "first by warm"),
        *("later by warm", "cores", "MB/s read", "MB/s from the origin"),
    )
    rounds, cores = bench.sizes.half_rounds, len(os.sched_getaffinity(0))
    text = _HALF.format(compute=bench.sizes.plan_compute * 1000, rounds=rounds, cores=cores)
    return [Section("Half of the set in memory", text, Table(headings, rows))]


@contextmanager
def _running_origin(bench: BenchContext, cases: Sequence[ReaderCase]) -> Iterator[Origin]:
    links = [Link(ROUND_TRIP, BANDWIDTH)]
    with running_origin(bench.directory, data_sets(cases), links, pinned=False) as origin:
        yield origin


@contextmanager
def _running(
    bench: BenchContext, origin: Origin, case: ReaderCase, name: str, *, is_half: bool
) -> Iterator[tuple[int, int]]:
    """The port and the process id of a Forebay that is empty at first."""
    total = case.size * case.samples
    memory = f"{total // 2}" if is_half else f"{2 * total + (64 << 20)}"
    directory = bench.directory / f"{name}-{case.prefix}-{case.samples}-{case.readers}"
    forebay = Forebay(directory, origin.far[0], memory=memory, rest=_HALF_RULE if is_half else "")
    with forebay.start() as child:
        forebay.first_answer(child, origin.targets(case.prefix)[-1])
        yield forebay.port, child.pid


def _cells(case: ReaderCase) -> tuple[str, ...]:
    return size_text(case.size), f"{case.samples:,}", f"{case.readers}"


def _without_plan(bench: BenchContext, origin: Origin, case: ReaderCase, *, has_peers: bool) -> tuple[str, ...]:
    compute, peers = bench.sizes.plan_compute, ["", "", ""]
    if has_peers:
        peers[0] = time_text(*epoch_seconds(origin.far[0], case, compute, epochs=1))
    if has_peers and bench.nginx is not None:
        directory = bench.directory / f"nginx-{case.prefix}"
        far = replace(origin, port=origin.far[0])
        with running_nginx(bench.nginx, far, directory, is_pinned=False) as peer:
            peers[1:] = [time_text(each) for each in epoch_seconds(peer.port, case, compute, epochs=2)]
        shutil.rmtree(directory)
    with _running(bench, origin, case, "cold", is_half=False) as (port, _):
        [cold] = epoch_seconds(port, case, compute, epochs=1)
    return *peers, time_text(cold)


def _turns(bench: BenchContext, origin: Origin, case: ReaderCase) -> list[_Turn]:
    turns, compute = [], bench.sizes.plan_compute
    for turn in range(bench.sizes.plan_rounds):
        with (
            _running(bench, origin, case, f"plan-{turn}", is_half=False) as (port, process),
            running_bare_receiver(bench.directory, origin.far[0], _BARE, case.size, case.samples, case.prefix) as bare,
        ):
            watched, begins = (process, origin.process), {2: bare.begin_url}
            turns.append(_Turn(*read_epochs(port, case, compute, epochs=3, plans=1, begins=begins, watched=watched)))
    return turns


def _figures(case: ReaderCase, turns: Sequence[_Turn]) -> tuple[str, ...]:
    typical = median(turn.warm.seconds for turn in turns)
    return (
        time_text(median(turn.planned.seconds for turn in turns)),
        time_text(typical),
        f"{1 + (2 * ROUND_TRIP + case.size / BANDWIDTH) / typical:.2f}",
        _ratio_text([turn.floor.seconds / turn.warm.seconds for turn in turns]).replace("**", ""),
        _ratio_text([turn.planned.seconds / turn.warm.seconds for turn in turns]),
    )


def _share_row(case: ReaderCase, turns: Sequence[_Turn]) -> tuple[str, ...]:
    planned, warm = [turn.planned for turn in turns], [turn.warm for turn in turns]

    def typical(epochs: Sequence[ReadEpoch], of: Callable[[ReadEpoch], float]) -> str:
        return time_text(median(map(of, epochs)) / case.samples)

    def behind(turn: _Turn, number: int) -> float:
        return turn.planned.arrivals[number] - turn.warm.arrivals[number]

    early = [min(bisect(each.arrivals, _EARLY), case.samples) - 1 for each in warm]
    return (
        *_cells(case),
        typical(planned, lambda each: each.readers),
        typical(planned, lambda each: each.watched[0]),
        typical(planned, lambda each: each.watched[1]),
        typical(warm, lambda each: each.readers),
        typical(warm, lambda each: each.watched[0]),
        f"{median(map(_busy_cores, planned)):.2f}",
        f"{median(map(_busy_cores, warm)):.2f}",
        f"{1000 * median(behind(turn, number) for turn, number in zip(turns, early, strict=True)):.0f} ms",
        f"{1000 * median(behind(turn, -1) for turn in turns):.0f} ms",
    )


def _half_row(bench: BenchContext, origin: Origin, case: ReaderCase, compute: float) -> tuple[str, ...]:
    chance, rounds = random.Random(), bench.sizes.half_rounds
    warm, half, sent = list[float](), list[list[ReadEpoch]](), list[float]()
    for turn in range(rounds):
        for is_half in chance.sample((False, True), 2):
            name = f"{'half' if is_half else 'warm'}-{compute:g}-{turn}"
            with _running(bench, origin, case, name, is_half=is_half) as (port, process):
                if is_half:
                    before, watched = origin.counters().sent, (process, origin.process)
                    epochs = read_epochs(port, case, compute, epochs=_HALF_EPOCHS, plans=_HALF_EPOCHS, watched=watched)
                    half.append(epochs)
                    sent.append((origin.counters().sent - before) / sum(each.seconds for each in epochs))
                else:
                    warm.append(epoch_seconds(port, case, compute, epochs=2, plans=1)[1])
    return (
        *_cells(case),
        f"{compute * 1000:g} ms",
        time_text(median(warm)),
        time_text(median(each[0].seconds for each in half)),
        time_text(median(_longest(each[1:]).seconds for each in half)),
        _ratio_text([each[0].seconds / full for each, full in zip(half, warm, strict=True)]),
        _ratio_text([_longest(each[1:]).seconds / full for each, full in zip(half, warm, strict=True)]),
        f"{median(map(_busy_cores, (each for epochs in half for each in epochs[1:]))):.2f}",
        f"{case.size * case.samples / median(_longest(each[1:]).seconds for each in half) / 1e6:.0f}",
        f"{median(sent) / 1e6:.0f}",
    )


def _longest(epochs: Sequence[ReadEpoch]) -> ReadEpoch:
    return max(epochs, key=lambda each: each.seconds)


def _busy_cores(epoch: ReadEpoch) -> float:
    """The cores that readers and watched processes kept busy, on average."""
    return (epoch.readers + sum(epoch.watched)) / epoch.seconds


def _ratio_text(ratios: Sequence[float]) -> str:
    return f"**{median(ratios):.2f}** ({min(ratios):.2f} to {max(ratios):.2f})"

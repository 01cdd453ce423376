"""Reads beside a drain: what a reader feels of a backlog that is carried to the origin at full speed."""

from typing import Final

from benchmarks.bare.bare_transfer import running_bare_transfer
from benchmarks.bench_context import BenchContext
from benchmarks.checkpoints.checkpoint_writers import CheckpointWay, running_writer
from benchmarks.checkpoints.write_back import BACK, WriteBackForebay, running_write_back
from benchmarks.load.load import percentile
from benchmarks.load.paced_reads import PACE, latencies
from benchmarks.origins.link import BANDWIDTH, ROUND_TRIP, Link
from benchmarks.origins.origin import Objects, running_origin
from benchmarks.pages.tables import Section, Table, time_text
from benchmarks.processes import cores
from benchmarks.run_sizes import MIB

_BURST: Final = 50
"""Reads between two looks at the backlog."""
_TEXT: Final = f"""\
One client asks for 4 KiB from memory every {PACE * 1000:g} ms, alone and while {{number}} checkpoints of {{size}} MiB,
acknowledged before, are carried to an origin {ROUND_TRIP * 1000:g} ms away over connections of
{BANDWIDTH / 1e6:g} MB/s. The origin stands still while they are written, so that the drain then has all of them. In
{{rounds}} turns; the ratio is of the 99th percentiles of all reads. Forebay has one core; the origin, one process in
Python, which hashes, and the reader share the other, where the reader comes before the origin (real-time priority, as
root). "Bare" is a loop in Python that does nothing but to answer the reader and to send as many bytes
([bare_transfer.py](../benchmarks/bare/bare_transfer.py)), in Forebay's place."""


def run(bench: BenchContext) -> list[Section]:
    number, size = bench.sizes.backlog
    alone: list[float] = []
    beside: list[float] = []
    link = [Link(ROUND_TRIP, BANDWIDTH)]
    with running_origin(bench.directory, {"first": Objects(4096, 1)}, link) as origin:
        target = origin.targets("first")[0]
        way = CheckpointWay("put", size)
        with (
            running_write_back(bench.directory / "forebay", origin.far[0], target, pinned=True) as forebay,
            running_writer(way, bench.directory / "writer.log") as writer,
        ):
            writer.upload(forebay.port, f"{BACK}/first")
            for turn in range(bench.sizes.checkpoint_rounds):
                with origin.standing_still():
                    for each in range(number):
                        writer.upload(forebay.port, f"{BACK}/{turn}-{each}")
                with cores.pinned(cores.LOAD), cores.before_others():
                    beside += _while_draining(forebay, target)
                forebay.wait_drained()
                with cores.pinned(cores.LOAD), cores.before_others():
                    alone += latencies(forebay.port, target, bench.sizes.neighbour_requests)
        with running_bare_transfer(
            "put", bench.directory, origin.far[0], size, number * bench.sizes.checkpoint_rounds, "written/bare"
        ) as bare:
            bare_alone, bare_beside = bare.read_beside(target, len(alone))
    rows = _rows("the drain", alone, beside) + _rows("the same, bare", bare_alone, bare_beside)
    table = Table(("beside", "reads", "p50", "p99", "ratio"), rows)
    text = _TEXT.format(size=size // MIB, number=number, rounds=bench.sizes.checkpoint_rounds)
    return [Section("Reads beside a drain", text, table)]


def _rows(beside: str, alone: list[float], times: list[float]) -> list[tuple[str, ...]]:
    both = [sorted(alone), sorted(times)]
    cells = [(f"{len(each):,}", *(time_text(percentile(each, share)) for share in (0.5, 0.99))) for each in both]
    ratio = percentile(both[1], 0.99) / percentile(both[0], 0.99)
    return [("nobody", *cells[0], "1"), (beside, *cells[1], f"**{ratio:.2f}**")]


def _while_draining(forebay: WriteBackForebay, target: str) -> list[float]:
    """The times of reads from the moment at which the origin goes on until there is no backlog any more."""
    times = latencies(forebay.port, target, _BURST)
    while forebay.has_bodies():
        times += latencies(forebay.port, target, _BURST)
    return times

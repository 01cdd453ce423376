"""A second run with the seed of the first, on an empty cache: its order was recorded, and is recognised."""

from typing import Final

from benchmarks.bench_context import BenchContext
from benchmarks.epochs.boto_readers import TEXT, ReaderCase, data_sets, epoch_seconds, long_cases, reader_cases
from benchmarks.origins.link import BANDWIDTH, ROUND_TRIP, Link
from benchmarks.origins.origin import Origin, running_origin
from benchmarks.pages.tables import Section, Table, size_text, time_text
from benchmarks.servers.forebay import Forebay

_RULE: Final = '\n[[rules]]\npath = "bench/**"\nrecord = true\nfollow = true\n'
_TEXT: Final = f"""\
{TEXT} A first run reads an epoch, and Forebay (`record = true`, `follow = true`, no SSD tier) is ended. It is started
again with nothing in its cache, and the job is run again with the same seed: two epochs, nothing else changed. "First
run" is its only epoch, "again" the first epoch of the second run, "warm" the second one, from memory. The ratio is of
the last two. It can't be 1: an order is recognised after some reads, which are cold, in short epochs and in long ones.
Lower is better; the goal is 1.15."""


def run(bench: BenchContext) -> list[Section]:
    cases, links = [*reader_cases(bench.sizes), *long_cases(bench.sizes)], [Link(ROUND_TRIP, BANDWIDTH)]
    with running_origin(bench.directory, data_sets(cases), links, pinned=False) as origin:
        rows = [_row(bench, origin, case) for case in cases]
    headings = ("sample", "samples", "readers", "first run", "again", "warm", "again by warm")
    text = _TEXT.format(compute=bench.sizes.plan_compute * 1000)
    return [Section("The same seed again, on an empty cache", text, Table(headings, rows))]


def _row(bench: BenchContext, origin: Origin, case: ReaderCase) -> tuple[str, ...]:
    directory = bench.directory / f"recorded-{case.prefix}-{case.samples}-{case.readers}"
    memory = f"{2 * case.size * case.samples + (64 << 20)}"
    forebay = Forebay(directory, origin.far[0], memory=memory, rest=_RULE)
    found = []
    for epochs in (1, 2):
        with forebay.start() as child:
            forebay.first_answer(child, origin.targets(case.prefix)[-1])
            found += epoch_seconds(forebay.port, case, bench.sizes.plan_compute, epochs=epochs)
    _, again, warm = found
    return (
        size_text(case.size),
        f"{case.samples:,}",
        f"{case.readers}",
        *map(time_text, found),
        f"**{again / warm:.2f}**",
    )

"""The rows of the tables of hits: what each server did, and how Forebay compares with each peer."""

from collections.abc import Callable, Sequence
from typing import Final

from benchmarks.bench_context import BenchContext
from benchmarks.pages.tables import count_text, size_text, time_text
from benchmarks.servers.comparison import Ratio, Rounds, ratio

PEERS: Final = ("nginx", "Varnish")
COMPARED: Final = tuple(f"ratio to {peer}" for peer in PEERS)
HEADINGS: Final = (
    *("object", "conn.", "server", "requests/s", "MB/s", "p50", "p99", "CPU/request", "busy"),
    *COMPARED,
)


def row(rounds: Rounds, all_rounds: Sequence[Rounds], size: int, label: str) -> tuple[str, ...]:
    """A row of HEADINGS; the ratios stand in Forebay's."""
    return (
        size_text(size),
        label,
        rounds.peer.name,
        count_text(rounds.rate),
        count_text(rounds.rate * size / 1e6),
        time_text(rounds.p50),
        time_text(rounds.p99),
        time_text(rounds.cpu_per_request),
        f"{sum(rounds.busy) / len(rounds.busy):.0%}",
        *compared(rounds, all_rounds),
    )


def compared(
    rounds: Rounds, all_rounds: Sequence[Rounds], by: Callable[[Rounds, Rounds], Ratio] = ratio
) -> tuple[str, ...]:
    """How Forebay, the first of `held`, compares with each of PEERS; dashes for the others' rows."""
    theirs = {other.peer.name: other for other in all_rounds[1:]}
    cells = []
    for peer in PEERS:
        other = theirs.get(peer)
        if rounds is not all_rounds[0] or other is None:
            cells.append("–")
            continue
        against = by(rounds, other)
        cells.append(f"**{against.median:.2f}** ({against.low:.2f} to {against.high:.2f})")
    return tuple(cells)


def missing(bench: BenchContext) -> str:
    """What is to be said of programs that are not installed."""
    absent = [name for name, path in zip(PEERS, (bench.nginx, bench.varnish), strict=True) if path is None]
    said = "".join(f" **{name} is not installed (`make peers`).**" for name in absent)
    if bench.wrk is None:
        said += " wrk is not installed (`make peers`): our own generator limits the small sizes."
    return said

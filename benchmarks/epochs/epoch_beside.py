"""Reads beside a prefetch: what demand feels of a plan that is fetched as fast as it can be."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final
from urllib.request import urlopen

from benchmarks.bare.bare_transfer import running_bare_transfer
from benchmarks.bench_context import BenchContext
from benchmarks.epochs.boto_readers import PREFIXES, SMALL
from benchmarks.errors import UnexpectedResponse
from benchmarks.load.http_client import KeepAliveConnection
from benchmarks.load.load import percentile
from benchmarks.load.paced_reads import PACE, latencies
from benchmarks.load.signed_requests import TRAINER, signed, unsigned
from benchmarks.origins.link import BANDWIDTH, ROUND_TRIP, Link
from benchmarks.origins.origin import BUCKET, Objects, Origin, running_origin
from benchmarks.pages.tables import Section, Table, size_text, time_text
from benchmarks.processes import cores
from benchmarks.run_sizes import TENSOR
from benchmarks.servers.forebay import TEMPLATE, Forebay
from harness.clients import RawClient

_HITS: Final = 50
"""Of a round: a tenth of a second, at their pace."""
_MISSES: Final = 4
_AHEAD: Final = "4GiB"
_RULE: Final = f'\n[[rules]]\npath = "{BUCKET}/**"\nplan_horizon = "{_AHEAD}"\n'
_PLAN: Final = f"/{BUCKET}/.forebay/plans/beside"
_TEXT: Final = f"""\
One client reads, alone and while a plan that nobody follows is fetched: its horizon is larger than the set, so nothing
but the turns at the origin bounds it. It asks for 4 KiB from memory every {PACE * 1000:g} ms ("hit"), in turns with
objects of {SMALL:,} B that Forebay has never seen ("miss"), and with the same straight from the origin ("direct"),
{ROUND_TRIP * 1000:g} ms away over connections of {BANDWIDTH / 1e6:g} MB/s. Forebay has one core; the origin, one
process in Python, and the client share the other, where the client comes before the origin (real-time priority, as
root). What the origin has to do for the prefetch delays a miss as well: "direct" is how much. "Bare" are hits of a loop
in Python that does nothing but to answer them and to receive the same objects
([bare_transfer.py](../benchmarks/bare/bare_transfer.py)), in Forebay's place. {{turns}} turns; the ratio is of
the 99th percentiles of all reads, the goal 1.3 or that of "direct"."""

_Reads = dict[str, list[float]]


def run(bench: BenchContext) -> list[Section]:
    """Beside tensors, and beside small samples."""
    turns, rounds = bench.sizes.reads_beside
    counts = dict(zip((TENSOR, SMALL), bench.sizes.prefetched, strict=True))
    sets = {PREFIXES[size]: Objects(size, count) for size, count in counts.items()}
    # Each miss is of another object; a prefetch lasts as long as some rounds without one.
    sets |= {"hit": Objects(4096, 1), "missed": Objects(SMALL, 20 * turns * rounds * _MISSES)}
    rows: list[tuple[str, ...]] = []
    with running_origin(bench.directory, sets, [Link(ROUND_TRIP, BANDWIDTH)]) as origin:
        for size, count in counts.items():
            rows += _rows(bench, origin, size, count)
    headings = ("prefetched", "read", "alone: reads", "p50", "p99", "beside: reads", "p50", "p99", "p99 by p99")
    return [Section("Reads beside a prefetch", _TEXT.format(turns=turns), Table(headings, rows))]


def _rows(bench: BenchContext, origin: Origin, size: int, count: int) -> Iterator[tuple[str, ...]]:
    turns, rounds = bench.sizes.reads_beside
    alone: _Reads = {"hit": [], "miss": [], "direct": []}
    beside: _Reads = {"hit": [], "miss": [], "direct": []}
    lasted = []
    with _reader(bench, origin, PREFIXES[size]) as reader:
        for _ in range(turns):
            for _ in range(rounds):
                reader.read_round(alone)
            with reader.prefetching() as is_under_way:
                began = time.perf_counter()
                while is_under_way():
                    reader.read_round(beside)
                lasted.append(time.perf_counter() - began)
    with running_bare_transfer("get", bench.directory, origin.far[0], size, count, PREFIXES[size]) as bare:
        alone["bare"], beside["bare"] = bare.read_beside(origin.targets("hit")[0], turns * rounds * _HITS)
    rate = size * count * turns / sum(lasted) / 1e6
    for kind in alone:
        times = [sorted(each[kind]) for each in (alone, beside)]
        cells = [(f"{len(each):,}", *(time_text(percentile(each, share)) for share in (0.5, 0.99))) for each in times]
        ratio = percentile(times[1], 0.99) / percentile(times[0], 0.99)
        yield f"{size_text(size)}, {rate:.0f} MB/s", kind, *cells[0], *cells[1], f"**{ratio:.2f}**"


@contextmanager
def _reader(bench: BenchContext, origin: Origin, prefix: str) -> Iterator["_Reader"]:
    directory = bench.directory / f"beside-{prefix}"
    directory.mkdir()
    template = directory / "template.toml"
    template.write_text(TEMPLATE.read_text().replace('"@MEMORY@"', f'"@MEMORY@"\nahead = "{_AHEAD}"'))
    forebay = Forebay(directory, origin.far[0], memory="1GiB", rest=_RULE, template=template)
    with forebay.running(origin.targets("hit")[0]), cores.pinned(cores.LOAD):
        yield _Reader(forebay, origin, prefix)


class _Reader:
    """The client of a Forebay."""

    def __init__(self, forebay: Forebay, origin: Origin, prefix: str) -> None:
        self._forebay = forebay
        self._origin = origin
        self._planned = origin.targets(prefix)
        self._missed = iter(origin.targets("missed"))
        self._hit = origin.targets("hit")[0]
        self._client = RawClient(f"http://127.0.0.1:{forebay.port}", TRAINER)

    def read_round(self, found: _Reads) -> None:
        """Reads some of each kind, and adds their times."""
        port = self._forebay.port
        found["hit"] += latencies(port, self._hit, _HITS)
        targets = [next(self._missed) for _ in range(2 * _MISSES)]
        found["miss"] += _latencies(port, signed(port, targets[:_MISSES], time.time(), count=_MISSES))
        far = self._origin.far[0]
        found["direct"] += _latencies(far, unsigned(far, targets[_MISSES:]))

    @contextmanager
    def prefetching(self) -> Iterator[Callable[[], bool]]:
        """Sends a plan, and gives up at the end what was fetched for it. Yields whether some of it is not begun."""
        keys = "".join(f"{target.removeprefix(f'/{BUCKET}/')}\n" for target in self._planned)
        self._send("PUT", keys.encode())
        yield lambda: self._begun() < len(self._planned)
        self._send("DELETE")

    def _begun(self) -> int:
        """Entries of the plan that are fetched, or being fetched."""
        with urlopen(f"http://127.0.0.1:{self._forebay.admin}/v1/plans") as response:
            plans = json.load(response)["plans"]
        return next(int(plan["lead_entries"]) for plan in plans if plan["state"] == "running")

    def _send(self, method: str, body: bytes = b"") -> None:
        with KeepAliveConnection(self._forebay.port) as connection:
            answer = connection.get(self._client.sign(method, _PLAN, (), body).wire)
        if answer.status not in {200, 204}:
            raise UnexpectedResponse(f"{answer.status} to {method} {_PLAN}")


def _latencies(port: int, wires: Sequence[bytes]) -> list[float]:
    """The times of these reads, one after another."""
    taken = []
    with KeepAliveConnection(port) as connection, cores.before_others():
        for wire in wires:
            answer = connection.get(wire)
            if (answer.status, answer.length) != (200, SMALL):
                raise UnexpectedResponse(f"{answer.status} for a miss")
            taken.append(answer.total)
    return taken

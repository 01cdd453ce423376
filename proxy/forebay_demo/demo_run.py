"""`forebay demo`: what Forebay is for, shown in half a minute on one machine.

An embedded origin behind an injected round trip, a real Forebay in front of it, and the sample set read by an
unmodified boto3: straight from the origin, through Forebay cold, again warm, and once more after Forebay was restarted.
Every byte is compared, and the origin itself counts what it was asked, so no figure rests on Forebay's own word.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn
from rich.table import Table

from forebay.serve import fail
from forebay_demo import forebay_server
from forebay_demo.child_process import ChildProcess, DemoUnavailable
from forebay_demo.demo_directory import demo_directory
from forebay_demo.demo_origin import demo_origin
from forebay_demo.embedded_swift import EmbeddedSwift
from forebay_demo.forebay_server import ForebayServer, OriginAddress
from forebay_demo.free_ports import free_ports
from forebay_demo.sample_reader import READERS, ReadingResult, read_set, s3_client
from forebay_demo.samples import BUCKET, samples

ROUND_TRIP = 0.020
"""Seconds: a bucket in a neighbouring region."""

_LINK_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class ReadingPass:
    """One line of the table."""

    name: str
    reading: ReadingResult
    origin_requests: int
    origin_sent: int

    @property
    def throughput(self) -> float:
        """Bytes a second."""
        return self.reading.size / self.reading.seconds

    @property
    def hit_ratio(self) -> float:
        """The share of the bytes read that the origin did not have to send."""
        return max(0.0, 1 - self.origin_sent / self.reading.size)


def run(*, directory: Path | None = None, round_trip: float = ROUND_TRIP, console: Console | None = None) -> int:
    """Runs the demo and prints its table. 0 when every byte was right; 1 when not, or when it can't run here."""
    console = console or Console()
    try:
        passes = _measure(directory or demo_directory() / "demo", round_trip, console)
    except DemoUnavailable as unavailable:
        return fail(str(unavailable), 1)
    except KeyboardInterrupt:
        console.print("Interrupted; everything is stopped.")
        return 1
    console.print(table_of(passes, round_trip))
    wrong = [key for each in passes for key in each.reading.wrong]
    if wrong:
        console.print(f"{len(wrong)} objects had wrong bytes, first {wrong[0]}", style="red")
        return 1
    console.print(f"Every byte of {len(passes)} passes was compared with what was written: all right.")
    return 0


def table_of(passes: list[ReadingPass], round_trip: float) -> Table:
    """The passes as a table; the first is what the others are compared with."""
    table = Table(title=f"Sample set, {READERS} readers, origin {round_trip * 1000:g} ms away")
    table.add_column("pass")
    for heading in ("time", "throughput", "speed-up", "hit ratio", "origin requests"):
        table.add_column(heading, justify="right")
    for each in passes:
        table.add_row(
            each.name,
            f"{each.reading.seconds:.2f} s",
            f"{each.throughput / 1e6:.0f} MB/s",
            f"{passes[0].reading.seconds / each.reading.seconds:.1f}x",
            f"{each.hit_ratio:.0%}",
            str(each.origin_requests),
        )
    return table


def _measure(directory: Path, round_trip: float, console: Console) -> list[ReadingPass]:
    passes: list[ReadingPass] = []
    with ExitStack() as stack:
        with console.status("Starting the embedded origin; the first time, writing the sample set"):
            origin = stack.enter_context(demo_origin(directory))
        expected = {sample.key: sample.make() for sample in samples()}
        link = stack.enter_context(far_link(origin, round_trip, directory / "log" / "link.log"))

        def measure(name: str, endpoint: str, access_key: str, secret_key: str) -> None:
            client = s3_client(endpoint, access_key, secret_key, origin.region)
            stack.callback(client.close)
            before = origin.request_counts(BUCKET)
            with _progress(console, name, sum(map(len, expected.values()))) as advance:
                reading = read_set(client, expected, advance)
            after = origin.request_counts(BUCKET)
            passes.append(ReadingPass(name, reading, after.requests - before.requests, after.sent - before.sent))

        address = OriginAddress(link, origin.region, origin.access_key, origin.secret_key)
        server = ForebayServer(directory.absolute() / "forebay", address, *free_ports(2))
        shutil.rmtree(server.directory, ignore_errors=True)  # cold means cold, also at the second demo
        ours = (server.endpoint, forebay_server.ACCESS_KEY, forebay_server.SECRET_KEY)
        measure("no Forebay", link, origin.access_key, origin.secret_key)
        with server:
            measure("cold", *ours)
            measure("warm", *ours)
        with server:
            measure("restarted", *ours)
    return passes


@contextmanager
def far_link(origin: EmbeddedSwift, round_trip: float, log: Path) -> Iterator[str]:
    """An endpoint from which `origin` is `round_trip` seconds away."""
    arguments = (f"127.0.0.1:{origin.port}", str(round_trip))
    with ChildProcess("forebay_demo.latency_link", *arguments, log=log) as link:
        yield f"http://127.0.0.1:{int(link.first_line(_LINK_SECONDS))}"


@contextmanager
def _progress(console: Console, name: str, total: int) -> Iterator[Callable[[int], None]]:
    columns = (
        TextColumn("{task.description:10}"),
        BarColumn(),
        DownloadColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(name, total=total)

        def advance(size: int) -> None:
            progress.advance(task, size)

        yield advance

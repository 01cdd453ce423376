"""`python -m benchmarks`: run them and write down what they say. See the package."""

import argparse
import contextlib
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from benchmarks import (
    ROOT,
    cold,
    misses,
    neighbours,
    ranges,
    restart,
    scale,
    ssd,
    stampede,
    training,
    warm,
    workers,
    writes,
)
from benchmarks.bench_context import BenchContext
from benchmarks.http_client import UnexpectedResponse
from benchmarks.machine import facts
from benchmarks.nginx import find_nginx
from benchmarks.page import own_page, page
from benchmarks.run_sizes import FULL, QUICK
from benchmarks.tables import Section
from benchmarks.varnish import find_varnish
from benchmarks.wrk import find_wrk
from forebay_demo.child_process import DemoUnavailable

BENCHMARKS: Final[Mapping[str, Callable[[BenchContext], list[Section]]]] = {
    "warm": warm.run,
    "ssd": ssd.run,
    "ranges": ranges.run,
    "cold": cold.run,
    "writes": writes.run,
    "stampede": stampede.run,
    "workers": workers.run,
    "restart": restart.run,
    "neighbours": neighbours.run,
}
LONG: Final[Mapping[str, Callable[[BenchContext], list[Section]]]] = {
    "misses": misses.run,
    "scale": scale.run,
    "training": training.run,
}
"""Each has a page of its own, and is run by its name alone."""
PAGE: Final = ROOT / "docs" / "benchmarks.md"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Forebay's figures, and its peers'.")
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"which: {', '.join(BENCHMARKS)}; default: all of these. Or one of {', '.join(LONG)}, alone",
    )
    parser.add_argument("--quick", action="store_true", help="few and short rounds: to see that the benchmarks work")
    parser.add_argument(
        "--output", type=Path, help="where the page is written; default: docs/benchmarks.md, by a full run"
    )
    given = parser.parse_args(arguments)
    long = given.names[0] if len(given.names) == 1 and given.names[0] in LONG else None
    unknown = [name for name in given.names if name not in BENCHMARKS and name != long]
    if unknown:
        parser.error(f"there is no benchmark {', '.join(unknown)}; there are {', '.join([*BENCHMARKS, *LONG])}")
    names = [long] if long is not None else [name for name in BENCHMARKS if name in (given.names or BENCHMARKS)]
    whole = not given.quick and (names == list(BENCHMARKS) or long is not None)
    own = PAGE.with_name(f"benchmarks-{long}.md") if long is not None else PAGE
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # unwinds as Ctrl-C does: nothing is left running
    try:
        text, failed = measure(names, quick=given.quick)
    except KeyboardInterrupt:
        print("Interrupted; everything is stopped.", file=sys.stderr)
        return 1
    print(text)
    if failed:
        print(f"Not measured, so nothing is written down: {', '.join(failed)}.", file=sys.stderr)
        return 1
    output = given.output or (own if whole else None)
    if output is not None:
        output.write_text(text)
        print(f"Written to {output}.", file=sys.stderr)
    return 0


def measure(names: list[str], *, quick: bool) -> tuple[str, list[str]]:
    """Run these benchmarks; the page, and which of them failed."""
    nginx, varnish, wrk = find_nginx(), find_varnish(), find_wrk()
    machine = facts(nginx, varnish, wrk)
    sections: list[Section] = []
    failed: list[str] = []
    began = time.monotonic()
    for name in names:
        started = time.monotonic()
        print(f"{name} ...", file=sys.stderr, flush=True)
        with scratch() as directory:
            try:
                sections += {**BENCHMARKS, **LONG}[name](
                    BenchContext(QUICK if quick else FULL, directory, nginx, varnish, wrk)
                )
            except (UnexpectedResponse, DemoUnavailable) as error:
                print(f"{name} failed: {error}\n{log_tails(directory)}", file=sys.stderr)
                failed.append(name)
        print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    seconds = time.monotonic() - began
    if names[0] in LONG:
        return own_page(names[0], machine, sections, seconds), failed
    return page(machine, sections, seconds), failed


def log_tails(directory: Path) -> str:
    """The ends of the logs below `directory`, access lines left out."""
    ends = []
    for log in sorted(directory.rglob("*.log")):
        lines = [line for line in log.read_text(errors="replace").splitlines() if not line.startswith('{"time"')]
        ends.append("\n".join([f"{log.name}:", *lines[-10:]]))
    return "\n".join(ends)


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A directory that is gone afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="forebay-bench-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`python -m benchmarks`: run them and write down what they say. See the package."""

import argparse
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NoReturn

from benchmarks import ROOT
from benchmarks.bench_context import BenchContext
from benchmarks.catalogue import CACHE, LONG, PARTED
from benchmarks.errors import UnexpectedResponse
from benchmarks.load.wrk import find_wrk
from benchmarks.pages.machine import facts
from benchmarks.pages.page import own_page, page
from benchmarks.pages.part_pages import OthersLoad, part_text, parted_page
from benchmarks.pages.tables import Section
from benchmarks.run_sizes import FULL, QUICK, REDUCED, RunSizes
from benchmarks.servers.nginx import find_nginx
from benchmarks.servers.varnish import find_varnish
from forebay_demo.child_process import DemoUnavailable

PAGE: Final = ROOT / "docs" / "benchmarks.md"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Forebay's figures, and its peers'.")
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"which: {', '.join(CACHE)}; default: all of these. Or one of {', '.join(LONG)}, alone. "
        f"Or one of {', '.join(PARTED)}, and which of its parts",
    )
    parser.add_argument("--quick", action="store_true", help="few and short rounds: to see that the benchmarks work")
    parser.add_argument(
        "--reduced", action="store_true", help="parts of a page with sets of half the size, for a busy machine"
    )
    parser.add_argument(
        "--output", type=Path, help="where the page is written; default: docs/benchmarks.md, by a full run"
    )
    given = parser.parse_intermixed_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # unwinds as Ctrl-C does: nothing is left running
    if given.names and given.names[0] in PARTED:
        sizes = QUICK if given.quick else REDUCED if given.reduced else FULL
        return write_parts(given.names[0], given.names[1:], parser.error, sizes, given.output)
    long = given.names[0] if len(given.names) == 1 and given.names[0] in LONG else None
    unknown = [name for name in given.names if name not in CACHE and name != long]
    if unknown:
        parser.error(f"there is no benchmark {', '.join(unknown)}; there are {', '.join([*CACHE, *LONG, *PARTED])}")
    names = [long] if long is not None else [name for name in CACHE if name in (given.names or CACHE)]
    whole = not given.quick and (names == list(CACHE) or long is not None)
    own = PAGE.with_name(f"benchmarks-{long}.md") if long is not None else PAGE
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
                sections += {**CACHE, **LONG}[name](
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


def write_parts(
    name: str, wanted: list[str], refuse: Callable[[str], NoReturn], sizes: RunSizes, output: Path | None
) -> int:
    """Measure these parts of a page, or all of them, and write each down as soon as it is measured; the exit code."""
    parts, output = PARTED[name], output or (None if sizes is QUICK else PAGE.with_name(f"benchmarks-{name}.md"))
    if unknown := [part for part in wanted if part not in parts]:
        refuse(f"{name} has no part {', '.join(unknown)}; there are {', '.join(parts)}")
    nginx, varnish, wrk = find_nginx(), find_varnish(), find_wrk()
    failed = []
    for part in [part for part in parts if part in wanted or not wanted]:
        print(f"{name} {part} ...", file=sys.stderr, flush=True)
        machine, began, load = facts(nginx, varnish, wrk), time.monotonic(), os.getloadavg()[0]
        others = OthersLoad(len(os.sched_getaffinity(0)))
        with scratch() as directory:
            try:
                sections = parts[part](BenchContext(sizes, directory, nginx, varnish, wrk))
            except (UnexpectedResponse, DemoUnavailable) as error:
                print(f"{part} failed: {error}\n{log_tails(directory)}", file=sys.stderr)
                failed.append(part)
                continue
        seconds = time.monotonic() - began
        whole = f"make bench-{name} PARTS={part}" if sizes is REDUCED else ""
        text = part_text(sections, machine, seconds / 60, (load, os.getloadavg()[0]), others.share(seconds), whole)
        print(text, flush=True)
        if output is not None:
            before = output.read_text() if output.exists() else ""
            output.write_text(parted_page(name, list(parts), before, {part: text}))
            print(f"Written to {output}.", file=sys.stderr)
    return 1 if failed else 0


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

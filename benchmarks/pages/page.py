"""docs/benchmarks.md, written by the run that it reports."""

from collections.abc import Sequence

from benchmarks.pages.tables import Section, Table

_HEAD = """\
# Benchmarks

This page is written by `make bench` (`python -m benchmarks`), on the machine below. `make peers` installs what Forebay
is compared with. How the peers are set up stands in [benchmarks/servers](../benchmarks/servers): they are meant to be
at their best, and run in the same run, in turns, on the same objects from the same origin. The peers come from the
distribution; with its Python, Forebay does as well: `make bench PYTHON=/usr/bin/python3.11` in a fresh clone."""
_FAIRNESS = """\
## What is not comparable

- nginx and Varnish check no signature, no grant and no rule, and write, here, no access log; nginx keeps no metrics.
  Forebay does all of it in every figure.
- nginx hands files to the kernel (sendfile) and never touches their bytes, so it does not see damage on the disk
  either. Forebay compares the checksum of what it sends from the SSD at least once a minute.
- nginx and Varnish cache whole responses, or slices of them. Forebay caches blocks: it answers any range from what it
  has, fetches a block once for all who wait for it, and passes the first bytes on as they come.
- Loopback has no network card: what is measured is what the programs cost, and the copies of the kernel.
- The load is a closed loop: each connection sends its next request when it has the whole answer. Times at the peak rate
  say how long the queue is; at a lower rate they are shorter."""


def own_page(name: str, machine: Table, sections: Sequence[Section], seconds: float) -> str:
    """The page of a benchmark that is long, and so is not on the one page."""
    head = f"""\
# Benchmarks: {name}

This page is written by `make bench-{name}` (`python -m benchmarks {name}`), on the machine below. Figures
of warm and cold reads and of writes are in [benchmarks.md](benchmarks.md)."""
    took = f"The whole run took {seconds / 60:.0f} minutes."
    return "\n\n".join([head, machine.markdown(), *(section.markdown() for section in sections), took]) + "\n"


def page(machine: Table, sections: Sequence[Section], seconds: float) -> str:
    parts = [_HEAD, machine.markdown(), *(section.markdown() for section in sections), _FAIRNESS]
    parts.append(f"The whole run took {seconds / 60:.0f} minutes.")
    return "\n\n".join(parts) + "\n"

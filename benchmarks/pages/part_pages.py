"""Pages that are measured part by part: a run writes the parts anew that it has measured, and leaves the others.

Each part stands between two comments, with a line of its own that says when it was measured, where, and under how much
load of others. A part that has never been measured says so, and how it is.

    <!-- part: shares -->
    ## ...
    <!-- /part -->
"""

import re
import resource
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.pages.tables import Section, Table

_FACTS: Final = ("date", "CPU", "cores", "memory", "Python", "nginx")
_BLOCK: Final = re.compile(r"<!-- part: ([\w-]+) -->\n(.*?)\n<!-- /part -->", re.DOTALL)
_TICKS: Final = 100
"""Of a second, in /proc/stat: USER_HZ, see proc_stat(5)."""
_BUSY: Final = (0, 1, 2, 5, 6, 7)
"""The times of /proc/stat in which a core worked for this machine: not idle, not waiting, not stolen."""


class OthersLoad:
    """What of the machine's cores others have used since it was made."""

    def __init__(self, cores: int) -> None:
        self._cores = cores
        self._busy, self._own = _busy_seconds(), _own_seconds()

    def share(self, seconds: float) -> float:
        """Of all cores, in the `seconds` since: without this process and those of its children that have ended."""
        return others_share(_busy_seconds() - self._busy, _own_seconds() - self._own, seconds * self._cores)


def others_share(busy: float, own: float, all_seconds: float) -> float:
    """The share of all cores' seconds in which they were busy with what is not our own."""
    return min(1.0, max(0.0, (busy - own) / all_seconds))


def _busy_seconds() -> float:
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    return sum(int(fields[each]) for each in _BUSY) / _TICKS


def _own_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def part_text(
    sections: Sequence[Section], facts: Table, minutes: float, load: Sequence[float], others: float, whole: str = ""
) -> str:
    """A part as it stands on the page. `load`: the load averages of the last minute before it and at its end;
    `others`: the share of all cores that others had meanwhile; `whole`: the command that measures it at its whole
    size, if this was a smaller one."""
    known = {row[0]: row[1] for row in facts.rows}
    where = ", ".join(f"{name} {known[name]}" if name in {"cores", "memory"} else known[name] for name in _FACTS[1:])
    measured = (
        f"*Measured {known['date']} in {minutes:.0f} minutes: {where}. Load average {load[0]:.1f} before it and "
        f"{load[1]:.1f} at its end; other programs had {others:.0%} of the cores meanwhile.*"
    )
    if whole:
        measured += (
            f"\n\nOpen: the part at its whole size, which `{whole}` measures, on a machine that has nothing else to do."
        )
    return "\n\n".join([*(section.markdown() for section in sections), measured])


def parted_page(name: str, parts: Sequence[str], before: str, measured: Mapping[str, str]) -> str:
    """The page with what was measured, and what it had `before` of other parts."""
    there = {**dict(_BLOCK.findall(before)), **measured}
    blocks = [f"<!-- part: {part} -->\n{there.get(part) or _open(name, part)}\n<!-- /part -->" for part in parts]
    return "\n\n".join([_HEAD.format(name=name, first=parts[0], last=parts[-1]), *blocks]) + "\n"


def _open(name: str, part: str) -> str:
    return f"## {part.capitalize()}: not measured yet\n\n`make bench-{name} PARTS={part}` measures it."


_HEAD: Final = """\
# Benchmarks: {name}

This page is written by `make bench-{name}` (`python -m benchmarks {name}`). Each part is measured by itself
(`make bench-{name} PARTS="{first} {last}"` for some), and says when that was, where, and how much of the machine other
programs had meanwhile: times are worth nothing without that, shares of bytes and numbers of requests are the same under
any load. What is compared stands in one table, and was measured in one run. Figures of hits, misses and writes are in
[benchmarks.md](benchmarks.md)."""

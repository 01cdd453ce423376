"""Which process runs on which core, and how long it has been running there.

Servers get the first core that we may use, whatever makes load the second. With only one, they share it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_ALLOWED: Final = sorted(os.sched_getaffinity(0))
SERVER: Final = _ALLOWED[0]
LOAD: Final = _ALLOWED[1 % len(_ALLOWED)]
_TICKS: Final = os.sysconf("SC_CLK_TCK")
# Fields of /proc/PID/stat after the name, which may hold anything: see proc_pid_stat(5), less the first two.
_GROUP, _USER, _SYSTEM = 2, 11, 12


@contextmanager
def pinned(core: int) -> Iterator[None]:
    """This thread, and the processes that it starts meanwhile, on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def cpu_seconds(group: int) -> float:
    """What the living processes of a process group have used so far."""
    return sum(int(fields[_USER]) + int(fields[_SYSTEM]) for fields in _members(group)) / _TICKS


def resident_bytes(group: int) -> int:
    """The resident memory of a process group, what its members share counted for each."""
    page = os.sysconf("SC_PAGE_SIZE")
    return sum(int(fields[21]) for fields in _members(group)) * page


def _members(group: int) -> Iterator[list[str]]:
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                fields = (process / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended since
            if int(fields[_GROUP]) == group:
                yield fields

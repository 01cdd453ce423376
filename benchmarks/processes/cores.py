"""Which process runs on which core, and how long it has been running there.

Servers get the first core that we may use, whatever makes load the second. With only one, they share it.
"""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_ALLOWED: Final = sorted(os.sched_getaffinity(0))
SERVER: Final = _ALLOWED[0]
LOAD: Final = _ALLOWED[1 % len(_ALLOWED)]
_ALL_THREADS: Final = 2
"""Of the clocks that a process has, that of all its threads' time, as the scheduler counts it."""
# Fields of /proc/PID/stat after the name, which may hold anything: see proc_pid_stat(5), less the first two.
_PARENT, _GROUP = 1, 2


@contextmanager
def pinned(core: int) -> Iterator[None]:
    """This thread, and the processes that it starts meanwhile, on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def before_others() -> Iterator[None]:
    """This thread before whatever else its core has to do, where that is allowed (as root): what it waits for is then
    others' doing."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except PermissionError:
        yield
        return
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def cpu_seconds(group: int) -> float:
    """What the living processes of a process group have used so far."""
    return sum(cpu_seconds_of(process) for process, _ in _members(group))


def loop_seconds(group: int) -> float:
    """What the first threads of these processes have used so far: those of their event loops."""
    used = 0
    for process, _ in _members(group):
        with suppress(OSError):  # it has ended since
            used += int(Path(f"/proc/{process}/task/{process}/schedstat").read_text().split()[0])
    return used / 1e9


def resident_bytes(group: int) -> int:
    """The resident memory of a process group, what its members share counted for each."""
    page = os.sysconf("SC_PAGE_SIZE")
    return sum(int(fields[21]) for _, fields in _members(group)) * page


def workers_of(group: int) -> list[int]:
    """Forebay's workers: the processes that serve, where a supervisor or the only one has this process group."""
    led = [process for process, fields in _processes() if int(fields[_PARENT]) == group != int(fields[_GROUP])]
    return led or [group]


def cpu_seconds_of(process: int) -> float:
    """What one process has used so far, all its threads, to the nanosecond: by the clock that Linux has for each
    process, see clock_getcpuclockid(3). 0 when it has ended."""
    try:
        return time.clock_gettime(~process << 3 | _ALL_THREADS)
    except OSError:
        return 0.0


def sockets_of(process: int) -> frozenset[str]:
    """The sockets that a process has open, by their names."""
    found = set[str]()
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        with suppress(OSError):  # it was closed meanwhile
            found.add(str(descriptor.readlink()))
    return frozenset(name for name in found if name.startswith("socket:"))


def accepted_connections(workers: Sequence[int], port: int) -> dict[int, int]:
    """Which of some processes has taken each connection to a port of loopback: by the port it comes from."""
    holders = {name: worker for worker in workers for name in sockets_of(worker)}
    workers_by_port = {}
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:  # see proc_net_tcp(5)
        _, local, remote, *rest = line.split()
        holder = holders.get(f"socket:[{rest[6]}]")
        if holder is not None and int(local.rpartition(":")[2], 16) == port:
            workers_by_port[int(remote.rpartition(":")[2], 16)] = holder
    return workers_by_port


def _members(group: int) -> Iterator[tuple[int, list[str]]]:
    """The processes of a group, and those that its leader has given groups of their own."""
    for process, fields in _processes():
        if int(fields[_GROUP]) == group or int(fields[_PARENT]) == group:
            yield process, fields


def _processes() -> Iterator[tuple[int, list[str]]]:
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                fields = (process / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended since
            yield int(process.name), fields

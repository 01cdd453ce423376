"""The limits that the machine and its control groups set this process: cores, memory, disk space, open files.

A container with a CPU limit sees every core of the machine, and is halted for the rest of each period once its quota is
used up: workers beyond the quota only take turns at being halted. So the quota counts, in whole cores. A memory limit
and a full disk are noticed late, by a killed process and by failing writes: tiers that can never fit are warned of at
start. Other processes' needs are not known here.

A control group inherits the limits of the groups above it, so each limit is read for all of them and the least counts:

    version 2    one tree for all controllers            <mount>/PATH
                 cpu.max                                 "QUOTA PERIOD", QUOTA may be "max"
                 memory.max                              bytes, or "max"
    version 1    a tree for each controller              <mount>/cpu,cpuacct/PATH, <mount>/cpu/PATH
                 cpu.cfs_quota_us, cpu.cfs_period_us     -1 for no quota
                 memory.limit_in_bytes

A limit that can't be read counts as none.

https://docs.kernel.org/admin-guide/cgroup-v2.html, https://docs.kernel.org/admin-guide/cgroup-v1/memory.html,
https://docs.kernel.org/scheduler/sched-bwc.html
"""

import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from forebay.core.events import TierName
from forebay.settings.model import Settings
from forebay_client.cli.human_format import format_size

CGROUP_MOUNT: Final = Path("/sys/fs/cgroup")
SELF_CGROUP: Final = Path("/proc/self/cgroup")
_ROOT: Final = Path("/")
_MAX_FILES: Final = 1 << 20
_OWN_FILES: Final = 512
"""Open files beside connections: segments of the SSD tier, logs, the admin port."""
_FILES_PER_CONNECTION: Final = 2
"""A client's socket, and the descriptor that large bodies are sent through (forebay.server.http.sendfile_writer)."""
SOCKET_SHARE: Final = 4
"""One in so many connections of a worker may be of the Unix socket."""
_FILES_PER_CHANNEL: Final = 3
"""A client's socket, the descriptor that others are passed through, and its ring (forebay.server.shared_memory)."""
_FILES_PER_REQUEST: Final = 2
"""A connection to the origin, and an idle one."""


def usable_cores(allowed: int | None = None, mount: Path = CGROUP_MOUNT, membership: Path = SELF_CGROUP) -> int:
    """Returns the number of cores that this process may keep busy, at least 1.

    `allowed`: its CPU affinity, None to ask the kernel. `mount`, `membership`: see `cgroup_directories`.
    """
    allowed = len(os.sched_getaffinity(0)) if allowed is None else allowed
    quotas = (quota for group in cgroup_directories("cpu", mount, membership) for quota in _cpu_quota(group))
    return max(1, int(min([allowed, *quotas])))


def capacity_warnings(settings: Settings, root: Path = _ROOT) -> Iterator[str]:
    """Warnings of tiers and a journal that are larger than the memory or the file system they are in. `root`: of /proc
    and /sys."""
    yield from filter(None, (tier_warning("memory", settings, root), tier_warning("ssd", settings)))
    journal = settings.journal
    if journal is not None and (excess := _above_file_system("journal", journal.path, journal.size)):
        yield f"{excess}: set it lower, or writes get 503 SlowDown when that is full, in place of going through"


def tier_warning(tier: TierName, settings: Settings, root: Path = _ROOT) -> str | None:
    """A warning if there is not as much memory, or disk, as a tier may take; None if there is, or that is unknown."""
    if tier == "ssd":
        ssd = settings.ssd
        excess = _above_file_system("ssd", ssd.path, ssd.size) if ssd is not None else None
        return excess and f"{excess}: the tier uses no more than that"
    memory = settings.memory.size + settings.memory.buffers + settings.memory.ahead
    if settings.server.socket is not None:
        memory += settings.memory.rings
    limit = min(_memory_limits(root), default=None)
    if limit is None or memory <= limit:
        return None
    return (
        f"memory.size, buffers, ahead and rings make {format_size(memory)}, and there is {format_size(limit)} "
        "for this process: it may be killed when the tier fills"
    )


def raise_file_limit(settings: Settings) -> str | None:
    """Raises the soft limit of open files (sockets are files) to the hard one.

    Most systems start a process with 1,024 and let it ask for more. Returns a warning if even the hard limit is too low
    for `limits.connections`, else None.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _most_files()
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    wanted, usable = settings.limits.connections, usable_connections(settings)
    if usable == wanted:
        return None
    return (
        f"the system allows {most} open files, so limits.connections is lowered from {wanted} to {usable}: the origin, "
        "the admin port and the SSD tier need the rest; raise the limit of open files (ulimit -Hn, LimitNOFILE=)"
    )


def usable_connections(settings: Settings) -> int:
    """Returns the number of client connections that may be open at once: `limits.connections`, or fewer, so that open
    files are left for the origin, the admin port and the SSD tier. At least a quarter of the system's limit of open
    files, a sixth where there is a Unix socket."""
    most = _most_files()
    requests = sum(origin.concurrency for origin in settings.all_origins)
    reserved = min(_FILES_PER_REQUEST * requests + _OWN_FILES, most // 2)
    channels = _FILES_PER_CHANNEL if settings.server.socket is not None else 0  # they are beside the others
    return min(
        settings.limits.connections,
        (most - reserved) * SOCKET_SHARE // (_FILES_PER_CONNECTION * SOCKET_SHARE + channels),
    )


def usable_origin_requests(settings: Settings) -> list[int]:
    """Returns the number of requests to each origin that may be in flight: its `concurrency`, or fewer, so that all of
    them use no more than a quarter of the system's limit of open files."""
    wanted = [origin.concurrency for origin in settings.all_origins]
    usable = _most_files() // 4 // _FILES_PER_REQUEST
    return wanted if sum(wanted) <= usable else [max(1, each * usable // sum(wanted)) for each in wanted]


def _most_files() -> int:
    """The hard limit of open files."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_FILES)


def cgroup_directories(controller: str, mount: Path = CGROUP_MOUNT, membership: Path = SELF_CGROUP) -> Iterator[Path]:
    """Directories that may hold a limit of `controller`; not all of them exist.

    `mount`: where control groups are mounted. `membership`: the file that names the groups of this process.
    """
    for line in _lines(membership):
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            hierarchies = [mount]
        elif controller in controllers.split(","):
            hierarchies = [mount / controllers, mount / controller]
        else:
            continue
        for hierarchy in hierarchies:
            # In a container the path may be the host's, which is not visible there: then the mount is our group.
            own = Path(path.strip("/"))
            for group in (own, *own.parents):
                yield hierarchy / group


def _cpu_quota(group: Path) -> Iterator[float]:
    """The quota of a group in cores, if it has one."""
    try:
        quota, period = (group / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota = (group / "cpu.cfs_quota_us").read_text()
            period = (group / "cpu.cfs_period_us").read_text()
        except OSError:
            return
    try:
        if int(quota) > 0 and int(period) > 0:
            yield int(quota) / int(period)
    except ValueError:  # "max"
        return


def _memory_limits(root: Path) -> Iterator[int]:
    """Each bound on this process's memory, in bytes: the machine's, and those of its control groups."""
    for line in _lines(root / "proc/meminfo"):
        if line.startswith("MemTotal:"):
            yield int(line.split()[1]) << 10
    for group in cgroup_directories("memory", root / "sys/fs/cgroup", root / "proc/self/cgroup"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            for line in _lines(group / name):
                if line.isascii() and line.isdecimal():  # not "max"
                    yield int(line)


def _above_file_system(part: str, path: str, size: int) -> str | None:
    """Says that a directory's `size` is larger than its file system; None if it is not, or that is unknown."""
    disk = _file_system_size(Path(path))
    if disk is None or size <= disk:
        return None
    return f"{part}.size is {format_size(size)}, the file system of {part}.path has {format_size(disk)} in all"


def _file_system_size(path: Path) -> int | None:
    """Bytes of the file system that `path` is on, or will be; None if unknown."""
    for each in (path, *path.parents):
        try:
            stats = os.statvfs(each)
        except OSError:
            continue
        return stats.f_blocks * stats.f_frsize
    return None


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []

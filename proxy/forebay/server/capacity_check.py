"""Whether there is room for what the tiers are told to hold: memory, of the machine or of the container that this runs
in, and the file system of the SSD tier. Tiers that outgrow them are found out late: by a killed process, and by writes
that fail once the disk is full.

Only what can't ever fit is warned of; who else needs memory or disk is not known here.

https://docs.kernel.org/admin-guide/cgroup-v2.html
https://docs.kernel.org/admin-guide/cgroup-v1/memory.html
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from forebay.server.cgroups import cgroup_directories
from forebay.settings.model import Settings

_ROOT: Final = Path("/")


def capacity_warnings(settings: Settings, root: Path = _ROOT) -> Iterator[str]:
    """What to warn of. `root`: where /proc and /sys are."""
    memory = settings.memory.size + settings.memory.buffers
    most = min(_limits(root), default=None)
    if most is not None and memory > most:
        yield (
            f"memory.size and memory.buffers make {_gib(memory)}, and there is {_gib(most)} for this process: it may "
            "be killed when the tier fills"
        )
    if settings.ssd is not None:
        disk = _file_system(Path(settings.ssd.path))
        if disk is not None and settings.ssd.size > disk:
            yield (
                f"ssd.size is {_gib(settings.ssd.size)}, the file system of ssd.path has {_gib(disk)} "
                "in all: it will be full before the tier is"
            )


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"


def _limits(root: Path) -> Iterator[int]:
    """What bounds this process's memory, in bytes."""
    for line in _lines(root / "proc/meminfo"):
        if line.startswith("MemTotal:"):
            yield int(line.split()[1]) << 10
    for group in cgroup_directories("memory", root / "sys/fs/cgroup", root / "proc/self/cgroup"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            for line in _lines(group / name):
                if line.isascii() and line.isdecimal():  # not `max`
                    yield int(line)


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _file_system(path: Path) -> int | None:
    """How large the file system is that `path` is on, or will be."""
    for each in (path, *path.parents):
        try:
            told = os.statvfs(each)
        except OSError:
            continue
        return told.f_blocks * told.f_frsize
    return None

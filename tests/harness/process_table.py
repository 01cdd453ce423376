"""The processes of this machine, as /proc has them: which of them are the workers of a node."""

from pathlib import Path


def workers_of(supervisor: int) -> list[int]:
    """The worker processes that a supervisor has now."""
    return [
        int(process.name)
        for process in Path("/proc").glob("[0-9]*")
        if process.is_dir()
        and _parent_of(process) == supervisor
        and "forebay.workers.worker_main" in command_of(process.name)
    ]


def command_of(process: int | str) -> list[str]:
    """The words of its command line; none when it has ended."""
    try:
        return Path(f"/proc/{process}/cmdline").read_text().split("\0")
    except OSError:
        return []


def _parent_of(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0

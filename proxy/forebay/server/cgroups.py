"""The control groups that this process is in: the folders in which their limits stand, of its own and all above it.

    version 2    one tree for all controllers            /sys/fs/cgroup/PATH
    version 1    a tree for each, by names of mounts      /sys/fs/cgroup/cpu,cpuacct/PATH, /sys/fs/cgroup/cpu/PATH

https://docs.kernel.org/admin-guide/cgroup-v2.html, https://docs.kernel.org/admin-guide/cgroup-v1/cgroups.html
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

GROUPS: Final = Path("/sys/fs/cgroup")
OURS: Final = Path("/proc/self/cgroup")


def group_folders(controller: str, groups: Path = GROUPS, ours: Path = OURS) -> Iterator[Path]:
    """Where a limit of `controller` may stand; not all are there. `groups`: where control groups are mounted; `ours`:
    which this process is in."""
    try:
        lines = ours.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            mounts = [groups]
        elif controller in controllers.split(","):
            mounts = [groups / controllers, groups / controller]
        else:
            continue
        for mount in mounts:
            # In a container the path may be the host's, which is not to be seen there: then the mount is our group.
            here = Path(path.strip("/"))
            for group in (here, *here.parents):
                yield mount / group

"""The control groups that this process is in: the folders in which their limits stand, of its own and all above it.

    version 2    one tree for all controllers            /sys/fs/cgroup/PATH
    version 1    a tree for each, by names of mounts      /sys/fs/cgroup/cpu,cpuacct/PATH, /sys/fs/cgroup/cpu/PATH

https://docs.kernel.org/admin-guide/cgroup-v2.html, https://docs.kernel.org/admin-guide/cgroup-v1/cgroups.html
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

CGROUP_MOUNT: Final = Path("/sys/fs/cgroup")
SELF_CGROUP: Final = Path("/proc/self/cgroup")


def cgroup_directories(controller: str, mount: Path = CGROUP_MOUNT, membership: Path = SELF_CGROUP) -> Iterator[Path]:
    """Directories that may hold a limit of `controller`; not all of them exist.

    `mount`: where control groups are mounted. `membership`: the file that names the groups of this process.
    """
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            hierarchies = [mount]
        elif controller in controllers.split(","):
            hierarchies = [mount / controllers, mount / controller]
        else:
            continue
        for hierarchy in hierarchies:
            # In a container the path may be the host's, which is not to be seen there: then the mount is our group.
            here = Path(path.strip("/"))
            for group in (here, *here.parents):
                yield hierarchy / group

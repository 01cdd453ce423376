"""How many cores this process may keep busy: those that it may run on, and what its control groups let it use of them.

A container with a CPU limit sees every core of the machine and is halted for the rest of each period once it has used
up its quota: workers beyond the quota only take turns at being halted. So the quota counts, in whole cores, and the
least of those of the group and all above it.

    version 2    cpu.max                                       "QUOTA PERIOD", QUOTA may be "max"
    version 1    cpu.cfs_quota_us, cpu.cfs_period_us           -1 for no quota

https://docs.kernel.org/admin-guide/cgroup-v2.html#cpu-interface-files,
https://docs.kernel.org/scheduler/sched-bwc.html. What can't be read limits nothing.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from forebay.server.cgroups import CGROUP_MOUNT, SELF_CGROUP, cgroup_directories


def usable_cores(allowed: int | None = None, mount: Path = CGROUP_MOUNT, membership: Path = SELF_CGROUP) -> int:
    """At least 1. `allowed`: on how many it may run, None to ask the kernel; `groups`, `ours`: see `group_folders`."""
    allowed = len(os.sched_getaffinity(0)) if allowed is None else allowed
    quotas = (quota for group in cgroup_directories("cpu", mount, membership) for quota in _quota(group))
    return max(1, int(min([allowed, *quotas])))


def _quota(group: Path) -> Iterator[float]:
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

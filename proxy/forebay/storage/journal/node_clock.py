"""The node's clock: one for all workers of a node, which nobody can set.

    run                    nanoseconds
    from the lock, 1 ...   of the system's monotonic clock, which begins anew with each boot

A later run has later times, whatever the system's clock shows. How long it took from one run to the next is not known.
"""

from typing import Final

_BITS: Final = 64
"""The bits of the number that hold the nanoseconds."""


def time_of(run: int, nanoseconds: int) -> int:
    """Returns a time on the node's clock."""
    return run << _BITS | nanoseconds


def run_of(time: int) -> int:
    """Returns the run that a time is of."""
    return time >> _BITS


def seconds_between(first: int, last: int) -> float | None:
    """Returns the seconds from one time to a later one; None: they are of two runs."""
    return (last - first) / 1e9 if run_of(first) == run_of(last) else None

"""The slice of time that the kernel's scheduler gives the event loop's thread: a short one, so that the loop runs as
soon as it has become due, whichever thread of Forebay's own has the core.

    a helper runs (hashing, unlinking: some milliseconds) ──the loop becomes due──> slice shorter than the helper's? now
                                                                                    else: when the helper's slice ends

Linux' scheduler (EEVDF, since 6.6) lets a thread run until its slice, some 3 ms, is used up, also where another one has
become due that was asleep: on a busy core a hit waits for that. Since 6.12 a thread can have a slice of its own, and a
shorter one goes first. It is no priority: each thread's share of the core stays as it was.

Not for libraries or tests: for the thread that calls it. Other kernels ignore it. Threads and processes that the loop's
thread starts have the usual slice again, unless its nice value is below 0: then they inherit the short one, as what
resets a slice would reset the nice value too.

https://docs.kernel.org/scheduler/sched-eevdf.html
https://man7.org/linux/man-pages/man2/sched_setattr.2.html
"""

import ctypes
import os
import struct
from typing import Final

SLICE: Final = 100_000
"""Nanoseconds, the least that the kernel allows."""
_NUMBERS: Final = {"x86_64": (314, 315), "aarch64": (274, 275), "riscv64": (274, 275)}
"""The system calls sched_setattr and sched_getattr, by machine: glibc before 2.41 has no functions for them."""
# struct sched_attr: size, policy, flags, nice, priority, runtime, deadline, period; native, in its first version
_ATTRIBUTES: Final = struct.Struct("=IIQiIQQQ")
_NORMAL: Final = 0
"""SCHED_OTHER."""
_RESET_ON_FORK: Final = 1


def shorten_slice() -> bool:
    """Gives the calling thread the short slice. Returns whether the kernel has accepted it."""
    numbers = _NUMBERS.get(os.uname().machine)
    if numbers is None:
        return False
    found = _read(numbers[1])
    if found is None:
        return False
    size, policy, flags, nice, priority, _, *rest = found
    if policy != _NORMAL:  # the operator's own choice
        return False
    flags |= _RESET_ON_FORK if nice >= 0 else 0
    changed = _ATTRIBUTES.pack(size, policy, flags, nice, priority, SLICE, *rest)
    ctypes.CDLL(None).syscall(numbers[0], 0, changed, 0)
    return slice_of_thread() == SLICE


def slice_of_thread() -> int | None:
    """The slice of its own that the calling thread has, in nanoseconds; None: that can't be known."""
    numbers = _NUMBERS.get(os.uname().machine)
    found = _read(numbers[1]) if numbers is not None else None
    return None if found is None else found[5]


def _read(number: int) -> tuple[int, ...] | None:
    """The calling thread's struct sched_attr; None: the system has none."""
    attributes = ctypes.create_string_buffer(_ATTRIBUTES.size)
    failed = ctypes.CDLL(None).syscall(number, 0, attributes, _ATTRIBUTES.size, 0)
    return None if failed else _ATTRIBUTES.unpack(attributes.raw)

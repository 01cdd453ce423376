"""The C library's allocator in a process that serves: freed memory is kept for later allocations.

Bodies pass as pieces of some 100 KiB to a MiB, made and freed thousands of times a second. glibc returns the end of its
heap to the kernel as soon as 128 KiB, later some 100 KiB more, are free there, and the next piece faults every page in
again, zeroed: a fifth of the CPU of an upload. So up to KEPT bytes stay in each of its arenas. Larger allocations than
OWN_MAPPING are mappings of their own, as ever, and are returned when they are freed.

Not for libraries or tests: it changes the whole process. Another C library than glibc has no such call.

https://man7.org/linux/man-pages/man3/mallopt.3.html
https://man7.org/linux/man-pages/man3/malloc_trim.3.html
"""

import ctypes
from typing import Final

from forebay.core.c_library import c_function

KEPT: Final = 16 << 20
OWN_MAPPING: Final = 8 << 20
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3


def keep_freed_memory() -> bool:
    """Has the allocator keep freed memory. Returns whether it does."""
    mallopt = c_function("mallopt", ctypes.c_int, ctypes.c_int)
    if mallopt is None:
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, OWN_MAPPING) and mallopt(_M_TRIM_THRESHOLD, KEPT))


def release_freed_memory() -> None:
    """Returns the allocator's free memory, of all its arenas, to the kernel. To be called after rare work: it takes
    some milliseconds, without the interpreter's lock."""
    malloc_trim = c_function("malloc_trim", ctypes.c_size_t)
    if malloc_trim is not None:
        malloc_trim(0)

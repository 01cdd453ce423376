"""Huge pages: moves the memory of a process that serves into pages of 2 MiB, once it has started.

Between two requests other programs use the core, and its caches of addresses are empty when the next one comes: code
and tables of Python, which are spread over thousands of pages of 4 KiB, are then found by a walk through the page
tables each, and in a virtual machine through two of them. In huge pages it is some dozens of walks.

Only memory that exists now is moved, and none if the system's administrator has set huge pages to `never`. The bytes
stay the same, and the process grows by the gaps of the pages that are moved, some 2 MiB.

Not for libraries or tests: it changes the whole process. Blocking, for some milliseconds; other threads go on.

https://man7.org/linux/man-pages/man2/madvise.2.html (MADV_COLLAPSE)
https://docs.kernel.org/admin-guide/mm/transhuge.html
"""

import ctypes
from pathlib import Path
from typing import Final

from forebay.core.c_library import c_function

HUGE: Final = 2 << 20
"""Bytes. Where a huge page is of another length (ARM with large pages), the kernel refuses."""
MOST: Final = 256
"""Huge pages that are tried: a large index of the SSD tier is no reason to serve late."""
_MADV_COLLAPSE: Final = 25
"""<asm-generic/mman-common.h>; Python's mmap does not name it."""
_SETTING: Final = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_MAPPINGS: Final = Path("/proc/self/maps")


def move_into_huge_pages() -> int:
    """Moves the memory that Python and the C library have allocated. Returns the number of its huge pages; 0 where the
    kernel has none."""
    madvise = c_function("madvise", ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    try:
        if madvise is None or "[never]" in _SETTING.read_text():
            return 0
        mappings = _MAPPINGS.read_text().splitlines()
    except OSError:  # another system, or hidden from a container
        return 0
    starts = [start for mapping in mappings for start in huge_starts(mapping)]
    return sum(madvise(start, HUGE, _MADV_COLLAPSE) == 0 for start in starts[:MOST])


def huge_starts(mapping: str) -> range:
    """Returns the addresses of the huge pages that a mapping has room for, if it is private memory without a file.
    `mapping`: a line of /proc/self/maps."""
    fields = mapping.split(maxsplit=5)
    if fields[1] != "rw-p" or (len(fields) > 5 and fields[5] != "[heap]"):
        return range(0)
    start, stop = (int(address, 16) for address in fields[0].split("-"))
    return range(-(-start // HUGE) * HUGE, stop - HUGE + 1, HUGE)

"""Reference bits: which blocks and heads were used since reclaim last looked (CLOCK). One byte each, in a file that
all processes of a Forebay map.

    offset     size  field
         0        1  1: the content of the directory is disowned (see `disown`); 2: its index is damaged (`suspect`)
         1     4095  zero
      4096  4194304  reference bytes; the slot of an address is its CRC-32 modulo their number

A use is a plain store of one byte into shared memory: no lock, no system call, no order. Two addresses that share a
slot make each other look used, which costs a little space and nothing else. A lost store costs less.

The file's blocks are allocated before it is mapped: a store into a hole of a full file system would kill the process
(SIGBUS). Where that fails, private memory replaces the file.
"""

import contextlib
import mmap
import os
from pathlib import Path
from typing import Final
from zlib import crc32

DISOWNED: Final = 1
SUSPECT: Final = 2
SLOTS: Final = 4 * 1024 * 1024
HEADER: Final = 4096
_MASK: Final = SLOTS - 1


class ReferenceBits:
    """The reference bytes of one directory."""

    def __init__(self, path: Path) -> None:
        self._bytes = _map_file(path)

    def mark(self, address: bytes) -> None:
        """Records a use of a block or a head."""
        self._bytes[HEADER + (crc32(address) & _MASK)] = 1

    def test_and_clear(self, address: bytes) -> bool:
        """Returns whether the address was marked, and clears the mark."""
        slot = HEADER + (crc32(address) & _MASK)
        marked = self._bytes[slot] != 0
        self._bytes[slot] = 0
        return marked

    @property
    def is_disowned(self) -> bool:
        """Whether nothing in the directory may be believed, for now at least."""
        return self._bytes[0] != 0

    @property
    def is_suspect(self) -> bool:
        """Whether that is because the index is damaged."""
        return self._bytes[0] == SUSPECT

    def disown(self) -> None:
        """Invalidates the whole directory for all processes: a removal could not be recorded."""
        self._bytes[0] = DISOWNED

    def suspect(self) -> None:
        """Turns the directory off for all processes until its index has been rebuilt."""
        if not self._bytes[0]:
            self._bytes[0] = SUSPECT

    def close(self) -> None:
        """Unmaps the file."""
        self._bytes.close()


def read_mark(path: Path) -> int:
    """Returns the mark in the file of a directory: 0, DISOWNED or SUSPECT. No process may have it open. Raises OSError
    if there is a file that can't be read: it may say that the content is disowned."""
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        return int.from_bytes(file.read(1), "big")
    return 0


def _map_file(path: Path) -> mmap.mmap:
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(fd, 0, HEADER + SLOTS)
            return mmap.mmap(fd, HEADER + SLOTS)
        finally:
            os.close(fd)
    return mmap.mmap(-1, HEADER + SLOTS)

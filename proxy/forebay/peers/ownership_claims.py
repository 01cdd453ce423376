"""Ownership claims: the first worker that fetches an object becomes its owner.

All workers of a node map one file, in the directory of their sockets:

    offset     size  field
         0     4096  a counter for each worker, 8 bytes: its claims for itself
      4096  8388608  a slot for each remainder, 1 byte: 0 without an owner, else the number of the owner, from 1

The hash of an object's name, modulo the number of slots, gives its slot. Objects of one slot have one owner.

    claim     before a fetch: the worker becomes the owner of a free slot, so that it need not relay the bytes
    assign    at a mere look-up of a free slot: the owner by hash (policy.ownership) becomes its owner

Invariants:
- A slot is written once, under a lock of its byte, before the fetch begins: all workers see the same owner. The kernel
  releases the lock when a process ends. A restarted worker has the number and the slots of the one before.
- A worker has at most AHEAD claims, and an eighth, more than any other; beyond that the owner by hash gets the slot. So
  a client of one worker alone fills the memory of all.
- Without the lock (its holder is stopped between two steps), the owner by hash serves for this one time, and nothing is
  recorded. At worst two workers fetch one object.

As slots fill up, more and more new objects find an owner in their slot, by chance as by a hash.
"""

import fcntl
import mmap
import os
import struct
from pathlib import Path
from typing import Final, Self

FILE_NAME: Final = "claims"
SLOTS: Final = 8 * 1024 * 1024
HEADER: Final = 4096
AHEAD: Final = 256
SHARE_AHEAD: Final = 8
"""A worker's claims may exceed the least busy worker's by one in so many: no two workers are equally busy."""
MAX_WORKERS: Final = 255
_ATTEMPTS: Final = 100
"""Attempts at the lock. After each, the scheduler may run the holder."""
_MASK: Final = SLOTS - 1
_COUNT: Final = 8
_FLOCK: Final = struct.Struct("hhqqixxxx")
"""struct flock, see fcntl(2): kind, whence, start, length, process."""


class OwnershipClaims:
    """One worker's view of the claims of its node. Made by `open`."""

    def __init__(self, fd: int, number: int, workers: int) -> None:
        self._fd = fd
        self._number = number
        # Populated: otherwise each of the first claims would take two page faults.
        self._owners = mmap.mmap(fd, HEADER + SLOTS, mmap.MAP_SHARED | mmap.MAP_POPULATE)
        self._counts = memoryview(self._owners)[: workers * _COUNT].cast("Q")

    @classmethod
    def open(cls, path: Path, number: int, workers: int) -> Self | None:
        """Maps the file, and makes it if there is none. `number`: of this worker. Returns None if the file can't be
        mapped: this worker then knows owners by hash alone, which costs flights, never a wrong byte."""
        if workers > MAX_WORKERS:
            return None
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return None
        try:
            os.posix_fallocate(fd, 0, HEADER + SLOTS)  # a store to a hole, with the disk full, is a SIGBUS
            return cls(fd, number, workers)
        except OSError:
            os.close(fd)
            return None

    def find(self, name_hash: int) -> int | None:
        """Returns the number of the owner of objects with this hash; None: the slot is free."""
        owner = self._owners[HEADER + (name_hash & _MASK)]
        return owner - 1 if owner else None

    def assign(self, name_hash: int, number: int) -> int:
        """Makes worker `number` the owner of objects with this hash if the slot is free. Returns the owner, or `number`
        without the lock."""
        slot = HEADER + (name_hash & _MASK)
        owner = self._owners[slot] or self._record(slot, number + 1)
        return owner - 1 if owner else number

    def claim(self, name_hash: int) -> int | None:
        """Makes this worker the owner of objects with this hash if the slot is free. Returns the owner; None if this
        worker's claims run ahead, or without the lock: the caller assigns an owner."""
        slot = HEADER + (name_hash & _MASK)
        owner = self._owners[slot]
        if owner:
            return owner - 1
        counts, number = self._counts, self._number
        least = min(counts)
        if counts[number] > least + least // SHARE_AHEAD + AHEAD:
            return None
        owner = self._record(slot, number + 1)
        counts[number] += owner == number + 1
        return owner - 1 if owner else None

    def close(self) -> None:
        """Unmaps the file."""
        self._counts.release()
        self._owners.close()
        os.close(self._fd)

    def _record(self, slot: int, owner: int) -> int:
        """Writes an owner, from 1, to a free slot. Returns the slot's owner; 0 without the lock if the slot is free."""
        if not self._try_lock(slot):
            return self._owners[slot]
        try:
            if not self._owners[slot]:
                self._owners[slot] = owner
            return self._owners[slot]
        finally:
            fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, slot, 1, 0))

    def _try_lock(self, slot: int) -> bool:
        wanted = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, slot, 1, 0)
        for _ in range(_ATTEMPTS):
            try:
                fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, wanted)
            except OSError:
                os.sched_yield()
            else:
                return True
        return False

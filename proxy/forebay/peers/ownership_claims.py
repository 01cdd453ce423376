"""Ownership claims: an object without an owner belongs to the worker that is asked for it first.

    offset     size  field                   a file in the directory of the workers' sockets, which all of them map
         0     4096  claims that each worker has made for itself, 8 bytes for each
      4096  8388608  owners: 0 nobody yet, else the number of the worker, from 1

The slot of an object is its name's hash modulo their number; objects that share a slot have one owner. A worker that
begins to fetch an object claims the slot for itself, so that the bytes need not come from another worker. A worker that
only looks up the owner of an unclaimed slot gives it to the owner by hash (policy.ownership). Either way it is recorded
before anything is done about it, once, and stays.

Invariants:
- a slot is written once, under a lock of its byte, which the kernel releases when a process ends: all workers see the
  same owner. A worker that is started in place of another one has its number, and its slots;
- a worker makes at most an eighth and AHEAD more claims for itself than any other one: beyond, ownership goes by hash.
  So the objects of a client that talks to one worker alone are spread over the memory of all;
- where the lock can't be had (its holder is stopped in the middle of these few steps), ownership by hash is assumed for
  once, and nothing is recorded: at the worst two workers fetch one object.

As slots fill up, more and more new objects have an owner by chance, as they would by hash.
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
"""Workers whose clients are about as busy need not wait for each other."""
MAX_WORKERS: Final = 255
_ATTEMPTS: Final = 100
"""At the lock. Each lets whoever holds it run."""
_MASK: Final = SLOTS - 1
_COUNT: Final = 8
_FLOCK: Final = struct.Struct("hhqqixxxx")
"""struct flock, see fcntl(2): kind, whence, start, length, process."""


class OwnershipClaims:
    """The claims of one node, as one of its workers sees and makes them. Made by `open`."""

    def __init__(self, fd: int, number: int, workers: int) -> None:
        self._fd = fd
        self._number = number
        # Populated: the first claims would meet a page that is not mapped each, two faults apiece.
        self._owners = mmap.mmap(fd, HEADER + SLOTS, mmap.MAP_SHARED | mmap.MAP_POPULATE)
        self._counts = memoryview(self._owners)[: workers * _COUNT].cast("Q")

    @classmethod
    def open(cls, path: Path, number: int, workers: int) -> Self | None:
        """Maps the file, which is made if need be. `number`: of this worker. None if that is not possible: ownership
        goes by hash then, in this worker alone, which costs flights but no bytes are wrong."""
        if workers > MAX_WORKERS:
            return None
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return None
        try:
            os.posix_fallocate(fd, 0, HEADER + SLOTS)  # a store into a hole of a full file system would be a SIGBUS
            return cls(fd, number, workers)
        except OSError:
            os.close(fd)
            return None

    def find(self, name_hash: int) -> int | None:
        """Returns the number of the worker that owns objects with this hash; None: they have no owner."""
        owner = self._owners[HEADER + (name_hash & _MASK)]
        return owner - 1 if owner else None

    def assign(self, name_hash: int, number: int) -> int:
        """Makes a worker the owner of objects with this hash, unless they have one. Returns the owner; `number` also if
        that can't be found out."""
        slot = HEADER + (name_hash & _MASK)
        owner = self._owners[slot] or self._record(slot, number + 1)
        return owner - 1 if owner else number

    def claim(self, name_hash: int) -> int | None:
        """Makes this worker the owner of objects with this hash, unless they have one. Returns the owner; None if it is
        too far ahead, or that can't be found out: another one is to be assigned."""
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
        """Records an owner, from 1, of a slot without one. Returns the one it has; 0 if that can't be found out."""
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

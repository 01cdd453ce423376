"""Which slices were found to be what they should, lately: they are sent from where they lie, and not checked again.

    block's address ─> its row in the index, the slices that were checked, a bit each, the state of the file, since when

A check stands for as long as all of this holds:

- the same is asked for: the same block, by a row that says the same place and length;
- the file is in the state it was in when the check began: its ctime, size and inode are the same. The kernel
  sets the ctime at each change made through the file system, and nobody can set it to what they like. Its clock is
  coarse, so a change right after a check could leave the ctime as it is: as git does with its index, a check is
  remembered only if the last change was well over when it began (SETTLED);
- it is younger than STANDS.

A segment that is being appended to changes all the time: what is read of it is checked each time until it rests. What
is not seen is a device that gives other bytes, and no error, for pages that left the page cache and were read again
within STANDS: see docs/decisions/0022-send-verified-extents-unread.md.

Time is an argument: seconds since the epoch, as those of the kernel's timestamps. Should that clock be set back, a
check stands for longer by as much, at most twice STANDS. https://git-scm.com/docs/racy-git
"""

from threading import Lock
from typing import Final, TypeAlias

from forebay.storage.ssd.segments import FileState

VALID_SECONDS: Final = 60.0
"""Seconds. Long enough that what is read often is hardly ever checked; short enough that bytes which a bad device has
changed are sent for a minute at the most."""
SETTLED_SECONDS: Final = 2.0
"""Seconds since the last change of a file. The kernel's timestamps are up to 10 ms old (a tick of 100 Hz), and ext4
with small inodes keeps whole seconds only."""
MAX_BLOCKS: Final = 32_768
"""Blocks that are remembered: some 400 bytes each, 13 MB in all."""

VerifiedSlices: TypeAlias = tuple[bytes, int, FileState, float]
"""The row, the slices, the state, and when the first of them was checked. A plain tuple, as it is looked at for each
hit."""


class VerifiedExtents:
    """Of one process. Safe to use from several threads."""

    def __init__(self, most: int = MAX_BLOCKS) -> None:
        self._most = most
        self._checks: dict[bytes, VerifiedSlices] = {}
        """By address; what was checked first is the first to go."""
        self._lock = Lock()

    def __len__(self) -> int:
        """How many blocks are remembered."""
        return len(self._checks)

    def slices(self, address: bytes, row: bytes, state: FileState, now: float) -> int:
        """The slices of the block that need not be checked now, if this is its row, and its file in this state."""
        check = self._checks.get(address)
        if check is None or check[0] != row or check[2] != state or not check[3] <= now < check[3] + VALID_SECONDS:
            return 0
        return check[1]

    def add(self, address: bytes, row: bytes, state: FileState, slices: int, began: float) -> None:
        """These slices were read and are what they should be. `state`: what the file was in before they were read, and
        `began`: what the time was before that."""
        if state[0] > (began - SETTLED_SECONDS) * 1e9:
            return
        with self._lock:
            before = self._checks.get(address)
            if before is not None and self.slices(address, row, state, began):
                self._checks[address] = (row, before[1] | slices, before[2], before[3])
                return
            self._checks.pop(address, None)
            self._checks[address] = (row, slices, state, began)
            while len(self._checks) > self._most:
                del self._checks[next(iter(self._checks))]


def slice_bits(slices: range) -> int:
    """A run of slices as one bit each."""
    return ((1 << len(slices)) - 1) << slices.start

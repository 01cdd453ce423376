"""The space of a spool: the bytes that its bodies may have, in all and in memory.

Bytes are reserved before they arrive, in the space and in the budget of all buffers, and charged as they arrive, so a
body that drips costs what has come of it. Bytes that have moved to a file keep their space and release their memory.
"""

from forebay.core.errors import SpoolFull
from forebay.core.fair_semaphore import FairSemaphore


def spool_full() -> SpoolFull:
    """The failure to reserve space in a spool that has reached its limit."""
    return SpoolFull("No room is left to hold small parts and bodies of unknown length (limits.held).")


class SpoolSpace:
    """`limit`: bytes, in memory and files together. `share`: of them in memory. `wait`: seconds to wait for memory."""

    def __init__(self, limit: int, budget: FairSemaphore, *, share: int, wait: float) -> None:
        self.limit = limit
        self._budget = budget
        self._share = share
        self._wait = wait
        self.in_use = 0
        """Bytes that were reserved and not yet released."""
        self.in_memory = 0
        """The bytes of these that are in memory."""

    @property
    def is_over_share(self) -> bool:
        """Whether bytes should be spilled: there are more in memory than the share, or others wait for memory."""
        return self.in_memory > self._share or self._budget.waiting > 0

    def has(self, size: int) -> bool:
        """Returns whether `size` bytes more are within the limit."""
        return self.in_use + size <= self.limit

    async def reserve(self, size: int) -> None:
        """Reserves space and memory for `size` bytes. Raises SpoolFull at the limit, Throttled if no memory comes
        free."""
        if not self.has(size):
            raise spool_full()
        self.in_use += size
        try:
            await self._budget.acquire(size, self._wait)
        except BaseException:
            self.in_use -= size
            raise
        self.in_memory += size

    def try_reserve(self, size: int) -> bool:
        """Reserves space and memory for `size` bytes if both are free. Returns whether it did."""
        if not self.has(size) or not self._budget.try_acquire(size):
            return False
        self.in_use += size
        self.in_memory += size
        return True

    def release_memory(self, size: int) -> None:
        """Releases the memory of `size` bytes, which keep their space."""
        self.in_memory -= size
        self._budget.release(size)

    def release(self, size: int) -> None:
        """Releases the space of `size` bytes, whose memory has been released."""
        self.in_use -= size

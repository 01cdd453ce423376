"""The batch window: how many entries of a batch may be on their way at once.

Small objects need many at once, to hide the round trip to the origin; a few large ones fill the link, and more would
take the buffers of others. The size of an object is not known before it is opened, so a batch begins with few entries,
and its window follows the mean size of those that it has opened.
"""

from typing import Final

MAX_ENTRIES: Final = 64
"""Entries on their way at most."""
MAX_BYTES: Final = 32 << 20
"""Bytes of them at most, unless one entry alone is larger."""
FIRST_ENTRIES: Final = 8
"""Entries before the first size is known."""


class BatchWindow:
    """The window of one batch."""

    __slots__ = ("_bytes", "_count", "entries")

    def __init__(self) -> None:
        self._bytes = self._count = 0
        self.entries = FIRST_ENTRIES
        """The number of entries that may be on their way."""

    def learn(self, size: int) -> None:
        """An entry has `size` bytes."""
        self._bytes += size
        self._count += 1
        self.entries = max(1, min(MAX_ENTRIES, MAX_BYTES * self._count // max(1, self._bytes)))

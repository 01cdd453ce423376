"""Sentinels: a sample of an epoch's reads. Many repeated sentinels are a sign of a new epoch. Pure.

    reads ──> the first EARLY, then one in SHARE, by its hash ──> are REPEATED of the latest JUDGED sentinels repeated?
                                                                    └─yes─> the recorder checks each read

One search for a byte in the hashes skips all other reads, so only sentinels cost time in Python. In a large epoch the
share becomes smaller, and bounds their number. A few repeated sentinels are no sign: with several workers, an epoch
begins with late reports of reads of the epoch before.
"""

from typing import Final

from forebay.core.read_hashes import ReadHashes, numbers_below

SHARE: Final = 16
EARLY: Final = 256
"""The first reads of an epoch are all sentinels, for the sake of small epochs."""
MAX_SENTINELS: Final = 4096
JUDGED: Final = 8
REPEATED: Final = 4
"""The repeated sentinels that end an epoch. Nearly all are repeated behind its end; half of them, if two ranks read the
same samples."""
_HISTORY: Final = (1 << JUDGED) - 1


class RepeatSentinels:
    """The sentinels of one epoch."""

    __slots__ = ("_doubtful", "_early", "_history", "_seen", "_threshold")

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._early = EARLY
        self._threshold = (1 << 32) // SHARE
        self._history = 0
        """A bit for each of the latest JUDGED sentinels, the latest lowest: 1 if it is repeated."""
        self._doubtful = 0
        """Reads of the latest batches, back to the first batch with a repeated sentinel in the history."""

    def __len__(self) -> int:
        return len(self._seen)

    @property
    def unchecked(self) -> int:
        """The number of the latest reads that may contain repeated ones of a new epoch. More are very unlikely."""
        return self._doubtful + JUDGED * ((1 << 32) // self._threshold)

    def add(self, hashes: ReadHashes) -> bool:
        """Adds reads, by their hashes. Returns False at the sign of a new epoch; nothing may be added after that."""
        others = hashes[self._early :] if self._early else hashes
        found = hashes[: self._early].tolist()
        found += [others[number] for number in numbers_below(others, self._threshold)]
        self._early = max(0, self._early - len(hashes))
        fresh, seen = set(found), self._seen
        if len(fresh) == len(found) and seen.isdisjoint(fresh):
            self._history = self._history << len(found) & _HISTORY
        else:
            fresh.clear()
            for each in found:
                self._history = (self._history << 1 | (each in seen or each in fresh)) & _HISTORY
                fresh.add(each)
                if self._history.bit_count() >= REPEATED:
                    return False
        self._doubtful = self._doubtful + len(hashes) if self._history else 0
        seen.update(fresh)
        while len(seen) > MAX_SENTINELS:
            self._threshold >>= 1
            seen = self._seen = {each for each in seen if each < self._threshold}
        return True

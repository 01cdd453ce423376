"""Sentinels: a few reads of an epoch, whose repetition shows that a new epoch may have begun. Pure.

    reads ──> one in SHARE, by their hashes, and the first ones all ──> were REPEATED of the latest JUDGED made before?
                                                                        then look closely

Only a sentinel costs anything in Python: the others are passed by in one search for a byte. How many there are is
bounded, as the share becomes smaller in a large epoch. Single repeated reads are passed by as well: an epoch begins
with some of the one before when several workers answer its reads.
"""

from typing import Final

from forebay.core.read_hashes import ReadHashes, numbers_below

SHARE: Final = 16
EARLY: Final = 256
"""The first reads of an epoch are all sentinels: it may have no more."""
MAX_SENTINELS: Final = 4096
JUDGED: Final = 8
REPEATED: Final = 4
"""So many of the latest JUDGED sentinels: behind the end of an epoch nearly all are repeated, of two ranks half."""
_HISTORY: Final = (1 << JUDGED) - 1


class RepeatSentinels:
    """The sentinels of one epoch."""

    __slots__ = ("_doubtful", "_early", "_history", "_seen", "_threshold")

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._early = EARLY
        self._threshold = (1 << 32) // SHARE
        self._history = 0
        """A bit for each of the latest JUDGED: whether it was repeated."""
        self._doubtful = 0
        """Reads of the latest batches, as far as the history reaches with a repeated one."""

    def __len__(self) -> int:
        return len(self._seen)

    @property
    def unnoticed(self) -> int:
        """Reads before those that were not passed by, among which there may be repeated ones: hardly ever more."""
        return self._doubtful + JUDGED * ((1 << 32) // self._threshold)

    def add(self, hashes: ReadHashes) -> bool:
        """Adds reads. Returns False if so many sentinels are repeated that the reads have to be looked at; nothing may
        be added after that."""
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

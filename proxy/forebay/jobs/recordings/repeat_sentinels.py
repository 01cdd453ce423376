"""Sentinels: a few reads of an epoch, whose repetition shows that a new epoch may have begun. Pure.

    reads ──> one in SHARE, by their hashes, and the first ones all ──> was one of them made before?  then look closely

Only a sentinel costs anything in Python: the others are passed by in one search for a byte. How many there are is
bounded, as the share becomes smaller in a large epoch.
"""

from typing import Final

from forebay.core.read_hashes import ReadHashes, numbers_below

SHARE: Final = 16
EARLY: Final = 256
"""The first reads of an epoch are all sentinels: it may have no more."""
MAX_SENTINELS: Final = 4096


class RepeatSentinels:
    """The sentinels of one epoch."""

    __slots__ = ("_early", "_seen", "_threshold")

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._early = EARLY
        self._threshold = (1 << 32) // SHARE

    def __len__(self) -> int:
        return len(self._seen)

    def add_unrepeated(self, hashes: ReadHashes) -> bool:
        """Adds reads. Returns False if a sentinel among them is repeated; nothing may be added after that."""
        others = hashes[self._early :] if self._early else hashes
        found = [others[number] for number in numbers_below(others, self._threshold)]
        found += hashes[: self._early]
        self._early = max(0, self._early - len(hashes))
        seen, known = self._seen, len(self._seen)
        if not seen.isdisjoint(found):
            return False
        seen.update(found)
        if len(seen) < known + len(found):
            return False
        while len(seen) > MAX_SENTINELS:
            self._threshold >>= 1
            seen = self._seen = {each for each in seen if each < self._threshold}
        return True

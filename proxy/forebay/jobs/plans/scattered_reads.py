"""Scattered reads: tells whether a plan's latest reads are of the epoch that they were matched in, or of a later one.

    reader of the window    a b c d        near one another: their loader's workers read a batch each
    reader of epoch 7       d    a   c  b  matched in epoch 1, whose order is another: scattered over it

An epoch of fewer entries than the window holds is matched as a whole, whichever epoch is read. Reads that are scattered
are looked for further on: where READS of them are at most half as far apart, and at most half as far as each of these
keys is from the next of its kind, there is the reader. By chance, that is so in one of 10 million epochs.

Entries that are ranges are not looked at: workers that read a large object each are as far apart as they like. Pure.
"""

from collections.abc import Callable
from typing import Final

READS: Final = 32
"""Latest reads of different keys."""
MOST_READS: Final = 4096
"""Reads between two searches, after searches that found nothing: of a loader whose workers are far apart. The next one
comes sooner once reads are four times as scattered."""
ROUNDS: Final = 32
"""Places at most at which the keys are compared in one search."""

_NEAR: Final = READS * 3 // 4
"""Reads that must be scattered: some may be of entries that were left out long ago."""


class ScatteredReads:
    """The latest reads of one plan that were matched."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._reads, self._unseen = 0, 0
        """Reads since the last search, and since the last look at how scattered they are."""
        self._wanted = READS
        self._searched = 0
        """The scatter of the reads of the last search; 0: it found something."""
        self._repeats = True
        """Whether keys come again in the plan."""

    def entry_read(self, key: str, number: int) -> None:
        """An entry that is a whole object was read."""
        self._numbers.pop(key, None)
        self._numbers[key] = number
        if len(self._numbers) > READS:
            del self._numbers[next(iter(self._numbers))]
        self._reads += 1
        self._unseen += 1

    def is_due(self) -> bool:
        """Whether the reader is to be looked for further on: asked anew after READS reads that are near one another."""
        if self._unseen < READS or len(self._numbers) < READS or not self._repeats:
            return False
        self._unseen, spread = 0, self._spread()
        if spread < 2 * READS:
            self._reads, self._wanted, self._searched = 0, READS, 0
            return False
        if self._searched and spread >= 4 * self._searched:  # soon, when all of them are
            self._reads, self._wanted, self._searched = 0, READS, spread
        return self._reads >= self._wanted

    def _spread(self) -> int:
        """Entries over which most of the reads are scattered, where they were matched."""
        numbers = sorted(self._numbers.values())
        return min(last - first for first, last in zip(numbers, numbers[_NEAR - 1 :], strict=False))

    def begin(self) -> Callable[[Callable[[str, int], int | None], int], int | None]:
        """Returns the search, which may run in a thread: by `find(key, after)`, of the first entry from `after` on that
        the reader is at; None: that is not known."""
        keys, spread = tuple(self._numbers), self._spread()

        def search(find: Callable[[str, int], int | None], after: int) -> int | None:
            positions = dict.fromkeys(keys, -1)
            width = -1
            for _ in range(ROUNDS):
                for key, position in positions.items():
                    if position < after:
                        found = find(key, after)
                        if found is None:
                            self._repeats = self._repeats and width >= 0
                            return None
                        positions[key] = found
                if width < 0:
                    width = min(spread, _distance(positions, after, find)) // 2
                first, last = min(positions.values()), max(positions.values())
                if last - first <= width:
                    return _nearest(positions, find)
                after = last - width
            return None

        return search

    def end(self, is_found: bool) -> None:
        """The search has ended."""
        self._reads = 0
        self._wanted = READS if is_found else min(2 * self._wanted, MOST_READS)
        self._searched = 0 if is_found else self._spread()
        if is_found:
            self._numbers.clear()


def _distance(positions: dict[str, int], after: int, find: Callable[[str, int], int | None]) -> int:
    """Entries on average from one of a key to the next: behind these positions, or else before them."""
    known = [each - at for key, at in positions.items() if (each := find(key, at + 1)) is not None]
    known = known if 2 * len(known) >= len(positions) else [at - after for at in positions.values()]
    return sum(known) // len(known)


def _nearest(positions: dict[str, int], find: Callable[[str, int], int | None]) -> int:
    """The first of the positions, where those before the others are moved on to where the keys come again, as long as
    all come nearer: some were the end of the epoch before."""
    first, last = min(positions.values()), max(positions.values())
    while True:
        key = min(positions, key=positions.__getitem__)
        following = find(key, first + 1)
        if following is None:
            return first
        positions[key] = following
        behind, end = min(positions.values()), max(last, following)
        if end - behind >= last - first:
            return first
        first, last = behind, end

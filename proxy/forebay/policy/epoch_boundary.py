"""Epoch boundary: finds the end of one reader's epoch, for recordings, by reads that repeat. Pure.

A pass reads each sample once, so a new one shows by repetition. Not every repetition is one: ranks of a job read the
same sample at about the same time, and an index is read now and then. So a read counts as *old* if it was in this epoch
before, and not in its latest eighth; and an epoch ends when OLD_OF of the latest JUDGED anchors are old:

    epoch 1   a b c d e f g h i j k l m n o p                  epoch 2   k c p a f ...
    repeats                 ^i (recent: a rank)                          ^ ^ . ^ ^    (. not old: in the latest eighth)

Sampling with replacement has epochs of about as many reads as there are samples. Anchors are those of `recognition`.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

from forebay.core.read_hashes import ReadHashes
from forebay.policy.anchor_index import AnchorIndex

JUDGED: Final = 16
OLD_OF: Final = 8
_SEARCHED: Final = 64
"""The latest anchors among which the first old one is the beginning of the new epoch."""
_LEAST: Final = 2 * JUDGED
"""Reads without which nothing is judged: the same few samples may come again and again at the beginning."""
_RECENT: Final = 8
"""One in so many reads of the epoch, the latest, do not count as old."""


def is_old(earlier: int, position: int) -> bool:
    """Whether the read at `position` of an epoch repeats the one at `earlier` as a new epoch would."""
    return position - earlier > max(1, position // _RECENT)


class EpochBoundary:
    """Looks for the end of one epoch, of which the reads of `known` were made. `index`: of its reads so far."""

    __slots__ = ("_latest", "index")

    def __init__(self, known: AnchorIndex | None = None) -> None:
        self.index = AnchorIndex() if known is None else known
        self._latest: deque[tuple[int, bool]] = deque(maxlen=_SEARCHED)
        """The latest anchors: the position of each read, and whether it is old."""

    def add_new(self, hashes: ReadHashes) -> bool:
        """Appends reads if the anchors among them differ from each other and from all of the epoch. Returns whether
        they do."""
        index = self.index
        if not index.extend_new(hashes):
            return False
        self._note_new(len(hashes))
        return True

    def append(self, hashes: ReadHashes) -> None:
        """Appends reads that are new, but for the odd one: nothing is looked up."""
        self.index.append(hashes)
        self._note_new(len(hashes))

    def _note_new(self, reads: int) -> None:
        count = self.index.count
        self._latest.extend([(position, False) for position in range(max(count - _SEARCHED, count - reads), count)])

    def add(self, hashes: Sequence[int]) -> int | None:
        """Appends reads. Returns the position at which the next epoch began, once it is known that one did."""
        index, latest = self.index, self._latest
        anchors = index.extend(hashes)
        for start in range(0, len(anchors), OLD_OF):
            for found, position in anchors[start : start + OLD_OF]:
                latest.append((position, is_old(index.positions.get(found, position), position)))
            if latest[-1][0] < _LEAST:
                continue
            if sum(repeats for _, repeats in list(latest)[-JUDGED:]) >= OLD_OF:
                return next(position for position, repeats in latest if repeats)
        return None

"""Epochs: where one pass over a data set ends and the next begins, seen from the reads alone. Pure.

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

from forebay.policy.recognition import AnchorIndex

JUDGED: Final = 16
OLD_OF: Final = 8
_SEARCHED: Final = 64
"""The latest anchors among which the first old one is the beginning of the new epoch."""
_RECENT: Final = 8
"""One in so many reads of the epoch, the latest, do not count as old."""


def is_old(earlier: int, position: int) -> bool:
    """Whether the read at `position` of an epoch repeats the one at `earlier` as a new epoch would."""
    return position - earlier > max(1, position // _RECENT)


class EpochBoundary:
    """Looks for the end of one epoch. `index`: of its reads so far."""

    __slots__ = ("_latest", "index")

    def __init__(self) -> None:
        self.index = AnchorIndex()
        self._latest: deque[tuple[int, bool]] = deque(maxlen=_SEARCHED)
        """Of the latest anchors: the position of the read, and whether it is old."""

    def add(self, hashes: Sequence[int]) -> int | None:
        """Appends reads. Returns the position at which the next epoch began, once it is known that one did."""
        index, latest = self.index, self._latest
        positions, threshold = index.positions, index.threshold
        for position, found in enumerate(hashes, index.count):
            if found < threshold:
                earlier = positions.setdefault(found, position)
                latest.append((position, is_old(earlier, position)))
        index.extend(hashes)
        judged = list(latest)[-JUDGED:]
        if sum(repeats for _, repeats in judged) < OLD_OF:
            return None
        return next(position for position, repeats in latest if repeats)

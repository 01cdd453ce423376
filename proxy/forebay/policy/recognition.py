"""Recognition: whether the latest reads follow a recording, and at which position. Pure.

A loader with W workers reads each batch in a process of its own, so reads arrive in the recorded order only within a
window that nobody knows here. Two jobs may read through one key, each along its own order. So no sequence is compared
with another; positions are:

    latest reads       k8  k3  k9  k1  x   k7  k4  k2 ...
    their positions    812 803 815 799 -   808 801 806       in the recording, whatever their order
                       within 16 of a million                by chance? no: C(8, 7) * 7 * (16 / 10^6)^6

`evidence` is the logarithm of that chance, and EVIDENCE is demanded. Eight reads exactly one after another count as
well, which tells small sets apart: by chance that is n^-7.

A recording keeps the positions of its anchors alone (policy.anchor_index), so its memory is bounded, and a read that is
no anchor costs one comparison.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, repeat
from math import comb, exp, log
from operator import sub
from typing import Final

from forebay.core.read_hashes import ReadHashes
from forebay.policy.anchor_index import AnchorIndex

WINDOW: Final = 64
"""The latest anchors that are judged."""
EVIDENCE: Final = -log(1e-9)
"""Chance is less likely than this: at twenty judgements a second of eight recordings, it errs once in two months."""
_CLOSE: Final = ((6, 6), (8, 8), (10, 10), (12, 12), (16, 14), (16, 16), (32, 16), (64, 32))
"""Pairs: a number of the latest reads, and how many of them have to lie close to each other. All of them: the more
there are, the further apart may a loader's workers be. Half of them: two jobs may alternate."""
_IN_ROW: Final = 8

PARTED_OF: Final = 64
PARTED_BELOW: Final = 14
"""A reader has parted from a recording when fewer than so many of its latest anchors are near its position: of two jobs
that alternate, 32 are, give or take 4."""
PARTED_AT_ONCE: Final = 24
"""A reader has also parted after so many anchors in a row that are not near."""
_MIN_SLACK: Final = 64
"""Positions that a reader may be away from where it is expected, at least: several batches."""
_ENOUGH: Final = 16
"""The number of the latest anchors that tell a reader's position, if all are near: no other is looked at then."""
_MAX_GAP: Final = 8
"""Anchors that are further apart than so many times their mean are too rare to matter."""


@dataclass(frozen=True, slots=True)
class RecordingMatch:
    """The position of the latest reads in a recording."""

    position: int
    """The first of the reads that lie close to each other."""
    spread: int
    """Positions from there to the last of them."""
    evidence: float
    """Minus the logarithm of the chance that reads of another order look like this."""


def judge(positions: Sequence[int], count: int) -> RecordingMatch | None:
    """Returns the match of the latest anchors' `positions` (oldest first; -1: not in the recording) with a recording of
    `count` reads; None: it may be chance."""
    best: RecordingMatch | None = None
    few = positions[-_CLOSE[0][0] :]
    is_wide = max(few, default=0) - min(few, default=0) >= _WIDEST * count
    for latest, close, share in _JUDGED:
        if latest > len(positions):
            break
        if close == latest and is_wide:
            continue
        recent = positions[-latest:]
        if close == latest and max(recent) - min(recent) >= share * count:
            continue
        ordered = sorted(recent)
        known = bisect_left(ordered, 0)
        if latest - known < close or min(map(sub, ordered[known + close - 1 :], ordered[known:])) >= share * count:
            continue
        # A set: an object that is read again and again lies close to itself.
        found = sorted(set(ordered[known:]))
        if len(found) < close:
            continue
        spreads = list(map(sub, found[close - 1 :], found))
        spread = min(spreads)
        if spread + 1 <= share * count:
            evidence = _evidence(latest, close, (spread + 1) / count)
            if best is None or evidence > best.evidence:
                best = RecordingMatch(found[spreads.index(spread)], spread, evidence)
    if best is None and _are_in_row(positions[-_IN_ROW:]):
        evidence = (_IN_ROW - 1) * log(count)
        if evidence >= EVIDENCE:
            best = RecordingMatch(positions[-_IN_ROW], _IN_ROW - 1, evidence)
    return best


def _evidence(latest: int, close: int, share: float) -> float:
    if share >= 1:
        return 0.0
    return -(log(comb(latest, close)) + log(close) + (close - 1) * log(share))


_JUDGED: Final = tuple(
    (latest, close, exp(-(EVIDENCE + log(comb(latest, close)) + log(close)) / (close - 1))) for latest, close in _CLOSE
)
"""And the share of the recording that they may be spread over at most, for chance to be unlikely enough."""
_WIDEST: Final = max(share for latest, close, share in _JUDGED if latest == close)


def _are_in_row(positions: Sequence[int]) -> bool:
    return (
        len(positions) == _IN_ROW
        and positions[0] >= 0
        and all(later - earlier == 1 for earlier, later in pairwise(positions))
    )


class Recogniser:
    """Compares the reads of one reader with one recording."""

    __slots__ = ("_index", "_positions")

    def __init__(self, index: AnchorIndex) -> None:
        self._index = index
        self._positions: deque[int] = deque(maxlen=WINDOW)

    def observe(self, hashes: ReadHashes) -> RecordingMatch | None:
        """Adds reads. Returns where they are in the recording; None: they go another way, or it is too early to say."""
        index = self._index
        positions = index.positions
        anchors = index.anchors(hashes)
        if not anchors:
            return None
        self._positions.extend(map(positions.get, anchors[-WINDOW:], repeat(-1)))
        return judge(tuple(self._positions), index.count)

    def forget(self) -> None:
        """Begins anew."""
        self._positions.clear()


class FollowedReader:
    """The position of a reader that goes along a recording, and whether it still does."""

    __slots__ = ("_away", "_end", "_index", "_near", "_slack", "furthest", "looked_at", "position", "start")

    def __init__(self, index: AnchorIndex, match: RecordingMatch) -> None:
        self._index = index
        self._slack = max(_MIN_SLACK, 4 * match.spread, _MAX_GAP * index.spacing)
        self._near: deque[int] = deque([max(0, match.position - match.spread)] * PARTED_OF, maxlen=PARTED_OF)
        """The positions of the latest anchors; -1 for those that were not near. At first where a worker of the loader
        may be that has hardly read yet."""
        self._end = index.count - max(1, index.count // 50) - 1
        """All but a window is before this position."""
        self._away = 0
        """Anchors since the last that was near."""
        self.start = match.position
        """The position at which the reader was recognised."""
        self.position = match.position + match.spread
        """The estimated position of the reader."""
        self.furthest = self.position
        self.looked_at = 0
        """The number of the latest added reads that were compared."""

    def observe(self, hashes: ReadHashes) -> bool:
        """Adds reads. Returns whether the reader still goes along, or is at its end: then the rest was not looked at.
        As long as the latest ones are near, the others are."""
        index, slack = self._index, self._slack + len(hashes)
        known = index.positions
        latest = index.anchors(hashes[-PARTED_OF * index.spacing :])[-PARTED_OF:]
        near = [known.get(found, -1) for found in latest]
        if len(near) >= _ENOUGH:
            first, last = min(near), max(near)
            low, high = max(0, self.position - slack), self.position + slack + len(near) * index.spacing // 2
            # From the middle of the latest ones, where the position is. The next epoch may begin in a small recording.
            if low <= first and last <= high and (low > 0 or last < self._end):
                self._near.extend(near)
                self._away = 0
                self.position = sorted(near)[len(near) // 2]
                self.furthest = max(self.furthest, last)
                self.looked_at = len(hashes)
                return True
        for found in index.anchors(hashes):
            position = known.get(found, -1)
            is_near = position >= 0 and abs(position - self.position) <= slack
            self._near.append(position if is_near else -1)
            self._away += 1
            if is_near:
                self._away = 0
                self.position += (position - self.position) // 4
                self.furthest = max(self.furthest, position)
            if self._away >= PARTED_AT_ONCE or self.is_at_end:
                self.looked_at = hashes.index(found) + 1
                break
        else:
            self.looked_at = len(hashes)
        is_along = self._away < PARTED_AT_ONCE and sum(position >= 0 for position in self._near) >= PARTED_BELOW
        return self.is_at_end or is_along

    @property
    def is_certain(self) -> bool:
        """Whether all of its latest reads were near."""
        return min(self._near) >= 0

    @property
    def rearmost(self) -> int:
        """The first position of its latest reads."""
        return min((position for position in self._near if position >= 0), default=self.position)

    @property
    def is_at_end(self) -> bool:
        """Whether all but a window of the recording was read."""
        return self.furthest >= self._end

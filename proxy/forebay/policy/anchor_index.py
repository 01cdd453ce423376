"""The anchors of a recording: the reads whose hash lies below a threshold, and their positions. Pure.

At most MAX_ANCHORS are kept: all its reads while it is small, a uniform share of them when it is large. They are in
columns. A dictionary is made of them once somebody looks a read up, which while a recording is made is seldom.
"""

from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import compress
from operator import ne
from typing import Final

from forebay.core.read_hashes import ReadHashes, flags_below, numbers_below

MAX_ANCHORS: Final = 1 << 12
"""Positions that are kept of one recording: 0.4 MiB at most."""
_ALL: Final = 1 << 32
_COUNTED: Final = array("I", range(2 * MAX_ANCHORS))
"""Positions, from the first on."""
_POSITIONS: Final = list(_COUNTED)
"""The same as objects, which the dictionaries of small recordings share."""
_MANY: Final = 4
"""One of so many reads is an anchor: then they are not searched for one by one."""


class AnchorIndex:
    """The positions of a recording's anchors."""

    __slots__ = ("_at", "_found", "_hashes", "count", "threshold")

    def __init__(self) -> None:
        self._hashes: ReadHashes = array("I")
        self._at = array("I")
        """The position of each, ascending."""
        self._found: dict[int, int] | None = None
        """The positions by hash, if they are known."""
        self.threshold = _ALL
        """Hashes below it are anchors."""
        self.count = 0
        """Reads, anchors or not."""

    @classmethod
    def of(
        cls,
        threshold: int,
        count: int,
        hashes: ReadHashes,
        positions: "array[int]",
        found: Mapping[int, int] | None = None,
    ) -> "AnchorIndex":
        """An index of these anchors. `found`: their positions by hash, if known."""
        index = cls()
        index.threshold, index.count, index._hashes, index._at = threshold, count, hashes, positions
        index._found = dict(found) if found is not None else None
        return index

    def __len__(self) -> int:
        return len(self._hashes)

    @property
    def columns(self) -> tuple[ReadHashes, "array[int]"]:
        """The hashes and the positions, in the order of these."""
        self._distinct()
        return self._hashes, self._at

    @property
    def positions(self) -> dict[int, int]:
        """The positions by hash, in ascending order. Not to be changed."""
        if self._found is None:
            self._found = self._by_hash()
            if len(self._found) < len(self._hashes):
                self._keep_first(self._found)
        return self._found

    def _keep_first(self, found: dict[int, int]) -> None:
        """Makes of the latest position of each read, in `found`, the first, and keeps no other."""
        hashes, at = self._hashes, self._at
        earlier = compress(range(len(hashes)), map(ne, map(found.__getitem__, hashes), at))
        first, kept = dict[int, int](), bytearray(b"\1") * len(hashes)
        for number in earlier:
            each = hashes[number]
            if each in first:
                kept[number] = 0
            else:
                first[each] = at[number]
                kept[bisect_left(at, found[each])] = 0
        found.update(first)
        self._hashes, self._at = array("I", compress(hashes, kept)), array("I", compress(at, kept))

    def _by_hash(self) -> dict[int, int]:
        if len(self._hashes) == self.count <= len(_POSITIONS):  # no read is left out: their positions count them
            return dict(zip(self._hashes, _POSITIONS, strict=False))
        return dict(zip(self._hashes, self._at, strict=True))

    def _distinct(self) -> None:
        """Drops all positions of a repeated read but the first."""
        if self._found is None and len(set(self._hashes)) < len(self._hashes):
            _ = self.positions

    @property
    def spacing(self) -> int:
        """Reads for each anchor, on average."""
        return -(-_ALL // self.threshold)

    @property
    def has_all(self) -> bool:
        """Whether every read is an anchor."""
        return self.threshold == _ALL

    def extend(self, hashes: Sequence[int]) -> list[tuple[int, int]]:
        """Appends reads. Of a read that is repeated the first position is kept. Returns the anchors among them, and the
        positions of these reads."""
        positions, threshold = self.positions, self.threshold
        anchors = [(found, position) for position, found in enumerate(hashes, self.count) if found < threshold]
        for found, position in anchors:
            if found not in positions:
                positions[found] = position
                self._hashes.append(found)
                self._at.append(position)
        self._count(len(hashes))
        return anchors

    def extend_new(self, hashes: ReadHashes) -> bool:
        """Appends reads if their anchors differ from each other and from all before. Returns whether it did. Fast, as
        most reads are new."""
        positions, known = self.positions, len(self.positions)
        anchors, at = self._anchors(hashes)
        if not positions.keys().isdisjoint(anchors):
            return False
        positions.update(zip(anchors, at, strict=True))
        if len(positions) < known + len(anchors):  # two of them are alike
            for each in anchors:
                positions.pop(each, None)
            return False
        self._hashes += anchors
        self._at += at
        self._count(len(hashes))
        return True

    def append(self, hashes: ReadHashes) -> None:
        """Appends reads that are hardly ever repeated. The fastest: nothing is looked up."""
        anchors, at = self._anchors(hashes)
        self._found = None
        self._hashes += anchors
        self._at += at
        self._count(len(hashes))

    def anchors(self, hashes: ReadHashes) -> ReadHashes:
        """Returns the hashes that are anchors, in order."""
        if self.has_all:
            return hashes
        if self.spacing <= _MANY:
            return array("I", compress(hashes, flags_below(hashes, self.threshold)))
        return array("I", [hashes[each] for each in numbers_below(hashes, self.threshold)])

    def _anchors(self, hashes: ReadHashes) -> tuple[ReadHashes, "array[int]"]:
        first = self.count
        if self.has_all:
            behind = first + len(hashes)
            return hashes, _COUNTED[first:behind] if behind <= len(_COUNTED) else array("I", range(first, behind))
        if self.spacing <= _MANY:
            flags, positions = flags_below(hashes, self.threshold), range(first, first + len(hashes))
            return array("I", compress(hashes, flags)), array("I", compress(positions, flags))
        numbers = numbers_below(hashes, self.threshold)
        return array("I", [hashes[each] for each in numbers]), array("I", [first + each for each in numbers])

    def _count(self, reads: int) -> None:
        self.count += reads
        while len(self._hashes) > MAX_ANCHORS:
            self.threshold >>= 1
            kept = flags_below(self._hashes, self.threshold)
            self._at = array("I", compress(self._at, kept))
            self._hashes = array("I", compress(self._hashes, kept))
            if self._found is not None:
                self._found = self._by_hash()

    def before(self, count: int) -> "AnchorIndex":
        """The index of the first `count` reads."""
        copied = AnchorIndex.of(self.threshold, self.count, self._hashes[:], self._at[:], self._found)
        copied.truncate(count)
        return copied

    def truncate(self, count: int) -> None:
        """Forgets the reads from position `count` on."""
        kept = bisect_left(self._at, count)
        if self._found is not None:
            for found in self._hashes[kept:]:
                del self._found[found]
        del self._hashes[kept:], self._at[kept:]
        self.count = min(self.count, count)

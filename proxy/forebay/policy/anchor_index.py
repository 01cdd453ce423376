"""The anchors of a recording: the reads whose hash lies below a threshold, and their positions. Pure.

At most MAX_ANCHORS are kept: all its reads while it is small, a uniform share of them when it is large. They are in
columns. To make a dictionary of them is most of what a recording costs, so reads that are looked up seldom, at the end
of an epoch, are searched for in the columns (`find`), and a dictionary of one in eight (`sparse`) tells an order where
nobody waits for the rest of a read.
"""

from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import compress
from operator import ne
from typing import Final

from forebay.core.read_hashes import ReadHashes, flags_below, numbers_among, numbers_below

MAX_ANCHORS: Final = 1 << 12
"""Positions that are kept of one recording: 0.4 MiB at most."""
_ALL: Final = 1 << 32
_COUNTED: Final = array("I", range(2 * MAX_ANCHORS))
"""Positions, from the first on."""
_POSITIONS: Final = list(_COUNTED)
"""The same as objects, which the dictionaries of small recordings share."""
_MANY: Final = 4
"""One of so many reads is an anchor: then they are not searched for one by one."""
MAX_SEARCHES: Final = 2
"""Searches in the columns before the dictionary is made, which takes as long as two or three of them."""
_SPARSE: Final = 8
_LEAST_SPARSE: Final = 256
"""Anchors that are left at least where not all are kept."""


def anchors_below(hashes: ReadHashes, threshold: int) -> ReadHashes:
    """Returns the hashes that are below `threshold`, in order."""
    if threshold >= _ALL:
        return hashes
    if threshold >= _ALL // _MANY:
        return array("I", compress(hashes, flags_below(hashes, threshold)))
    return array("I", [hashes[each] for each in numbers_below(hashes, threshold)])


class AnchorIndex:
    """The positions of a recording's anchors."""

    __slots__ = ("_at", "_found", "_hashes", "_near", "_searches", "_sought", "_sparse", "count", "threshold")

    def __init__(self) -> None:
        self._hashes: ReadHashes = array("I")
        self._at = array("I")
        """The position of each, ascending."""
        self._found: dict[int, int] | None = None
        """The positions by hash, if they are known."""
        self._sought: set[int] = set()
        """The reads that were searched for last, as long as nothing was appended without a look."""
        self._near: dict[int, int] = {}
        """Where those of them are that the recording has."""
        self._searches = 0
        self._sparse: tuple[int, int, dict[int, int]] | None = None
        """The reads when the sparse positions were taken, and these."""
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
        index._found = dict(found) if found is not None else None  # a copy takes less time than a search
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
        """By hash, in the order of the positions. Not to be changed."""
        if self._found is None:
            self._found = self._by_hash()
            if len(self._found) < len(self._hashes):
                self._keep_first(self._found)
        return self._found

    @property
    def is_dictionary(self) -> bool:
        """Whether all anchors are in a dictionary by now."""
        return self._found is not None

    def find(self, hashes: Sequence[int]) -> dict[int, int]:
        """Returns the positions of those of these reads that are anchors, and perhaps of others. Not to be changed."""
        if self._found is not None:
            return self._found
        if not self._sought.issuperset(hashes):
            if self._searches >= MAX_SEARCHES:
                return self.positions
            self._searches += 1
            self._sought = set(hashes)
            numbers = numbers_among(self._hashes, self._sought)
            self._near = {self._hashes[each]: self._at[each] for each in reversed(numbers)}
        return self._near

    @property
    def sparse(self) -> tuple[int, dict[int, int]]:
        """A threshold, and the positions of the reads whose hash is below it: one of eight reads, or a larger share
        where they are few. Not to be changed."""
        if self._sparse is None or self._sparse[0] != self.count:
            step = _SPARSE
            while step > 1 and self.count < _LEAST_SPARSE * step:
                step //= 2
            threshold = _ALL // step
            if threshold >= self.threshold:
                self._sparse = self.count, self.threshold, self.positions
            else:
                numbers = numbers_below(self._hashes, threshold)
                sparse = {self._hashes[each]: self._at[each] for each in reversed(numbers)}
                self._sparse = self.count, threshold, sparse
        return self._sparse[1:]

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
        """Of a read that is repeated the first position alone is kept."""
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
        """Appends reads. Of a read that is repeated the first position is kept. Returns of each anchor among them the
        position, and the first position of its read."""
        threshold = self.threshold
        anchors = [(found, position) for position, found in enumerate(hashes, self.count) if found < threshold]
        positions, added = self.find([found for found, _ in anchors]), list[tuple[int, int]]()
        for found, position in anchors:
            earlier = positions.setdefault(found, position)
            added.append((position, earlier))
            if earlier == position:
                self._hashes.append(found)
                self._at.append(position)
        self._count(len(hashes))
        return added

    def extend_new(self, hashes: ReadHashes) -> bool:
        """Appends reads if the anchors among them differ from each other and from all others. Returns whether they do.
        Fast: that is what most reads are."""
        anchors, at = self._anchors(hashes)
        positions = self.find(anchors)
        known = len(positions)
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
        self._sought.clear()
        self._hashes += anchors
        self._at += at
        self._count(len(hashes))

    def anchors(self, hashes: ReadHashes) -> ReadHashes:
        """Returns the hashes that are anchors, in order."""
        return anchors_below(hashes, self.threshold)

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
        self._sought.clear()
        if self._found is not None:
            for found in self._hashes[kept:]:
                del self._found[found]
        del self._hashes[kept:], self._at[kept:]
        self.count = min(self.count, count)

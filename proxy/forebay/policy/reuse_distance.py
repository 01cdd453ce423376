"""Reuse distances: the hit share that an LRU cache of any size would have had, from a sample of the reads.

The *reuse distance* of a read is the size of all distinct units that were read since the same unit was read before, its
own size included. An LRU cache hits exactly the reads whose distance is at most its capacity, so a histogram of the
distances gives the hit share at every capacity at once.

A *unit* is what a cache keeps or evicts as one: a block. Units come as hashes. The sample has a fixed size, as in
SHARDS (Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST '15): a unit is in the sample if its hash is
below a threshold, so either all of its reads are seen or none. A sample of one unit in n has distances n times too
short; they are scaled up. When the sample has more than `max_units`, the threshold is halved, which drops half of them.

SHARDS corrects its histogram for hot units that are in the sample, or not, by chance (SHARDS-adj). This one does not:
units of a training set are read alike, and the correction would add the noise of their sizes.

    the timeline, newest on the right; a unit stands where it was read last
    | a   c | d b     | e   f |         a read of d: everything to its right, and d itself
      chunk   chunk     chunk           whole chunks by their sums, the chunk of d unit by unit

Memory: at most 200 bytes for each of `max_units`. A read of a unit that is not in the sample costs one comparison, one
that is takes 3 µs. Decision 0041.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from math import ceil, log2
from typing import Final, NamedTuple

MAX_UNITS: Final = 8192
"""The standard error of a hit share is at most 1 / (2 * sqrt(MAX_UNITS / 2)): 0.8 %."""
HASH_BITS: Final = 32
_CHUNK: Final = 128
_EPOCH_PART: Final = 16
"""An epoch that adds less than one in so many slots to the timeline goes on with the next."""
_STEPS: Final = 32
"""Columns of the histogram for each doubling of the distance: 2 % apart."""


class ReuseCurve(NamedTuple):
    """The hit share of LRU by capacity, of reads of units that had been read before. Bytes."""

    capacities: tuple[float, ...]
    """Ascending; none if nothing is known."""
    shares: tuple[float, ...]
    """The share of bytes read again within each capacity: from 0 to 1. Between two capacities it rises evenly."""
    set_size: int
    """Bytes of the distinct units that were read, estimated."""
    read_again: float
    """Bytes that were read again, estimated. 0: nothing is known."""

    def lru_share(self, capacity: int) -> float:
        """Returns the share of bytes that an LRU cache of this capacity hits, when it is warm."""
        above = bisect_right(self.capacities, capacity)
        if above == len(self.capacities):
            return self.shares[-1] if self.shares else 0.0
        if above == 0:
            return 0.0
        low, high = self.capacities[above - 1 : above + 1]
        low_share, high_share = self.shares[above - 1 : above + 1]
        return low_share + (capacity - low) / (high - low) * (high_share - low_share)

    def stable_share(self, capacity: int) -> float:
        """Returns the share of bytes that a cache of this capacity hits that always keeps the same units: its own size
        over that of the set, and no cache hits more of a set that is read in a new order each time."""
        return min(1.0, capacity / self.set_size) if self.set_size else 0.0


class ReuseSample:
    """The sample of one stream of reads."""

    def __init__(self, max_units: int = MAX_UNITS) -> None:
        self._max_units = max_units
        self._threshold = 1 << HASH_BITS
        self._slots: dict[int, int] = {}
        """The slot of each unit of the sample on the timeline."""
        chunks = ceil(2 * max_units / _CHUNK)
        self._sizes = [0] * (chunks * _CHUNK)
        self._sums = [0] * chunks
        self._next = 0
        self._last_epoch = self._this_epoch = 0
        """The first slots of the last epoch and of this one."""
        self._columns: defaultdict[int, float] = defaultdict(float)
        """Bytes read again, by the logarithm of their distance. Of the units of the sample, not scaled."""

    def __repr__(self) -> str:
        return f"<ReuseSample {len(self._slots)} units, 1 in {1 / self.rate:g}>"

    @property
    def rate(self) -> float:
        """The share of the units that are in the sample."""
        return self._threshold / (1 << HASH_BITS)

    @property
    def threshold(self) -> int:
        """Units whose hash is not below this are not in the sample; `record` need not be called for them."""
        return self._threshold

    def record(self, unit: int, size: int, sent: int) -> None:
        """Records that `sent` bytes of a unit of `size` bytes were read."""
        if unit >= self._threshold:
            return
        slot = self._slots.get(unit)
        if slot is not None:
            chunk = slot // _CHUNK
            end = (chunk + 1) * _CHUNK
            distance = sum(self._sizes[slot:end]) + sum(self._sums[chunk + 1 :])
            self._columns[ceil(_STEPS * log2(distance / self.rate)) if distance else 0] += sent
            size = max(size, self._sizes[slot])
            self._sums[chunk] -= self._sizes[slot]
            self._sizes[slot] = 0
        if self._next == len(self._sizes):
            self._slots.pop(unit, None)
            self._compact()
        self._slots[unit] = self._next
        self._sizes[self._next] = size
        self._sums[self._next // _CHUNK] += size
        self._next += 1
        if len(self._slots) > self._max_units:
            self._thin_out()

    def begin_epoch(self) -> None:
        """Halves the weight of all recorded distances, so that a curve follows the present reads. Drops units without a
        read in the ending epoch and in the one before."""
        if self._next - self._this_epoch < len(self._sizes) // _EPOCH_PART:
            return  # a set of few units: it is not worth the sorting
        self._fade()
        self._slots = {unit: slot for unit, slot in self._slots.items() if slot >= self._last_epoch}
        self._last_epoch, self._this_epoch = self._this_epoch, self._next
        self._compact()

    def cut(self) -> None:
        """Begins a new timeline: reads were not recorded for a while, so a distance across the gap says nothing."""
        self._slots.clear()
        self._compact()

    def curve(self, set_size: int | None = None) -> ReuseCurve:
        """Returns the curve by what was recorded so far. `set_size`: bytes of the distinct units, if that is known
        better than from the sample, whose units may be larger than others by chance."""
        estimate = sum(self._sums) / self.rate
        scale = 1.0 if set_size is None or not estimate else set_size / estimate
        again = sum(self._columns.values())
        capacities: list[float] = []
        shares: list[float] = []
        total = 0.0
        for column, sent in sorted(self._columns.items()):
            low, high = scale * 2 ** ((column - 1) / _STEPS), scale * 2 ** (column / _STEPS)
            if not capacities or capacities[-1] < low:
                capacities.append(low)
                shares.append(total / again)
            total += sent
            capacities.append(high)
            shares.append(total / again)
        return ReuseCurve(tuple(capacities), tuple(shares), round(estimate * scale), again / self.rate)

    def _fade(self) -> None:
        for column in self._columns:
            self._columns[column] /= 2

    def _thin_out(self) -> None:
        """Halves the threshold, and the counts at the old one."""
        self._threshold //= 2
        self._slots = {unit: slot for unit, slot in self._slots.items() if unit < self._threshold}
        self._fade()
        self._compact()

    def _compact(self) -> None:
        """Moves all units to the left of the timeline, in their order."""
        ordered = sorted((slot, unit) for unit, slot in self._slots.items())
        sizes = [self._sizes[slot] for slot, _ in ordered]
        self._last_epoch = bisect_left(ordered, (self._last_epoch, 0))
        self._this_epoch = bisect_left(ordered, (self._this_epoch, 0))
        self._slots = {unit: position for position, (_, unit) in enumerate(ordered)}
        self._sizes = [*sizes, *[0] * (len(self._sizes) - len(sizes))]
        self._sums = [sum(self._sizes[start : start + _CHUNK]) for start in range(0, len(self._sizes), _CHUNK)]
        self._next = len(ordered)

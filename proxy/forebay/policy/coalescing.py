"""Which ranged GETs fetch the missing blocks of a stretch: as few as will do, each within bounds.

    blocks     0  1  2  3  4  5  6  7  8  9     M missing, H at hand, F in flight
               M  M  M  M  M  H  M  F  M  M     runs of at most 4 blocks, gaps of at most 1 block
    runs      [0  1  2][3  4  5  6]   [8  9]    5 is read through: apart, 0 to 4 and 6 would take three requests

- A gap of blocks at hand is read through, and what comes of it dropped, only where that saves a request. Blocks in
  flight are never read through: a block has one flight.
- A run begins and ends with a missing block, so the first byte of a run is one that somebody waits for.
- A stretch that takes several requests is cut evenly, the shorter runs first: they are fetched side by side, so the
  longest of them decides, and the reader waits for the first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from itertools import pairwise

from forebay.core.byte_ranges import Span


class BlockState(Enum):
    """Where a block is."""

    MEMORY = "memory"
    SSD = "ssd"
    IN_FLIGHT = "in flight"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Run:
    """One ranged GET: whole, neighbouring blocks."""

    blocks: range
    """The indices it covers. The first and the last are missing ones."""
    missing: tuple[int, ...]
    """Those of them that are wanted; the others are read through and dropped."""
    span: Span
    """Its bytes, clipped to the object."""


@dataclass(frozen=True)  # no slots: what is derived is kept
class FetchBounds:
    """What one reader may ask of the origin at a time."""

    max_run: int
    """Bytes of one ranged GET; a block that is larger is fetched alone, whole."""
    gap: int
    """Bytes at hand that may be read through to save a request."""
    parallel: int
    """Ranged GETs in flight for one reader."""

    @cached_property
    def edge(self) -> "FetchBounds":
        """For where a body begins and ends: runs of half the length. A reader who turns out to be fast soon has many
        connections at work, and does not wait for the first of them alone; nor, in the end, for the last of them alone,
        while all others have nothing left to fetch."""
        return replace(self, max_run=self.max_run // 2)


def coalesce(
    first: int, states: Sequence[BlockState], block_size: int, size: int, bounds: FetchBounds
) -> tuple[Run, ...]:
    """The runs, in order, that fetch every missing block once. `places[i]` is where block `first + i` of an object of
    `size` bytes is."""
    longest = max(1, bounds.max_run // block_size)
    widest_gap = bounds.gap // block_size
    runs: list[Run] = []
    for start, stop in _joined(_stretches(states), states, longest, widest_gap):
        for cut_start, cut_stop in _cut(start, stop, longest):
            # A cut never falls at a gap: if runs of their own served both sides, joining them would have saved none.
            blocks = range(first + cut_start, first + cut_stop)
            missing = tuple(index for index in blocks if states[index - first] is BlockState.MISSING)
            runs.append(Run(blocks, missing, Span(blocks.start * block_size, min(blocks.stop * block_size, size))))
    return tuple(runs)


def _stretches(places: Sequence[BlockState]) -> list[tuple[int, int]]:
    """The neighbouring missing blocks, as half-open positions."""
    stretches: list[tuple[int, int]] = []
    for position, place in enumerate(places):
        if place is BlockState.MISSING:
            if stretches and stretches[-1][1] == position:
                stretches[-1] = (stretches[-1][0], position + 1)
            else:
                stretches.append((position, position + 1))
    return stretches


def _joined(
    stretches: list[tuple[int, int]], places: Sequence[BlockState], longest: int, widest_gap: int
) -> list[tuple[int, int]]:
    """The stretches, with those joined whose gap is worth reading."""
    joined: list[tuple[int, int]] = []
    for start, stop in stretches:
        if joined:
            before, end = joined[-1]
            at_hand = BlockState.IN_FLIGHT not in places[end:start]
            apart = _requests(end - before, longest) + _requests(stop - start, longest)
            if start - end <= widest_gap and at_hand and _requests(stop - before, longest) < apart:
                joined[-1] = (before, stop)
                continue
        joined.append((start, stop))
    return joined


def _cut(start: int, stop: int, longest: int) -> list[tuple[int, int]]:
    """Even cuts of at most `longest`, the shorter ones first."""
    count = _requests(stop - start, longest)
    edges = [start + (stop - start) * i // count for i in range(count + 1)]
    return list(pairwise(edges))


def _requests(length: int, longest: int) -> int:
    return -(-length // longest)

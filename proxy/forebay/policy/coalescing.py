"""Coalescing: the fewest ranged GETs that fetch the missing blocks of a range, each within bounds.

    blocks     0  1  2  3  4  5  6  7  8  9     M missing, C cached, F in flight
               M  M  M  M  M  C  M  F  M  M     runs of at most 4 blocks, gaps of at most 1 block
    runs      [0  1  2][3  4  5  6]   [8  9]    5 is read through: apart, 0 to 4 and 6 would take three requests

- A gap of cached blocks is fetched again, and dropped, only if that saves a request. Blocks in flight are never fetched
  again: a block has one flight.
- A run begins and ends with a missing block, so a reader waits for its first byte.
- A range that takes several requests is cut evenly, shorter runs first: runs are fetched in parallel, so the longest
  determines the total, and the reader waits for the first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from itertools import pairwise

from forebay.core.byte_ranges import Span


class BlockState(Enum):
    """The place of a block's bytes."""

    MEMORY = "memory"
    SSD = "ssd"
    IN_FLIGHT = "in flight"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Run:
    """One ranged GET of whole, adjacent blocks."""

    blocks: range
    """The indices of the run. The first and the last block are missing."""
    missing: tuple[int, ...]
    """The indices to keep; the other blocks are dropped."""
    span: Span
    """The bytes of the run, clipped to the object's size."""


@dataclass(frozen=True)  # no slots: cached_property needs a __dict__
class FetchBounds:
    """The bounds of one reader's concurrent fetches."""

    max_run: int
    """Bytes of one ranged GET; a larger block is fetched alone."""
    gap: int
    """Cached bytes that may be fetched again to save a request."""
    parallel: int
    """Ranged GETs in flight for one reader."""

    @cached_property
    def edge(self) -> "FetchBounds":
        """The bounds at the beginning and the end of a body: runs of half the length.

        A fast reader has many connections busy sooner, and does not wait at the end for one long run alone.
        """
        return replace(self, max_run=self.max_run // 2)


def coalesce(
    first: int, states: Sequence[BlockState], block_size: int, size: int, bounds: FetchBounds
) -> tuple[Run, ...]:
    """The runs, in order, that fetch every missing block once.

    `states[i]` is the state of block `first + i`; `size`: bytes of the object.
    """
    longest = max(1, bounds.max_run // block_size)
    widest_gap = bounds.gap // block_size
    runs: list[Run] = []
    for start, stop in _join(_missing_ranges(states), states, longest, widest_gap):
        for cut_start, cut_stop in _cut(start, stop, longest):
            # A cut never falls into a gap: joining two ranges that fill whole runs would not have saved a request.
            blocks = range(first + cut_start, first + cut_stop)
            missing = tuple(index for index in blocks if states[index - first] is BlockState.MISSING)
            runs.append(Run(blocks, missing, Span(blocks.start * block_size, min(blocks.stop * block_size, size))))
    return tuple(runs)


def _missing_ranges(states: Sequence[BlockState]) -> list[tuple[int, int]]:
    """The ranges of adjacent missing blocks, as half-open positions."""
    ranges: list[tuple[int, int]] = []
    for position, state in enumerate(states):
        if state is BlockState.MISSING:
            if ranges and ranges[-1][1] == position:
                ranges[-1] = (ranges[-1][0], position + 1)
            else:
                ranges.append((position, position + 1))
    return ranges


def _join(
    ranges: list[tuple[int, int]], states: Sequence[BlockState], longest: int, widest_gap: int
) -> list[tuple[int, int]]:
    """The ranges, joined across gaps whose fetch saves a request."""
    joined: list[tuple[int, int]] = []
    for start, stop in ranges:
        if joined:
            before, end = joined[-1]
            is_cached = BlockState.IN_FLIGHT not in states[end:start]
            apart = _requests(end - before, longest) + _requests(stop - start, longest)
            if start - end <= widest_gap and is_cached and _requests(stop - before, longest) < apart:
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

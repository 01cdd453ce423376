"""How a range is answered: which blocks from where, and which runs are asked of the origin.

The plan is of one *window*: as far ahead of the reader as fetches are started. The reader of a range plans its first
window, serves what the plan says, in order, and plans on from `Plan.stop` as it goes. Blocks that are planned to come
from a tier may be gone by the time they are read; that is a miss like any other, and planned anew.

Invariants: the serves lie end to end from the first byte of the span to the last that was planned; every missing block
before `stop` is in exactly one run; no run reaches beyond the object; there are at most `parallel` runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from forebay.decisions.coalescing import FetchBounds, Place, Run, coalesce
from forebay.words.ranges import Span, block_span, blocks_touching

__all__ = ["FIRST_RUNS", "READY_TO_SHRINK", "FetchBounds", "Place", "Plan", "Run", "Serve", "Window", "plan"]


@dataclass(frozen=True, slots=True)
class Serve:
    """The bytes of one block that are sent, and where the block is."""

    index: int
    place: Place
    span: Span
    """Within the object, not within the block."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer to (the first part of) a span."""

    serves: tuple[Serve, ...]
    runs: tuple[Run, ...]
    """To be started now, in this order: the first is the one the reader waits for first."""
    stop: int
    """The first block that was not planned, because `parallel` runs were full; the end of the span if all was."""


def plan(span: Span, size: int, block_size: int, places: Sequence[Place], bounds: FetchBounds) -> Plan:
    """The plan for `span` of an object of `size` bytes.

    `places[i]` says where the i-th block that the span touches is. ValueError when they don't fit, or when the span
    reaches beyond the object: the caller has clipped it (416 is not ours to give).
    """
    indices = blocks_touching(span, block_size)
    if len(places) != len(indices):
        raise ValueError(f"{len(places)} places for {len(indices)} blocks")
    if not 0 <= span.start <= span.stop <= size:
        raise ValueError(f"{span} is not within {size} bytes")
    runs = coalesce(indices.start, places, block_size, size, bounds)
    stop = indices.stop
    if len(runs) > bounds.parallel:
        stop = runs[bounds.parallel].missing[0]
        runs = runs[: bounds.parallel]
    serves = tuple(
        Serve(index, place, block_span(index, block_size, size).clip(span))
        for index, place in zip(indices, places, strict=True)
        if index < stop
    )
    return Plan(serves, runs, stop)


FIRST_RUNS: Final = 2
"""The one that is read and the one behind it: enough to never stop between runs when the origin is fast."""
READY_TO_SHRINK: Final = 64
"""Blocks in a row that were there in time before the window shrinks. Many, as one shrink too far costs a wait."""


class Window:
    """How many runs ahead of a reader are fetched: a few for a short or slow read, `parallel` for one that outruns us.

    Call one of the two methods for each block that is sent. A reader that never waits never makes it grow, so bytes for
    a slow reader don't pile up.
    """

    __slots__ = ("_parallel", "_ready", "_runs")

    def __init__(self, parallel: int) -> None:
        if parallel < 1:
            raise ValueError("at least one run must be allowed")
        self._parallel = parallel
        self._runs = min(FIRST_RUNS, parallel)
        self._ready = 0

    def __repr__(self) -> str:
        return f"Window({self._runs} of {self._parallel})"

    @property
    def runs(self) -> int:
        """How many runs may be in flight or waiting for the reader."""
        return self._runs

    def reader_waited(self) -> None:
        """The reader wanted a block that had not come from the origin yet."""
        self._ready = 0
        self._runs = min(self._runs * 2, self._parallel)

    def reader_ready(self) -> None:
        """The block was there before the reader wanted it."""
        self._ready += 1
        if self._ready >= READY_TO_SHRINK:
            self._ready = 0
            self._runs = max(self._runs // 2, min(FIRST_RUNS, self._parallel))

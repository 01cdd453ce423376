"""Part coalescing: which small parts of an upload are joined so that an S3 origin accepts them.

OSS accepts parts of 100 KB and more, S3 of 5 MiB and more, except the last. The parts of an upload, in order, become
runs:

    sizes in MiB   1  1  1  1  1  1 | 9 | 2  4 | 1          small adjacent parts, until they are enough;
    numbers        1  2  3  4  5  6   7   8  9  10          the last run may be short
    become         1                  7   8     10          each under the number of its first part

A part that is large enough stays alone. Small parts before it that are not enough join the run before them; if that is
a large part, whose bytes are not spooled, the upload can't be completed.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

MIN_PART_SIZE: Final = 5 << 20
"""Bytes of a part that S3 accepts at any position."""


@dataclass(frozen=True, slots=True)
class CandidatePart:
    """A part as it was uploaded."""

    number: int
    size: int | None
    """Bytes; None if unknown: the part stays alone, and the origin judges it."""
    kept: bool
    """Whether its bytes are spooled."""


@dataclass(frozen=True, slots=True)
class CoalescedParts:
    """The runs, in order. A run of one part is not uploaded again."""

    runs: tuple[tuple[CandidatePart, ...], ...]


@dataclass(frozen=True, slots=True)
class PartTooSmall:
    """This part is too small and can't be joined with its neighbours."""

    part: CandidatePart


def coalesce_parts(parts: Sequence[CandidatePart], min_size: int = MIN_PART_SIZE) -> CoalescedParts | PartTooSmall:
    """The runs that `parts`, in order, become."""
    runs: list[list[CandidatePart]] = []
    run: list[CandidatePart] = []
    size = 0  # of the run
    for part in parts:
        if part.size is None or part.size >= min_size:
            if run:
                if not runs or not _is_small(runs[-1], min_size):
                    return PartTooSmall(run[0])
                runs[-1] += run
                run, size = [], 0
            runs.append([part])
            continue
        run.append(part)
        size += part.size
        if size >= min_size:
            runs.append(run)
            run, size = [], 0
    if run:
        runs.append(run)
    for each in runs:
        lost = next((part for part in each if not part.kept), None) if len(each) > 1 else None
        if lost is not None:
            return PartTooSmall(lost)
    return CoalescedParts(tuple(tuple(each) for each in runs))


def _is_small(run: Sequence[CandidatePart], min_size: int) -> bool:
    """Whether a run has small parts only, so that more can join it."""
    return all(part.size is not None and part.size < min_size for part in run)

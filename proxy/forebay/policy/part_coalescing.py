"""Which parts of an upload are put together, so that an origin of S3 takes them.

OSS takes parts from 100 KB on, S3 from 5 MiB on, but for the last. The parts of an upload in their order become runs:

    sizes in MiB   1  1  1  1  1  1 | 9 | 2  4 | 1          small neighbours, until they are enough;
    numbers        1  2  3  4  5  6   7   8  9  10          the last run may be short
    become         1                  7   8     10          each under the number of its first part

A part that is large enough stays as it is. Small ones in front of it that are not enough join the run before them;
where that is a large part, whose bytes nobody has kept, there is no way.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

MIN_PART_SIZE: Final = 5 << 20
"""Bytes of a part that S3 takes anywhere."""


@dataclass(frozen=True, slots=True)
class CandidatePart:
    """A part as it was uploaded."""

    number: int
    size: int | None
    """None: not known, so it is left as it is; the origin will say if it is too small."""
    kept: bool
    """Whether its bytes are at hand."""


@dataclass(frozen=True, slots=True)
class CoalescedParts:
    """The runs, in order. One of a single part is left as it is."""

    runs: tuple[tuple[CandidatePart, ...], ...]


@dataclass(frozen=True, slots=True)
class PartTooSmall:
    """No way: this part is too small, and can't be put together with its neighbours."""

    part: CandidatePart


def coalesce_parts(parts: Sequence[CandidatePart], min_size: int = MIN_PART_SIZE) -> CoalescedParts | PartTooSmall:
    """The runs that `parts` become."""
    runs: list[list[CandidatePart]] = []
    run: list[CandidatePart] = []
    size = 0  # of the run
    for part in parts:
        if part.size is None or part.size >= min_size:
            if run:
                if not runs or not _small(runs[-1], min_size):
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


def _small(run: Sequence[CandidatePart], least: int) -> bool:
    """Whether a run is made of small parts, so that more can join it."""
    return all(part.size is not None and part.size < least for part in run)

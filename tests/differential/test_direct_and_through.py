"""Each request once straight to an origin and once through Forebay to an equal one: the answers are the same.

For S3 clients in front of OSS the straight way is a Forebay that keeps nothing.

Requests are random, in programs that are printed short when they fail. Where the answers differ on purpose,
`differential.documented_differences` names the page that says so.
"""

import os
import re
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from differential.documented_differences import DOCUMENTED, DocumentedDifference
from differential.oss_dialect import in_oss, on_oss
from differential.program import Program, without_times
from differential.program_generator import BUCKETS, PACKED, ProgramGenerator
from differential.runner import Counts, Failure, run, shorten
from differential.sides import Clock, Pair

_KINDS: Final = (
    *(("s3", 1), ("oss", 3), ("s3-on-oss", 3), ("s3-workers", 6)),
    *(("packed", 6), ("packed-oss", 6), ("packed-workers", 12)),
)
"""And which part of the programs each runs; those of two workers with packs only by `make fuzz`."""
SEEDS: Final = int(os.environ.get("FOREBAY_DIFFERENTIAL_SEEDS", "6"))
"""Programs; `make fuzz` has 400."""
FIRST: Final = int(os.environ.get("FOREBAY_DIFFERENTIAL_FIRST", "1"))
"""The first of the seeds."""
OSS_BUCKETS: Final = ("open", "open", "back", "kept")
STEPS: Final = 50
"""Of a program, each one or two requests."""
PROGRAMS_OF_A_PAIR: Final = 10
"""How many programs have one Forebay: pauses move its clock on, and a clock may differ by 15 minutes from ours."""
DOCS: Final = Path(__file__).parents[2] / "docs"


async def run_alone(directory: Path, kind: str, program: Program) -> Failure | None:
    async with Pair(directory, _clock(), kind) as pair:
        return await run(pair, program, Counts())


def program_of(seed: int, kind: str) -> Program:
    if kind == "oss":
        return [*in_oss(ProgramGenerator(seed, STEPS, OSS_BUCKETS).program())]
    packed = kind.startswith(PACKED)
    program = ProgramGenerator(seed, STEPS, (PACKED,) if packed else BUCKETS).program()
    if kind.endswith("-workers"):
        return [*without_times(program)]
    if kind == "packed-oss":
        return [*in_oss(program)]
    return program if kind in {"s3", PACKED} else [*on_oss(program)]


async def compare(directory: Path, kind: str, seeds: range) -> Counts:
    """Runs the programs of all seeds. Fails with the first that went wrong, shortened."""
    counts, failed, alone = Counts(), dict[int, Failure](), 0
    for first in seeds[::PROGRAMS_OF_A_PAIR]:
        async with Pair(directory / str(first), _clock(), kind) as pair:
            for seed in range(first, min(first + PROGRAMS_OF_A_PAIR, seeds.stop)):
                failure = await run(pair, program_of(seed, kind), counts)
                if failure is not None:
                    failed[seed] = failure

    async def fresh(program: Program) -> Failure | None:
        nonlocal alone
        alone += 1
        return await run_alone(directory / f"alone-{alone}", kind, program)

    if failed:
        seed, failure = next(iter(failed.items()))
        pytest.fail(f"seeds {list(failed)}; {seed}, {len(failure.prefix)} steps: {await shorten(failure, fresh)}")
    if kind.endswith("-workers") or kind.startswith(PACKED):
        return counts
    # So that the programs keep meeting what they are for.
    assert {"hit-memory", "revalidated", "miss", "bypass"} <= set(counts.sources)
    assert {200, 204, 206, 304, 400, 404} <= set(counts.statuses)
    assert counts.statuses[412] or counts.requests < 300
    assert counts.sources["hit-memory"] > counts.requests // 20
    assert sum(often for status, often in counts.statuses.items() if status < 300) > counts.requests * 2 // 5
    return counts


@pytest.mark.parametrize(("kind", "share"), _KINDS)
async def test_answers_are_the_origins_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, share: int
) -> None:
    counts = await compare(tmp_path, kind, range(FIRST, FIRST + SEEDS // share))
    if "FOREBAY_DIFFERENTIAL_SEEDS" in os.environ:
        with capsys.disabled():
            sys.stdout.write(f"\n{kind}: {counts}\n")


@pytest.mark.parametrize("difference", DOCUMENTED, ids=lambda each: each.name.replace(" ", "-"))
async def test_documented_difference_is_real(tmp_path: Path, difference: DocumentedDifference) -> None:
    """An entry of the table that no program needs is out of date, as is one whose section is not there."""
    page, _, anchor = difference.anchor.partition("#")
    headings = re.findall(r"^#+ (.*)$", (DOCS / page).read_text(), re.MULTILINE)
    assert anchor in {re.sub(r"[^a-z0-9 _-]", "", each.lower()).replace(" ", "-") for each in headings}
    counts = Counts()
    async with Pair(tmp_path, _clock(), difference.kind) as pair:
        pair.hold()
        assert await run(pair, difference.witness, counts) is None
    assert difference.name in counts.documented


def _clock() -> Clock:
    return Clock(time.time() - 300)

"""Runs other projects' S3 suites with and without Forebay: `python -m suites [NAME or NAME:ORIGIN ...]`.

Each suite runs twice, on fresh servers (suites.endpoints), and its outcomes are compared case by case. A case that
passes without Forebay and fails through it is printed as lost; the results are written to docs/suites.md. Exits with 1
if a lost case has no explanation. The suites' own output is in .clients/suites/out.
"""

import datetime
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from suites import alike, aws, boto2, mint, openstack
from suites.commands import HOME
from suites.debian import NotToBeHad
from suites.endpoints import Ground, alone, behind_forebay
from suites.page import PAGE, written
from suites.suite import Compared, Suite, compared

SUITES: Final = (*alike.SUITES, *openstack.SUITES, *aws.SUITES, boto2.SUITE, *mint.SUITES)


def main(only: list[str]) -> int:
    every = [(suite, origin) for suite in SUITES for origin in suite.origins]
    wanted = [(suite, origin) for suite, origin in every if {suite.name, f"{suite.name}:{origin}"} & {*only}]
    if only and not wanted:
        print("no such suite; there are " + ", ".join(suite.name for suite in SUITES))  # noqa: T201 # the command's output
        return 2
    unexplained = 0
    for suite, origin in wanted or every:
        try:
            found = _both_ways(suite, origin)
        except NotToBeHad as reason:
            print(f"{suite.name}: left out: {reason}")  # noqa: T201 # likewise
            continue
        unexplained += sum(not why for why in found.lost.values())
        day = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
        PAGE.write_text(written(PAGE.read_text(), SUITES, {(suite.name, origin): found}, day))
    return min(1, unexplained)


def _both_ways(suite: Suite, origin: str) -> Compared:
    place = suite.install()
    directory = HOME / "out" / f"{suite.name}-{origin}"
    shutil.rmtree(directory, ignore_errors=True)
    found = compared(
        suite,
        origin,
        alone=_outcomes(suite, origin, place, directory / "alone", alone),
        through=_outcomes(suite, origin, place, directory / "through", behind_forebay),
    )
    _tell(suite, origin, found)
    return found


def _outcomes(
    suite: Suite,
    origin: str,
    place: Path,
    directory: Path,
    on: Callable[[str, Path], AbstractContextManager[Ground]],
) -> Mapping[str, str]:
    directory.mkdir(parents=True)
    with on(origin, directory) as ground:
        return suite.run(place, ground, directory)


def _tell(suite: Suite, origin: str, found: Compared) -> None:
    reasons = Counter(why for why in found.lost.values() if why)
    numbers = f"{found.cases} cases, {found.alone} pass alone, {found.through} through Forebay"
    lost = f"{len(found.lost) - reasons.total()} lost, {reasons.total()} on purpose"
    print(f"{suite.name} with {origin}: {numbers}; {lost}", flush=True)  # noqa: T201 # the command's output
    for why, count in reasons.items():
        print(f"  on purpose, {count}: {why}", flush=True)  # noqa: T201 # likewise
    for name, why in found.lost.items():
        if not why:
            print(f"  LOST: {name}", flush=True)  # noqa: T201 # likewise


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

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
from suites.debian import PackageUnavailable
from suites.endpoints import SuiteEndpoint, behind_forebay, origin_alone
from suites.page import PAGE, updated_page
from suites.suite import Suite, SuiteComparison, compare

SUITES: Final = (*alike.SUITES, *openstack.SUITES, *aws.SUITES, boto2.SUITE, *mint.SUITES)


def main(only: list[str]) -> int:
    every = [(suite, origin) for suite in SUITES for origin in suite.origins]
    wanted = [(suite, origin) for suite, origin in every if {suite.name, f"{suite.name}:{origin}"} & {*only}]
    if only and not wanted:
        print("no such suite; there are " + ", ".join(suite.name for suite in SUITES))
        return 2
    unexplained = 0
    for suite, origin in wanted or every:
        try:
            found = _compare_suite(suite, origin)
        except PackageUnavailable as reason:
            print(f"{suite.name}: left out: {reason}")
            continue
        unexplained += sum(not why for why in found.lost.values())
        day = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
        PAGE.write_text(updated_page(PAGE.read_text(), SUITES, {(suite.name, origin): found}, day))
    return min(1, unexplained)


def _compare_suite(suite: Suite, origin: str) -> SuiteComparison:
    place = suite.install()
    directory = HOME / "out" / f"{suite.name}-{origin}"
    shutil.rmtree(directory, ignore_errors=True)
    found = compare(
        suite,
        origin,
        alone=_outcomes(suite, origin, place, directory / "alone", origin_alone),
        through=_outcomes(suite, origin, place, directory / "through", behind_forebay),
    )
    _print_comparison(suite, origin, found)
    return found


def _outcomes(
    suite: Suite,
    origin: str,
    place: Path,
    directory: Path,
    on: Callable[[str, Path], AbstractContextManager[SuiteEndpoint]],
) -> Mapping[str, str]:
    directory.mkdir(parents=True)
    with on(origin, directory) as ground:
        return suite.run(place, ground, directory)


def _print_comparison(suite: Suite, origin: str, found: SuiteComparison) -> None:
    reasons = Counter(why for why in found.lost.values() if why)
    numbers = f"{found.cases} cases, {found.alone} pass alone, {found.through} through Forebay"
    lost = f"{len(found.lost) - reasons.total()} lost, {reasons.total()} on purpose"
    print(f"{suite.name} with {origin}: {numbers}; {lost}", flush=True)
    for why, count in reasons.items():
        print(f"  on purpose, {count}: {why}", flush=True)
    for name, why in found.lost.items():
        if not why:
            print(f"  LOST: {name}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

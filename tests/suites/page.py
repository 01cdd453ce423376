"""The tables in docs/suites.md: what `python -m suites` found, a row for each suite and origin; where suites are from;
what is lost on purpose. Rows of what was not run this time stay as they are."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from suites.suite import Suite, SuiteComparison

PAGE: Final = Path(__file__).parents[2] / "docs" / "suites.md"
BEGIN: Final = "<!-- written by `make suites`: begin -->"
END: Final = "<!-- end -->"
_HEAD: Final = (
    "| suite | origin | cases | pass alone | pass through Forebay | lost | on purpose | run |",
    "|---|---|---:|---:|---:|---:|---:|---|",
)


def rows(text: str) -> dict[tuple[str, str], str]:
    """The rows of the table, by suite and origin."""
    table = text.partition(BEGIN)[2].partition(END)[0]
    found = re.findall(r"^\| ([^|]+) \| ([^|]+) \| \d.*$", table, flags=re.MULTILINE)
    lines = [line for line in table.splitlines() if re.match(r"\| [^|]+ \| [^|]+ \| \d", line)]
    return dict(zip(found, lines, strict=True))


def updated_page(
    text: str, suites: Sequence[Suite], results: Mapping[tuple[str, str], SuiteComparison], day: str
) -> str:
    """The page with the rows of `results`."""
    kept = rows(text)
    lines = list(_HEAD)
    for suite in suites:
        for origin in suite.origins:
            found = results.get((suite.name, origin))
            if found is not None:
                explained = sum(why != "" for why in found.lost.values())
                numbers = (
                    f"{found.cases} | {found.alone} | {found.through} | {len(found.lost) - explained} | {explained}"
                )
                lines.append(f"| {suite.title} | {origin} | {numbers} | {day} |")
            elif (suite.title, origin) in kept:
                lines.append(kept[suite.title, origin])
    lines += ["", "| suite | from |", "|---|---|"]
    lines += dict.fromkeys(f"| {suite.title} | {suite.source} |" for suite in suites)
    lines += ["", "| suite | on purpose |", "|---|---|"]
    lines += dict.fromkeys(f"| {suite.title} | {why} |" for suite in suites for why in suite.known.values())
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n\n" + "\n".join(lines) + f"\n\n{END}{rest.partition(END)[2]}"

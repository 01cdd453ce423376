"""docs/security.md lists every hazard once, each with a test that is there or the words for why there is none."""

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "security.md").read_text()
HAZARDS: Final = dict(re.findall(r"^\| (\d+) \| [^|]+ \| ([^|]+) \|$", PAGE, re.MULTILINE))
MOST: Final = 46


def test_every_hazard_has_its_row() -> None:
    numbers = [int(number) for number in HAZARDS]
    assert numbers == list(range(1, MOST + 1))


def test_each_is_held_by_a_test_or_says_why_not() -> None:
    for number, held_by in HAZARDS.items():
        tests = re.findall(r"`(tests/[\w/]+\.py)`", held_by)
        assert tests or held_by.startswith("no such feature yet"), number
        for test in tests:
            assert "def test_" in (ROOT / test).read_text(), f"{number}: {test} has no test"


def test_each_defence_names_its_tests() -> None:
    defences = PAGE.partition("## What is defended, and how")[2].partition("\n## ")[0]
    rows = [line for line in defences.splitlines() if line.startswith("| ")][1:]
    assert rows
    for row in rows:
        assert "`tests/" in row.rsplit("|", 2)[1], row

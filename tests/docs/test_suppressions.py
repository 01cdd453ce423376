"""Whatever silences a check says on its line which one, and why."""

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
FOLDERS: Final = ("proxy", "client", "tests", "benchmarks")
FILES: Final = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py")) if file != Path(__file__)]
SILENCED: Final = re.compile(r"# (?:noqa|type: ignore|pragma)\b(: [A-Z]+[0-9]+(?:, [A-Z]+[0-9]+)*|\[[a-z, -]+\])?(.*)")
SAME: Final = frozenset({"as above", "likewise"})


def _problems(file: Path) -> list[str]:
    found, reasoned = [], False
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if silenced := SILENCED.search(line):
            which, why = silenced[1], silenced[2].strip(" #-")
            if not which:
                found.append(f"{number}: silences everything")
            if not why:
                found.append(f"{number}: does not say why")
            elif why.partition(":")[0] not in SAME:
                reasoned = True
            elif not reasoned:
                found.append(f"{number}: {why!r}, and nothing above it says so")
    return found


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_says_which_check_and_why(folder: str) -> None:
    files = [file for file in FILES if file.relative_to(ROOT).parts[0] == folder]
    assert files
    assert {str(file.relative_to(ROOT)): found for file in files if (found := _problems(file))} == {}

"""docs/training-with-forebay.md quotes what benchmarks have measured, and nothing else."""

import re
from typing import Final

import pytest

from structure.source_tree import ROOT

TEXT: Final = (ROOT / "docs" / "training-with-forebay.md").read_text()
ROWS: Final = [
    tuple(cell.strip() for cell in line.strip("|").split("|")) for line in TEXT.splitlines() if line.startswith("| [")
]
_FIGURE: Final = re.compile(r"(\d[\d,]*\.\d+)(?: (?:s|ms|µs|MB/s))?")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_each_figure_stands_on_the_page_that_is_named(row: tuple[str, ...]) -> None:
    step, _, figure, source = row
    [page] = re.findall(r"\]\(([\w.-]+)\)", source)
    measured = (ROOT / "docs" / page).read_text()
    figures = _FIGURE.findall(figure)
    assert figures or "no benchmark" in figure, step
    cells = {cell.strip(" *") for line in measured.splitlines() if line.startswith("|") for cell in line.split("|")}
    numbers = {number for cell in cells for number in re.findall(r"\d[\d,]*\.?\d*", cell)}
    assert [each for each in figures if each not in numbers] == []


def test_there_is_a_section_for_each_step() -> None:
    assert len(ROWS) == 10
    for number, row in enumerate(ROWS, start=1):
        title = re.findall(r"\[(.*?)\]", row[0])[0]
        assert title.startswith(f"{number}. ")
        assert f"\n## {number}. " in TEXT

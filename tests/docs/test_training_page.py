"""docs/training-with-forebay.md quotes what benchmarks have measured, and nothing else; its examples run."""

import re
from pathlib import Path
from typing import Final

import pytest

from harness.fake_origin import FakeOrigin
from harness.page_examples import run_examples
from harness.rig import Rig
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


async def test_the_examples_send_a_plan_and_read(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("datasets", "train/0001", b"sample")
        printed = await run_examples(
            "training-with-forebay.md", rig, before='order = ["train/0001"]', after="print(bytes(content))"
        )
        [plan] = rig.parts.jobs.plans.coordinator.plans()
        rig.parts.jobs.plans.coordinator.close()
    assert (printed, plan.name) == ("b'sample'\n", "run-7/epoch-0")

"""docs/training-with-forebay.md quotes what benchmarks have measured, and nothing else; its examples run."""

import re
from pathlib import Path
from typing import Final

import pytest
from benchmarks.figures.measured_pages import MeasuredPages
from benchmarks.figures.training_guide import rendered

from harness.fake_origin import FakeOrigin
from harness.page_examples import run_examples
from harness.rig import Rig
from structure.source_tree import ROOT

TEXT: Final = (ROOT / "docs" / "training-with-forebay.md").read_text()
ROWS: Final = [
    tuple(cell.strip() for cell in line.strip("|").split("|")) for line in TEXT.splitlines() if line.startswith("| [")
]


def test_each_figure_is_the_one_that_was_measured() -> None:
    """If this fails after a benchmark was run: `python -m benchmarks.figures`."""
    assert rendered(TEXT, MeasuredPages.read()) == TEXT


def test_a_page_without_a_figure_is_refused() -> None:
    pages = MeasuredPages.read()
    with pytest.raises(LookupError, match="forebay_client over HTTP"):
        rendered(TEXT, pages._replace(clients=pages.clients.replace("forebay_client over HTTP |", "a client |")))


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

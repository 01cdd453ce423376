"""The examples of docs/write-back.md are run: each is a dialogue with a Forebay and an origin of its own."""

from pathlib import Path
from typing import Final

import pytest

from harness.page_stage import PageDialogues

PAGE: Final = PageDialogues("write-back.md")
WITHOUT_EXAMPLE: Final = {
    "The examples",
    "Above high water",
    "When Forebay ends",
    "When the disk fails",
    "One origin",
}
"""Those about a full or failing disk, SIGTERM and another configuration: tests/scenarios/test_write_back_*.py."""


@pytest.mark.parametrize("title", PAGE.with_examples)
async def test_the_examples_are_true(title: str, tmp_path: Path) -> None:
    for number, example in enumerate(PAGE.sections[title]):
        wrong = await PAGE.check(example, tmp_path / str(number))
        assert not wrong, wrong


def test_every_section_has_an_example() -> None:
    assert PAGE.without_examples == WITHOUT_EXAMPLE

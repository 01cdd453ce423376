"""The examples of docs/semantics.md are run: each is a dialogue with a Forebay and an origin of its own."""

from pathlib import Path
from typing import Final

import pytest

from harness.page_stage import PageDialogues

PAGE: Final = PageDialogues("semantics.md")
WITHOUT_EXAMPLE: Final = {"Tenets", "Promises", "The examples", "What is not promised"}


@pytest.mark.parametrize("title", PAGE.with_examples)
async def test_the_examples_are_true(title: str, tmp_path: Path) -> None:
    for number, example in enumerate(PAGE.sections[title]):
        wrong = await PAGE.check(example, tmp_path / str(number))
        assert not wrong, wrong


def test_every_section_has_an_example() -> None:
    assert PAGE.without_examples == WITHOUT_EXAMPLE


async def test_an_example_that_is_not_true_is_found(tmp_path: Path) -> None:
    """The runner itself: doctest must be looking at the output."""
    example = PAGE.sections["x-forebay-cache"][0]
    assert "'miss')" in example
    assert "Expected:" in await PAGE.check(example, tmp_path, lambda text: text.replace("'miss')", "'hit-ssd')", 1))

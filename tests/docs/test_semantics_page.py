"""The examples of the pages of docs/semantics are run: each is a dialogue with a Forebay and an origin of its own."""

from pathlib import Path
from typing import Final

import pytest

from harness.page_stage import PageDialogues

FRONT: Final = "semantics.md"
DOCS: Final = Path(__file__).parents[2] / "docs"
PAGES: Final = {page.stem: PageDialogues(f"semantics/{page.name}", FRONT) for page in (DOCS / "semantics").glob("*.md")}
EXAMPLES: Final = [(name, title) for name, page in PAGES.items() for title in page.with_examples]


@pytest.mark.parametrize(("name", "title"), EXAMPLES)
async def test_the_examples_are_true(name: str, title: str, tmp_path: Path) -> None:
    page = PAGES[name]
    for number, example in enumerate(page.sections[title]):
        wrong = await page.check(example, tmp_path / str(number))
        assert not wrong, wrong


@pytest.mark.parametrize("name", PAGES)
def test_every_section_has_an_example(name: str) -> None:
    assert PAGES[name].without_examples == set()


def test_the_front_page_has_the_rules_and_no_example() -> None:
    front = PageDialogues(FRONT)
    assert front.with_examples == []
    assert front.sections.keys() == {"Tenets", "Promises", "The examples", "What is not promised"}


async def test_an_example_that_is_not_true_is_found(tmp_path: Path) -> None:
    """The runner itself: doctest must be looking at the output."""
    page = PAGES["cached-objects"]
    example = page.sections["x-forebay-cache"][0]
    assert "'miss')" in example
    assert "Expected:" in await page.check(example, tmp_path, lambda text: text.replace("'miss')", "'hit-ssd')", 1))

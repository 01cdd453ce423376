"""The pages of benchmarks: what stands around their figures is what the programs would write that have made them."""

import re
from typing import Final

import pytest
from benchmarks.catalogue import LONG, PARTED
from benchmarks.pages.page import own_page, page
from benchmarks.pages.part_pages import parted_page
from benchmarks.pages.tables import Table

from structure.source_tree import ROOT

DOCS: Final = ROOT / "docs"
NO_FACTS: Final = Table(("fact", ""), [])


def around(text: str) -> list[str]:
    """What a page says before the facts of the machine, and from its last section on, but for how long the run took."""
    before, _, after = re.sub(r"The whole run took \d+ minutes", "", text).partition("\n\n| fact |")
    return [before, after.rpartition("\n## ")[2]]


def test_the_page_of_hits_is_framed_as_it_is_written() -> None:
    assert around((DOCS / "benchmarks.md").read_text()) == around(page(NO_FACTS, [], 0.0))


@pytest.mark.parametrize("name", LONG)
def test_a_page_of_its_own_begins_as_it_is_written(name: str) -> None:
    assert around((DOCS / f"benchmarks-{name}.md").read_text())[0] == around(own_page(name, NO_FACTS, [], 0.0))[0]


@pytest.mark.parametrize("name", PARTED)
def test_a_page_of_parts_has_them_all_in_order(name: str) -> None:
    text = (DOCS / f"benchmarks-{name}.md").read_text()
    assert parted_page(name, list(PARTED[name]), text, {}) == text

"""The records of docs/decisions: each has a status, which names the records that it has changed and those that have
changed it; the index repeats what has happened to each."""

import re
from typing import Final

import pytest

from structure.source_tree import ROOT

FOLDER: Final = ROOT / "docs" / "decisions"
RECORDS: Final = {page.name[:4]: page.read_text() for page in sorted(FOLDER.glob("0*.md"))}
ROWS: Final = dict(
    re.findall(r"^\| \[(\d{4})\]\(.*\) \| .* \|(.*)\|$", (FOLDER / "README.md").read_text(), re.MULTILINE)
)
CONVERSE: Final = {"changed by": "changes", "superseded by": "supersedes"}


def relations(number: str) -> dict[str, list[str]]:
    """The records that a record's status names, by the verb before them."""
    found = re.search(r"^Status: (.*?)\n\n", RECORDS[number], re.MULTILINE | re.DOTALL)
    assert found is not None, number
    named: dict[str, list[str]] = {}
    for sentence in re.split(r"\. ?", found[1].replace("\n", " ").replace(".md", "")):
        if others := re.findall(r"\[(\d{4})\]", sentence):
            named[sentence.partition(" [")[0].lower()] = others
    return named


@pytest.mark.parametrize("number", RECORDS)
def test_a_status_and_its_converse(number: str) -> None:
    for verb, others in relations(number).items():
        [converse] = {there for pair in CONVERSE.items() for here, there in (pair, pair[::-1]) if here == verb}
        assert all(number in relations(other).get(converse, ()) for other in others), (verb, others)


@pytest.mark.parametrize("number", RECORDS)
def test_the_index_says_what_has_become_of_it(number: str) -> None:
    fate = [f"{verb} {' and '.join(others)}" for verb, others in relations(number).items() if verb in CONVERSE]
    assert [each for each in [ROWS[number].strip()] if each] == fate

"""CONTRIBUTING.md against the Makefile and pyproject.toml: each target is in the table of commands, with variables that
the target reads; the orders of rooms are those that import-linter checks."""

import re
import tomllib
from typing import Final

import pytest

from structure.source_tree import ROOT

_TARGET: Final = re.compile(r"^([a-z-]+):[^\n]*## (.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
PAGE: Final = (ROOT / "CONTRIBUTING.md").read_text()
RECIPES: Final = dict(_TARGET.findall((ROOT / "Makefile").read_text()))
ROWS: Final = {
    target: text
    for commands, text in re.findall(r"^\| (`.*?`) \| (.*) \|$", PAGE, re.MULTILINE)
    for target in re.findall(r"`make ([a-z-]+)`", commands)
}


def test_each_target_has_a_row() -> None:
    assert ROWS.keys() == RECIPES.keys()


@pytest.mark.parametrize("target", [target for target, text in ROWS.items() if "=" in text])
def test_the_variables_of_a_row_are_read(target: str) -> None:
    named = set(re.findall(r"`([A-Z]+)=", ROWS[target]))
    read = set(re.findall(r"\$\((?:or \$\()?([A-Z]+)\)", RECIPES[target]))
    assert named <= read | {"PYTHON"}


def test_the_orders_of_rooms_are_those_that_are_checked() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    checked = {
        contract["containers"][0].removeprefix("forebay.").replace(".", "/"): [
            each.split(" | ") for each in contract["layers"]
        ]
        for contract in contracts
        if "containers" in contract
    }
    section = PAGE.partition("\n| room | order |\n")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `([a-z/]+)` \| ([^:|]+).*\|$", section, re.MULTILINE)
    assert {room: [re.findall(r"\w+", each) for each in order.split(" > ")] for room, order in rows} == checked


def test_each_folder_of_tests_is_of_a_room_or_has_a_row() -> None:
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/*.py")}
    rooms = {path.parent.name for path in (ROOT / "proxy" / "forebay").glob("*/__init__.py")}
    named = set(re.findall(r"^\| `tests/([a-z]+)` \|", PAGE, re.MULTILINE))
    assert folders - rooms <= named <= folders

"""Names: each public class and each module is named once, and words that name nothing do not come back."""

import ast
import re
from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest

from structure.source_tree import ROOT, Module, defined_names, modules

BANNED: Final = frozenset(
    [
        "asked",
        "asker",
        "askers",
        "asking",
        "at_hand",
        "attend",
        "badlist",
        "cast",
        "cease",
        "coming",
        "departing",
        "departures",
        "doubts",
        "end_hearing",
        "foretell",
        "gather",
        "gathering",
        "given",
        "handing",
        "hanging",
        "hearsay",
        "hindrance",
        "hold",
        "hold_up",
        "holds",
        "in_words",
        "insist",
        "is_futile",
        "is_one_too_many",
        "keep_up",
        "keptreply",
        "lately",
        "leaving",
        "lend",
        "lent",
        "let_pass",
        "lies",
        "may_be_written",
        "misfit",
        "moving",
        "once_more",
        "one",
        "parcel",
        "pass_by",
        "passing",
        "place",
        "place_in",
        "places",
        "said",
        "shape",
        "shapes",
        "sound",
        "standing",
        "storedin",
        "story",
        "stretch",
        "stretches",
        "take",
        "take_heard",
        "taken",
        "takes",
        "tally",
        "tell",
        "telling",
        "tells",
        "told",
        "touched",
        "touches",
        "unmappable",
        "untold",
        "vain",
        "what",
        "whom",
        "wire",
        "wires",
        "words",
    ]
)
"""Identifiers that say nothing of what they name, or say what another term of the field says better."""

BANNED_PARTS: Final = frozenset({"asker", "told", "untold", "hearsay", "vain", "parcel", "wirehead", "athand"})
"""Words that stand in no name, alone or beside others."""

SHARED_FILE_NAMES: Final = {
    "__init__": "each package has one",
    "main": "the entry point of each command line",
}
"""File names that several modules share, and why."""


def parts(name: str) -> set[str]:
    """The words of a name in snake_case or CamelCase, in lower case."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)}


def banned(module: Module) -> list[str]:
    """The names that a module defines and should not."""
    return [
        f"{module.path}:{line}: {name}"
        for line, name in defined_names(module.tree)
        if name.strip("_").lower() in BANNED or parts(name) & BANNED_PARTS
    ]


def test_banned_identifiers_stay_away() -> None:
    assert [found for module in modules() for found in banned(module)] == []


@pytest.mark.parametrize(
    "source", ["def told(): ...", "class Asked: ...", "self.given = 1", "lambda vain: 0", "_told = 1", "ask_told = 1"]
)
def test_a_banned_identifier_is_found(source: str) -> None:

    assert len(banned(Module(Path("example.py"), ast.parse(source)))) == 1


def test_a_public_class_name_exists_once() -> None:

    where: dict[str, list[str]] = defaultdict(list)
    for module in modules():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where[node.name].append(str(module.path))
    assert {name: found for name, found in where.items() if len(found) > 1} == {}


def test_a_module_name_exists_once() -> None:
    where: dict[str, list[str]] = defaultdict(list)
    for module in modules():
        where[module.name].append(str(module.path))
    repeated = {name: found for name, found in where.items() if len(found) > 1}
    assert {name: found for name, found in repeated.items() if name not in SHARED_FILE_NAMES} == {}
    assert set(SHARED_FILE_NAMES) <= set(repeated), "a reason for a name that is not shared"


def test_a_test_is_named_in_at_most_65_characters() -> None:
    named = [
        (file.relative_to(ROOT), name)
        for file in sorted((ROOT / "tests").rglob("test_*.py"))
        for name in re.findall(r"^ *(?:async )?def (test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert named
    assert [f"{file}: {name}" for file, name in named if len(name) > 65] == []

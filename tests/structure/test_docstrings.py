"""Docstrings: the first sentence names its subject, or says what a function does: no clause takes a noun's place."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from structure.source_tree import Module, modules

CLAUSES: Final = frozenset(
    [
        "What",
        "Which",
        "Who",
        "Whose",
        "Whom",
        "Where",
        "When",
        "How",
        "Of",
        "So",
        "Until",
        "Its",
        "Those",
        "Behind",
        "Under",
        "Nothing",
        "Nobody",
        "Somebody",
    ]
)
"""First words of a clause that leaves its subject to the reader."""


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of each docstring, those of fields and constants included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def without_subject(module: Module) -> list[str]:
    """The docstrings that begin with a clause."""
    found = [(line, text.split(maxsplit=1)) for line, text in docstrings(module.tree)]
    return [f"{module.path}:{line}: {words[0]}" for line, words in found if words and words[0] in CLAUSES]


def test_docstrings_begin_with_a_subject_or_a_verb() -> None:
    assert sum(1 for module in modules() for _ in docstrings(module.tree)) > 1000
    assert [found for module in modules() for found in without_subject(module)] == []


@pytest.mark.parametrize(
    "source", ['"""What a module has."""', 'A = 1\n"""Of a key."""', 'def a() -> int:\n    """How many."""']
)
def test_a_clause_in_place_of_a_noun_is_found(source: str) -> None:
    assert len(without_subject(Module(Path("example.py"), ast.parse(source)))) == 1

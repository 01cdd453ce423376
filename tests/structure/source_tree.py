"""The packages' modules as syntax trees: what the tests of names and of rooms look at."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = {"forebay": "proxy", "forebay_demo": "proxy", "forebay_client": "client"}
"""Package to the folder that holds it."""


@dataclass(frozen=True, slots=True)
class Module:
    """One module of a package."""

    path: Path
    """Relative to the package's parent folder: `forebay/core/errors.py`."""
    tree: ast.Module

    @property
    def name(self) -> str:
        """The file's name, without `.py`."""
        return self.path.stem


@cache
def modules() -> tuple[Module, ...]:
    """Every module of every package, `__init__` included. Parsed by the first test that asks: not at the collection,
    which each process of pytest makes."""
    return tuple(
        Module(file.relative_to(ROOT / folder), ast.parse(file.read_text(encoding="utf-8")))
        for package, folder in PACKAGES.items()
        for file in sorted((ROOT / folder / package).rglob("*.py"))
    )


def defined_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of each class, function, parameter, field, attribute and variable that a module defines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        elif isinstance(node, ast.alias) and node.asname is not None:
            yield 0, node.asname

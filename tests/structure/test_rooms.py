"""Rooms: the folders of tests are those of the packages, and each test of a module stands where the module does."""

import re
from pathlib import Path
from typing import Final

import pytest

from structure.source_tree import PACKAGES, ROOT
from structure.tested_elsewhere import TESTED_ELSEWHERE

TESTS: Final = ROOT / "tests"
FOLDER_OF: Final = {"forebay": "", "forebay_demo": "demo", "forebay_client": "client"}
"""Package to the folder in tests/ that mirrors it."""

ACROSS_MODULES: Final = {
    "compat": "real clients",
    "faults": "origin faults x operations, through a whole worker",
    "docs": "pages and files for users",
    "harness": "what tests are made with, and its own tests",
    "origin/conformance": "one suite for every origin, and for Forebay in front of each",
    "differential": "one request, or one call of the client library, straight to an origin and through Forebay",
    "properties": "generated requests and histories",
    "scenarios": "a whole worker, request by request",
    "security": "attacks",
    "soak": "a program (make soak)",
    "structure": "the source tree itself",
    "suites": "suites of others (make suites)",
}
"""Folders of tests that mirror no module, and what they test."""

MODULES: Final = {
    str(Path(FOLDER_OF[package], *file.relative_to(ROOT / folder / package).with_suffix("").parts))
    for package, folder in PACKAGES.items()
    for file in (ROOT / folder / package).rglob("*.py")
    if file.stem != "__init__"
}
"""Each module, as the path of its tests begins: `storage/ssd/index/index`."""


def mirrored() -> list[Path]:
    """The test files that belong to one module, relative to tests/."""
    found = (file.relative_to(TESTS) for file in sorted(TESTS.rglob("test_*.py")))
    return [file for file in found if not any(file.is_relative_to(folder) for folder in ACROSS_MODULES)]


def module_of(test: Path) -> str | None:
    """The module that `test_<module>.py`, or `test_<module>_<aspect>.py`, tests; None if there is none."""
    stem = test.stem.removeprefix("test_")
    while stem:
        if (found := str(test.with_name(stem))) in MODULES:
            return found
        stem = stem.rpartition("_")[0]
    return None


def test_each_test_stands_beside_its_module() -> None:
    top = {"test_benchmarks_smoke.py", "test_benchmarks_plain_reads.py"}  # the benchmarks are no package of the product
    assert [str(test) for test in mirrored() if module_of(test) is None and str(test) not in top] == []


@pytest.mark.parametrize(
    ("test", "module"),
    [
        ("storage/ssd/index/test_index.py", "storage/ssd/index/index"),
        ("storage/ssd/index/test_index_crash.py", "storage/ssd/index/index"),
        ("storage/test_index.py", None),
        ("core/test_gone.py", None),
    ],
)
def test_a_stray_test_is_found(test: str, module: str | None) -> None:
    assert module_of(Path(test)) == module


def imported_test_files(source: str) -> list[str]:
    """The test files that a module imports from: `scenarios.test_reads`."""
    found = re.findall(r"^ *(?:from|import) ((?:\w+\.)*test_\w+)", source, re.MULTILINE)
    return [module for module in found if (TESTS / f"{module.replace('.', '/')}.py").exists()]


def test_no_test_file_is_imported() -> None:
    """What several test files share is a module of the harness, or one beside them."""
    files = [file for folder in (TESTS, ROOT / "benchmarks") for file in folder.rglob("*.py")]
    imported = {str(file.relative_to(ROOT)): imported_test_files(file.read_text(encoding="utf-8")) for file in files}
    assert {file: found for file, found in imported.items() if found} == {}


def test_an_import_from_a_test_file_is_found() -> None:
    assert imported_test_files("from structure.test_rooms import ROOT\nimport ast\n") == ["structure.test_rooms"]
    assert imported_test_files("from aiohttp.test_utils import TestClient\n") == []


def test_folders_across_modules_exist() -> None:
    assert [folder for folder in ACROSS_MODULES if not (TESTS / folder).is_dir()] == []


def test_each_module_has_tests() -> None:
    """Its own file, or the one that `TESTED_ELSEWHERE` names."""
    own = {module_of(test) for test in mirrored()}
    assert sorted(module for module in MODULES if module not in own and module not in TESTED_ELSEWHERE) == []


def test_tested_elsewhere_is_up_to_date() -> None:
    own = {module_of(test) for test in mirrored()}
    assert sorted(set(TESTED_ELSEWHERE) - MODULES) == [], "modules that are gone"
    assert sorted(set(TESTED_ELSEWHERE) & own) == [], "modules that have a test file now"
    assert sorted({test for test in TESTED_ELSEWHERE.values() if not (TESTS / test).exists()}) == []

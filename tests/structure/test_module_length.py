"""The length of modules: past LONGEST lines a noun is missing (CONTRIBUTING.md, house rules)."""

from typing import Final

from structure.source_tree import PACKAGES, ROOT

LONGEST: Final = 350


def test_no_module_is_longer_than_one_noun_needs() -> None:
    lengths = {
        str(file.relative_to(ROOT)): len(file.read_text(encoding="utf-8").splitlines())
        for package, folder in PACKAGES.items()
        for file in (ROOT / folder / package).rglob("*.py")
    }
    assert len(lengths) > 100
    assert {file: length for file, length in lengths.items() if length > LONGEST} == {}
